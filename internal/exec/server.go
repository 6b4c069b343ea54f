// Package exec carries out requests to one server, or one Cluster. It connects, bounds each attempt, repeats those that failed for a
// passing reason, classifies errors, waits for replicas and disks, and keeps track of the server's clock. A request has a name, for errors,
// and keys; exec knows no locks.
package exec

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Config is what a Server needs to know of its client.
type Config struct {
	CommandTimeout time.Duration                 // bounds one attempt
	RetryTimeout   time.Duration                 // bounds all attempts
	Tasks          *Tasks                        // the client waits for them when it closes
	Closing        <-chan struct{}               // closed when the client begins to close
	Accept         func(driver.ServerInfo) error // refuses a server that has what exec needs, but is unfit for this client; or nil
	Lost           func(error)                   // called with the last error when the server stops answering; or nil
	Found          func(down time.Duration)      // called when the server answers again; set if Lost is
	ViaClient      bool                          // all calls go by the driver's own connections
	ClientClosed   func()                        // called once if the program closes the driver's client before this one; or nil
}

// Server is the server or Cluster behind a driver.
type Server struct {
	driver driver.Driver
	cfg    Config

	// The driver's optional interfaces; nil if it lacks them.
	durable driver.Durable
	cluster driver.Cluster
	pipes   pipes

	// RTT is a running mean of how long the server takes to answer.
	RTT RoundTrip

	// DeletesIfEqual says that the server is known to have DELIFEQ.
	DeletesIfEqual atomic.Bool

	info      atomic.Pointer[driver.ServerInfo] // nil until known
	contactMu sync.Mutex
	reaching  *contact // the attempt under way to find out what the server is, or nil

	outage  outage
	written atomic.Bool // the server has accepted a write

	clockMu sync.Mutex
	clocks  map[uint16]Anchor // of a client's servers, by Cluster slot; outside Cluster mode there is only slot 0
}

// New returns the server behind a driver. It sends nothing.
func New(d driver.Driver, cfg Config) *Server {
	s := &Server{driver: d, cfg: cfg, clocks: map[uint16]Anchor{}, outage: outage{news: Limiter{Tasks: cfg.Tasks, Most: 1}}}
	s.durable, _ = driver.As[driver.Durable](d)
	s.cluster, _ = driver.As[driver.Cluster](d)
	if c, is := d.(driver.Connector); is && !cfg.ViaClient && reflect.TypeOf(d).Comparable() && c.Connects() == d {
		s.pipes.connector = c
	}
	return s
}

// Addr names the server in errors and logs, without credentials.
func (s *Server) Addr() string { return s.driver.Addr() }

// Close closes the pipes, and what the driver opened itself.
func (s *Server) Close() error {
	s.pipes.mu.Lock()
	for _, p := range s.pipes.all {
		p.Close()
	}
	s.pipes.mu.Unlock()
	s.pipes.tasks.Wait()
	return s.driver.Close()
}

// CanConfirm reports whether the driver can wait for replicas and disks.
func (s *Server) CanConfirm() bool { return s.durable != nil }

func (s *Server) Subscribe(sub driver.Subscription) (cancel func()) { return s.driver.Subscribe(sub) }

// Request is a script or command to run.
type Request struct {
	Op   string // the operation, for errors
	Name string // what it is about, for errors
	Slot uint16 // of its keys, in Cluster mode; else 0
	Call driver.Call
	// Durability is what the write must achieve before it counts; nil if it counts once it is carried out. Its Counts must be set.
	Durability *driver.Durability

	Began time.Time   // when the first attempt began; zero: there was none
	Met   func(error) // called with the error of each failed attempt; or nil
}

// Answer is a script's reply. Sent is when the request was sent that it answers.
type Answer struct {
	Text string
	Sent clock.Instant
}

// Do sends a request, and retries it after temporary failures until RetryTimeout has passed or ctx ends. unanswered reports whether the
// server may have carried out an attempt that it did not answer, or may still do so.
func (s *Server) Do(ctx context.Context, rq Request) (a Answer, unanswered bool, err error) {
	return Persist(ctx, s, rq.Op, rq.Name, rq.Began, func(work context.Context) (Answer, error) {
		a, err := s.Send(work, rq)
		if err != nil && rq.Met != nil && ctx.Err() == nil {
			rq.Met(s.Failure(rq.Op, rq.Name, err))
		}
		return a, err
	})
}

// Send sends a request once. It sends the request again only if the script says that it has merely removed what others left behind.
func (s *Server) Send(ctx context.Context, rq Request) (a Answer, err error) {
	for {
		a.Sent = clock.Now()
		if rq.Durability == nil {
			a.Text, err = s.runCall(ctx, rq.Call)
		} else {
			a.Text, err = s.runDurably(ctx, rq.Call, *rq.Durability)
		}
		if err == nil {
			err = s.heard(rq.Slot, a.Sent, a.Text)
		}
		if caught, is := err.(wire.ScriptError); !is || !strings.HasPrefix(string(caught), again) || ctx.Err() != nil {
			return a, err
		}
	}
}

// SendOnce is Send, but returns when CommandTimeout has passed, even if the driver has not returned by then.
func (s *Server) SendOnce(rq Request) (Answer, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), s.cfg.CommandTimeout, errTimedOut)
	defer cancel()
	return s.Send(ctx, rq)
}

// heard reads the beginning of a reply that has just arrived to a request sent at sent. It returns the error that the script has caught,
// or wire.ErrMalformed.
func (s *Server) heard(slot uint16, sent clock.Instant, text string) error {
	reply, err := wire.ParseReply(text)
	if err == nil {
		s.note(slot, sent, clock.Mono(), reply.Now)
	}
	return err
}

// again is the prefix of a script's error if the script has merely removed what others left behind. Such a script stops after a bounded
// number of steps, so as not to delay other requests.
const again = "AGAIN "

// HasWritten notes that the server has accepted a write.
func (s *Server) HasWritten() {
	if !s.written.Load() {
		s.written.Store(true)
	}
}

// contact is an attempt to find out what the server is. All callers that need to know meanwhile share it.
type contact struct {
	met     error         // error of the latest probe; Server.contactMu guards it
	refused chan struct{} // closed when the first connection is refused
	over    chan struct{} // closed when the attempt has ended
	err     error         // valid once over is closed
}

// Info returns what the server says about itself, or nil before it was asked.
func (s *Server) Info() *driver.ServerInfo { return s.info.Load() }

// InCluster reports whether the server runs in Cluster mode. It may be called only after Connect.
func (s *Server) InCluster() bool { return s.info.Load().Cluster }

// Connect finds out what the server is, once. Callers that come during an attempt share its outcome: if each began a new one after a
// failure, a server that is down would keep callers waiting one after another.
func (s *Server) Connect(ctx context.Context, name string) error {
	if s.info.Load() != nil {
		return nil
	}
	began := time.Now()
	if ctx.Err() != nil {
		return s.Unheard(ctx, OpReach, name, began)
	}
	s.contactMu.Lock()
	trying := s.reaching
	if trying == nil {
		trying = &contact{refused: make(chan struct{}), over: make(chan struct{})}
		s.reaching = trying
		s.cfg.Tasks.Run(func() { s.reach(trying, name) })
	}
	s.contactMu.Unlock()
	var refused chan struct{}
	if isHasty(ctx) {
		refused = trying.refused
	}
	select {
	case <-trying.over:
		if f, is := as[*Failure](trying.err); is && f.Name != name {
			own := *f
			own.Name = name
			return &own
		}
		return trying.err
	case <-s.cfg.Closing:
		return ErrClosed
	case <-refused:
	case <-ctx.Done():
	}
	s.contactMu.Lock()
	defer s.contactMu.Unlock()
	switch {
	case ctx.Err() == nil:
		return s.Failure(OpReach, name, trying.met)
	case trying.met != nil:
		return EndedBy(ctx, s.Failure(OpReach, name, trying.met))
	}
	return s.Unheard(ctx, OpReach, name, began)
}

// reach probes the server until it answers or RetryTimeout has passed.
func (s *Server) reach(trying *contact, name string) {
	ctx, cancel := s.WhileOpen()
	defer cancel()
	refuse := sync.OnceFunc(func() { close(trying.refused) })
	server, _, err := Persist(ctx, s, OpReach, name, time.Time{}, func(work context.Context) (Found, error) {
		return shielded(work, s, func(one context.Context) (Found, error) {
			// A probe holds nothing, so its connection may be torn down when the client closes.
			one, end := context.WithCancel(one)
			defer end()
			defer context.AfterFunc(ctx, end)()
			server, err := s.probe(one)
			if err != nil {
				s.contactMu.Lock()
				defer s.contactMu.Unlock()
				trying.met = err
				if isRefused(err) {
					refuse()
				}
			}
			return server, err
		})
	})
	switch {
	case err == nil:
		err = s.Use(server, name)
	case s.isClosing():
		err = ErrClosed
	}
	s.contactMu.Lock()
	defer s.contactMu.Unlock()
	trying.err = err
	s.reaching = nil
	close(trying.over)
}

// WhileOpen returns a context that ends when the client begins to close.
func (s *Server) WhileOpen() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	s.cfg.Tasks.Run(func() {
		select {
		case <-s.cfg.Closing:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}

func (s *Server) isClosing() bool {
	select {
	case <-s.cfg.Closing:
		return true
	default:
		return false
	}
}

// Found is what a server says about itself, and when it was asked.
type Found struct {
	driver.ServerInfo
	Sent clock.Instant
}

// Probe asks the server what it is, once. It returns when ctx ends.
func (s *Server) Probe(ctx context.Context) (Found, error) { return shielded(ctx, s, s.probe) }

func (s *Server) probe(ctx context.Context) (Found, error) {
	sent := clock.Now()
	info, err := s.driver.Probe(ctx)
	if err == nil && (info.Time.UnixMicro() <= 0 || info.Time.UnixMicro() > wire.MaxTime) {
		err = wire.ErrMalformed
	}
	return Found{info, sent}, err
}

// Use accepts a server that was found, or returns why it cannot be used. name is for the error.
func (s *Server) Use(server Found, name string) error {
	err := supported(server.ServerInfo)
	if err == nil && s.cfg.Accept != nil {
		err = s.cfg.Accept(server.ServerInfo)
	}
	if err != nil {
		return &Failure{Op: "use", Name: name, Server: s.Addr(), Kind: ErrUnsupported, Err: err}
	}
	has, known := isAsNew(server.ServerInfo, delifeq)
	s.DeletesIfEqual.Store(has && known)
	s.note(0, server.Sent, 0, server.Time.UnixMicro()) // making the connection took part of the time
	s.info.Store(&server.ServerInfo)
	return nil
}

// minimum is the oldest supported version of each server.
var minimum = map[string][2]int{"redis": {7, 0}, "valkey": {7, 2}}

func supported(s driver.ServerInfo) error {
	if is, known := isAsNew(s, minimum); known && !is {
		least := minimum[s.Server]
		return fmt.Errorf("it is %s %s; %s %d.%d or later is needed", s.Server, s.Version, s.Server, least[0], least[1])
	}
	return nil
}

// delifeq is the oldest version of each server that has DELIFEQ.
var delifeq = map[string][2]int{"valkey": {9, 0}}

// isAsNew reports whether the server is at least as new as since demands of its kind. It knows neither other kinds nor versions that are no
// numbers.
func isAsNew(s driver.ServerInfo, since map[string][2]int) (is, known bool) {
	least, known := since[s.Server]
	var v [2]int
	n, _ := fmt.Sscanf(s.Version, "%d.%d", &v[0], &v[1])
	return slices.Compare(v[:], least[:]) >= 0, known && n == len(v)
}

func as[T error](err error) (found T, is bool) {
	is = errors.As(err, &found)
	return found, is
}

// Anchor ties the server's clock to this machine's.
type Anchor struct {
	Sent   clock.Instant // when the request was sent
	Server int64         // the server's time in the reply, µs
}

// Time returns the current time, in µs, by the clock of the server that has the slot. It is late by at most a round trip, and early by as
// long as this machine has been suspended since the latest answer. It is 0 if no server has answered yet.
func (s *Server) Time(slot uint16) int64 {
	s.clockMu.Lock()
	anchor, ok := s.clocks[slot]
	if !ok {
		anchor, ok = s.clocks[0]
	}
	s.clockMu.Unlock()
	if !ok {
		return 0
	}
	return anchor.Server + (clock.Mono() - anchor.Sent.Mono).Microseconds()
}

// note notes how long the answer to a request took, unless heard is 0, and the server's time in it, unless a later request was answered
// earlier.
func (s *Server) note(slot uint16, sent clock.Instant, heard clock.Reading, server int64) {
	if took, mean := int64(heard-sent.Mono), s.RTT.ns.Load(); heard != 0 && mean == 0 {
		s.RTT.ns.Store(took)
	} else if heard != 0 {
		s.RTT.ns.Store(mean + (took-mean)/8)
	}
	s.clockMu.Lock()
	defer s.clockMu.Unlock()
	if old, ok := s.clocks[slot]; !ok || sent.Mono > old.Sent.Mono {
		s.clocks[slot] = Anchor{sent, server}
	}
}

// RoundTrip is a running mean of how long the server takes to answer.
type RoundTrip struct{ ns atomic.Int64 }

// Mean returns the mean, or 0 before the first answer.
func (r *RoundTrip) Mean() time.Duration { return time.Duration(r.ns.Load()) }

// unconfirmed is the error of a request that the server has carried out, but that is not as durable as it has to be. It matches
// ErrReplicas.
type unconfirmed struct {
	err  error
	disk bool // a disk is the reason, the master's or a replica's
}

func (e unconfirmed) Error() string { return "not confirmed: " + e.err.Error() }

func (e unconfirmed) Is(target error) bool { return target == ErrReplicas }

func (e unconfirmed) Unwrap() error { return e.err }

// shortfall returns the error of a write that is less durable than demanded, or nil.
func shortfall(d driver.Durability, r driver.Confirmation) error {
	switch {
	case d.Fsync && !r.Fsync:
		return unconfirmed{fmt.Errorf("not on the master's disk within %s; appendfsync must be always, or everysec, which takes a second and more", d.Timeout), true}
	case r.Replicas < d.Replicas && d.Fsync:
		return unconfirmed{fmt.Errorf("%d of %d replicas have it on disk within %s", r.Replicas, d.Replicas, d.Timeout), true}
	case r.Replicas < d.Replicas:
		return unconfirmed{fmt.Errorf("%d of %d replicas within %s", r.Replicas, d.Replicas, d.Timeout), false}
	}
	return nil
}

// runDurably runs a call, and returns an error if what the reply says was achieved is not as durable as wanted.
func (s *Server) runDurably(ctx context.Context, c driver.Call, want driver.Durability) (string, error) {
	achieves := want.Counts
	if c.Urgent { // asking what counts costs a round trip, which a renewal is spared
		want.Counts = nil
	}
	type confirmed struct {
		text    string
		reached driver.Confirmation
	}
	r, err := shielded(ctx, s, func(ctx context.Context) (r confirmed, err error) {
		r.text, r.reached, err = s.durable.RunDurably(ctx, c, want)
		return r, err
	})
	short := shortfall(want, r.reached)
	if refused, is := as[driver.ReplyError](err); is && r.text != "" {
		short, err = unconfirmed{told(refused), want.Fsync}, nil
	}
	if err == nil && short != nil && achieves(r.text) {
		err = short
	}
	return r.text, err
}
