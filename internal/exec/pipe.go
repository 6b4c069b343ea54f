package exec

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/pipe"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// pipes are the pipes to a server, or to the masters of a Cluster.
type pipes struct {
	connector driver.Connector // nil: there are no pipes
	refused   atomic.Bool      // the connector cannot make a connection that pipes can use

	tasks Tasks // apart from Config.Tasks, so that a closing client cancels a connection being made instead of waiting for it
	mu    sync.Mutex
	all   map[string]*pipe.Pipe // by the driver's names for masters; outside Cluster mode only ""
}

// maxPipes bounds how many masters of a Cluster have a pipe, including masters that have left it.
const maxPipes = 1000

// Pipe returns the pipe to the server that has the key, or nil if there are no pipes or that server is not known.
func (s *Server) Pipe(key string) *pipe.Pipe {
	if s.pipes.connector == nil || s.pipes.refused.Load() {
		return nil
	}
	node, inCluster := "", s.InCluster()
	if inCluster {
		if node = s.Node(key); node == "" {
			return nil
		}
	}
	s.pipes.mu.Lock()
	defer s.pipes.mu.Unlock()
	p := s.pipes.all[node]
	if p != nil {
		return p
	}
	if len(s.pipes.all) == maxPipes {
		for name, p := range s.pipes.all {
			p.Close()
			delete(s.pipes.all, name)
		}
	}
	p = &pipe.Pipe{
		Open:        func(ctx context.Context) (driver.Connection, error) { return s.pipes.connector.Connect(ctx, node) },
		OpenTimeout: openTimeout, Timeout: s.cfg.CommandTimeout, Go: s.pipes.tasks.Run,
		InCluster: inCluster,
	}
	if s.pipes.all == nil {
		s.pipes.all = map[string]*pipe.Pipe{}
	}
	s.pipes.all[node] = p
	return p
}

// openTimeout bounds opening a connection.
const openTimeout = 10 * time.Second

// SendOn sends a call on a pipe, and notes what the answer says about the server.
func (s *Server) SendOn(ctx context.Context, p *pipe.Pipe, c *pipe.Call) error {
	if c.Kind == pipe.Acquire || c.Kind == pipe.Vote {
		if err := s.pipes.connector.Ready(); err != nil {
			return err
		}
	}
	before := s.outage.answers.Load()
	err := p.Send(ctx, c)
	switch over := ctx.Err(); {
	case resp.Is(err, "NOSCRIPT "): // the source follows
		return err
	// mutants: caller-left
	case err == nil || over == nil || !errors.Is(err, over):
	case errors.Is(err, driver.ErrNotSent): // whether the server can be reached is not known yet
		sent := try{c.Began, before}
		// mutants: left-unopened
		p.WhenOpened(func(err error) { s.tried(sent, err) })
		return err
	default:
		return err // Call.Late tells the outcome; an attempt is taken back, and that shows whether the server answers
	}
	s.answered(c, before, err)
	return err
}

// StartOn is SendOn, but returns at once and calls then with the error. If it returns false, nothing was sent and then is not called.
func (s *Server) StartOn(p *pipe.Pipe, c *pipe.Call, then func(error)) bool {
	if c.Kind != pipe.Release && c.Kind != pipe.Delete && s.pipes.connector.Ready() != nil {
		return false
	}
	before := s.outage.answers.Load()
	return p.Start(c, func(err error) {
		s.answered(c, before, err)
		then(err)
	})
}

// StartBehind sends a release on the connection of an earlier call, behind it. If that connection has ended, nothing is sent.
func (s *Server) StartBehind(earlier, release *pipe.Call) {
	before := s.outage.answers.Load()
	pipe.StartBehind(earlier, release, func(err error) { s.answered(release, before, err) })
}

// answered notes what the answer to a call, or its error, says about the server. before is how many requests had been answered when the
// call was sent.
func (s *Server) answered(c *pipe.Call, before int64, err error) {
	if errors.Is(err, errors.ErrUnsupported) {
		s.pipes.refused.Store(true)
		return
	}
	s.tried(try{c.Began, before}, err)
	if err != nil {
		s.pipes.connector.Failed(err)
	} else if c.Now != 0 {
		slot := uint16(0)
		if s.InCluster() {
			slot = keys.Slot(c.Lock)
		}
		s.note(slot, c.Sent, c.Heard.Mono, c.Now)
	}
}

// Node returns the driver's name for the server of a Cluster that has the key, or "" if it is not known.
func (s *Server) Node(key string) string {
	if s.cluster != nil {
		return s.cluster.Node(key)
	}
	return ""
}

// runCall runs a script or command, on a pipe if there is one. It returns when ctx ends.
func (s *Server) runCall(ctx context.Context, c driver.Call) (string, error) {
	key := ""
	if len(c.Keys) > 0 {
		key = c.Keys[0]
	}
	p := s.Pipe(key)
	if p == nil {
		return s.runByDriver(ctx, c)
	}
	sent := s.trying()
	if !c.Urgent || c.Renews {
		if err := s.pipes.connector.Ready(); err != nil {
			s.tried(sent, err)
			return "", err
		}
	}
	call := &pipe.Call{Words: pipe.WordsOf(c, false), Late: func(err error) { s.tried(sent, err) }}
	err := s.SendOn(ctx, p, call)
	if resp.Is(err, "NOSCRIPT ") {
		call.Words = pipe.WordsOf(c, true)
		err = s.SendOn(ctx, p, call)
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported), resp.Is(err, elsewhere...):
		return s.runByDriver(ctx, c)
	case err != nil:
		return "", err
	}
	return call.Text, nil
}

func (s *Server) runByDriver(ctx context.Context, c driver.Call) (string, error) {
	return shielded(ctx, s, func(ctx context.Context) (string, error) { return s.driver.Run(ctx, c) })
}

// elsewhere has the prefixes of the errors by which a server of a Cluster says that another one has the key. The driver finds out which.
var elsewhere = []string{"MOVED ", "ASK "}
