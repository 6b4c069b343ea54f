// Package exec carries out requests to one server, or one Cluster: it connects, bounds each attempt, repeats what failed
// for a reason that may pass, tells what an error says of the request, waits for replicas and disks, and keeps track of
// the server's clock. A request has a name, for errors, and keys; exec knows no locks.
package exec

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Config is what a Server needs of its client.
type Config struct {
	CommandTimeout time.Duration                 // bounds one attempt
	RetryTimeout   time.Duration                 // bounds all attempts
	Tasks          *Tasks                        // that the client waits for when it closes
	Closing        <-chan struct{}               // closed when the client begins to close
	Accept         func(driver.ServerInfo) error // refuses a server that supports what exec needs, but is unfit for this client; or nil
	Lost           func(error)                   // called with the last error when the server stops answering; or nil
	Found          func(down time.Duration)      // called when it answers again; set if Lost is
	ViaClient      bool                          // the driver's own connections carry all calls
	ClientClosed   func()                        // called once if the program has closed the driver's client too early; or nil
}

// Server is the server, or the Cluster, behind a driver.
type Server struct {
	driver driver.Driver
	cfg    Config

	// What the driver can do beyond that; nil if it cannot.
	batcher driver.Batcher
	durable driver.Durable
	cluster driver.Cluster
	pipes   pipes

	// RTT is a running mean of how long the server takes to answer.
	RTT RoundTrip

	contact contacts
	outage  outage
	clocks  serverClocks
	native  atomic.Bool // the server has DELIFEQ, as far as is known
	written atomic.Bool // the server has taken a write
}

// New returns the server behind a driver. Nothing is sent.
func New(d driver.Driver, cfg Config) *Server {
	s := &Server{driver: d, cfg: cfg, clocks: serverClocks{anchors: map[uint16]Anchor{}}}
	s.batcher, _ = driver.As[driver.Batcher](d)
	s.durable, _ = driver.As[driver.Durable](d)
	s.cluster, _ = driver.As[driver.Cluster](d)
	if c, is := d.(driver.Connector); is && !cfg.ViaClient && reflect.TypeOf(d).Comparable() && c.Connects() == d {
		s.pipes.connector = c
	}
	return s
}

// Addr names the server in errors and logs, without credentials.
func (s *Server) Addr() string { return s.driver.Addr() }

// Close closes what the driver opened itself.
func (s *Server) Close() error {
	s.pipes.close()
	return s.driver.Close()
}

// CanConfirm reports whether the driver can wait for replicas and disks.
func (s *Server) CanConfirm() bool { return s.durable != nil }

// Subscribe opens a subscription.
func (s *Server) Subscribe(sub driver.Subscription) (cancel func()) { return s.driver.Subscribe(sub) }

// Request is a script to run, or a command.
type Request struct {
	Op         string // what it does, for errors
	Name       string // what it is about, for errors
	Slot       uint16 // of its keys, in Cluster mode; else 0
	Call       driver.Call
	Durability *Durability // what has to have it before it counts; nil: the server that carries it out

	Began time.Time   // since when it has been tried; zero: it has not been
	Met   func(error) // is told what each attempt that failed met; or nil
}

// Answer is a script's reply, and when the request was sent that it answers.
type Answer struct {
	Text string
	Sent clock.Instant
}

// Do sends a request, and retries it after temporary failures, for at most RetryTimeout; ctx may end
// it sooner. unanswered reports whether some attempt may have been carried out without its answer having
// arrived, or may still be.
func (s *Server) Do(ctx context.Context, rq Request) (a Answer, unanswered bool, err error) {
	return PersistSince(rq.Began, ctx, s, rq.Op, rq.Name, func(work context.Context) (Answer, error) {
		a, err := s.Send(work, rq)
		if err != nil && rq.Met != nil && ctx.Err() == nil {
			rq.Met(s.Failure(rq.Op, rq.Name, err))
		}
		return a, err
	})
}

// Send sends a request once; again, for as long as the script says that it has only cleared away what others have
// left.
func (s *Server) Send(ctx context.Context, rq Request) (Answer, error) {
	for {
		a, err := s.sendOnce(ctx, rq)
		if !isUnfinished(err) || ctx.Err() != nil {
			return a, err
		}
	}
}

func (s *Server) sendOnce(ctx context.Context, rq Request) (Answer, error) {
	sent := clock.Now()
	text, short, err := s.run(ctx, rq)
	if err != nil {
		return Answer{}, err
	}
	reply, err := wire.ParseReply(text)
	if err != nil {
		return Answer{}, err
	}
	if short != nil && rq.Durability.Achieves(text) {
		return Answer{}, short
	}
	s.RTT.observe(clock.Mono().Sub(sent.Mono))
	s.clocks.heard(rq.Slot, sent, reply.Now)
	return Answer{text, sent}, nil
}

// again begins the error of a script that has only cleared away what others have left: it stops after a bounded number
// of steps, so that it keeps nobody waiting.
const again = "AGAIN "

func isUnfinished(err error) bool {
	caught, is := as[wire.ScriptError](err)
	return is && strings.HasPrefix(string(caught), again)
}

// HasWritten notes that the server has taken a write.
func (s *Server) HasWritten() {
	if !s.written.Load() {
		s.written.Store(true)
	}
}

// contacts is what is known of the server, and of the attempt to find out.
type contacts struct {
	info atomic.Pointer[driver.ServerInfo]

	mu     sync.Mutex
	trying *contact // under way; or nil
}

// contact is an attempt to find out what the server is, shared by all callers that need to know meanwhile.
type contact struct {
	met       error         // what the latest probe met; guarded by contacts.mu, like isRefused
	isRefused bool          // whether a connection was refused
	refused   chan struct{} // closed when the first connection is refused
	over      chan struct{} // closed when it has ended
	err       error         // read after over
}

// Info returns what the server says about itself, or nil if that is not known yet.
func (s *Server) Info() *driver.ServerInfo { return s.contact.info.Load() }

// InCluster reports whether the server runs in Cluster mode. It may be called only after Connect.
func (s *Server) InCluster() bool { return s.Info().Cluster }

// Connect finds out what the server is, once. Callers that come while another caller tries share its outcome: if each
// began anew after a failure, a server that is down would keep one after the other waiting.
func (s *Server) Connect(ctx context.Context, name string) error {
	if s.Info() != nil {
		return nil
	}
	began := time.Now()
	if ctx.Err() != nil {
		return s.Unheard(ctx, OpReach, name, began)
	}
	s.contact.mu.Lock()
	trying := s.contact.trying
	if trying == nil {
		trying = &contact{refused: make(chan struct{}), over: make(chan struct{})}
		s.contact.trying = trying
		s.cfg.Tasks.Run(func() { s.reach(trying, name) })
	}
	s.contact.mu.Unlock()
	var refused chan struct{}
	if isHasty(ctx) {
		refused = trying.refused
	}
	select {
	case <-trying.over:
	case <-refused:
		s.contact.mu.Lock()
		defer s.contact.mu.Unlock()
		return s.Failure(OpReach, name, trying.met)
	case <-ctx.Done():
		s.contact.mu.Lock()
		defer s.contact.mu.Unlock()
		if trying.met == nil || ctx.Err() != context.DeadlineExceeded {
			return s.Unheard(ctx, OpReach, name, began)
		}
		return EndedBy(ctx, s.Failure(OpReach, name, trying.met))
	case <-s.cfg.Closing:
		return ErrClosed
	}
	if f, is := as[*Failure](trying.err); is && f.Name != name {
		own := *f
		own.Name = name
		return &own
	}
	return trying.err
}

// reach probes the server until it answers, for at most RetryTimeout.
func (s *Server) reach(trying *contact, name string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.cfg.Tasks.Run(func() {
		select {
		case <-s.cfg.Closing:
			cancel()
		case <-ctx.Done():
		}
	})
	server, _, err := Persist(ctx, s, OpReach, name, func(work context.Context) (Found, error) {
		return shielded(work, s, func(one context.Context) (Found, error) {
			// A probe holds nothing: when the client closes, its connection need not be spared.
			one, end := context.WithCancel(one)
			defer end()
			defer context.AfterFunc(ctx, end)()
			server, err := s.probe(one)
			if err != nil {
				s.contact.mu.Lock()
				defer s.contact.mu.Unlock()
				trying.met = err
				if isRefused(err) && !trying.isRefused {
					trying.isRefused = true
					close(trying.refused)
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
	s.contact.mu.Lock()
	defer s.contact.mu.Unlock()
	trying.err = err
	s.contact.trying = nil
	close(trying.over)
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

// Use accepts a server that was found, or returns why it cannot be used.
func (s *Server) Use(server Found, name string) error {
	err := supported(server.ServerInfo)
	if err == nil && s.cfg.Accept != nil {
		err = s.cfg.Accept(server.ServerInfo)
	}
	if err != nil {
		return &Failure{Op: "use", Name: name, Server: s.Addr(), Kind: ErrUnsupported, Err: err}
	}
	s.native.Store(has(server.ServerInfo, delifeq))
	s.clocks.heard(0, server.Sent, server.Time.UnixMicro())
	s.contact.info.Store(&server.ServerInfo)
	return nil
}

// minimum is the oldest supported version of each server.
var minimum = map[string][2]int{"redis": {7, 0}, "valkey": {7, 2}}

func supported(s driver.ServerInfo) error {
	least, known := minimum[s.Server]
	if v, tells := version(s); known && tells && slices.Compare(v[:], least[:]) < 0 {
		return fmt.Errorf("it is %s %s; %s %d.%d or later is needed", s.Server, s.Version, s.Server, least[0], least[1])
	}
	return nil
}

// delifeq is the oldest version of each server that has DELIFEQ.
var delifeq = map[string][2]int{"valkey": {9, 0}}

// has reports whether the server is one of those, or later.
func has(s driver.ServerInfo, since map[string][2]int) bool {
	least, known := since[s.Server]
	v, tells := version(s)
	return known && tells && slices.Compare(v[:], least[:]) >= 0
}

// version returns the major and the minor number of the version, if it has them.
func version(s driver.ServerInfo) (v [2]int, tells bool) {
	major, rest, _ := strings.Cut(s.Version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, err1 := strconv.Atoi(major)
	y, err2 := strconv.Atoi(minor)
	return [2]int{x, y}, err1 == nil && err2 == nil
}

// as is errors.As with the type as a parameter.
func as[T error](err error) (found T, is bool) {
	is = errors.As(err, &found)
	return found, is
}

// Anchor ties a server's clock to ours.
type Anchor struct {
	Sent   clock.Instant // when a request was sent
	Server int64         // the time in its reply, µs
}

// serverClocks are the clocks of the servers of a client, by Cluster slot. Outside Cluster mode there is only
// that of slot 0.
type serverClocks struct {
	mu      sync.Mutex
	anchors map[uint16]Anchor
}

// Time returns what the clock of the server that has a slot shows now, in µs. It is late by at most a round trip, and
// early by as long as this machine was suspended since the latest answer. If no server has answered yet, it returns 0.
func (s *Server) Time(slot uint16) int64 {
	s.clocks.mu.Lock()
	anchor, ok := s.clocks.anchors[slot]
	if !ok {
		anchor, ok = s.clocks.anchors[0]
	}
	s.clocks.mu.Unlock()
	if !ok {
		return 0
	}
	return anchor.Server + clock.Mono().Sub(anchor.Sent.Mono).Microseconds()
}

// heard notes the time in the answer to a request that was sent then, unless a later request was answered before.
func (c *serverClocks) heard(slot uint16, sent clock.Instant, server int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.anchors[slot]; !ok || sent.Mono > old.Sent.Mono {
		c.anchors[slot] = Anchor{sent, server}
	}
}

// RoundTrip is a running mean of how long the server takes to answer.
type RoundTrip struct{ ns atomic.Int64 }

func (r *RoundTrip) observe(d time.Duration) {
	old := r.ns.Load()
	if old == 0 {
		r.ns.Store(int64(d))
		return
	}
	r.ns.Store(old + (int64(d)-old)/8)
}

// Mean returns the mean, or 0 before the first answer.
func (r *RoundTrip) Mean() time.Duration { return time.Duration(r.ns.Load()) }

// Durability is what has to have a write before it counts.
type Durability struct {
	driver.Durability
	// Achieves reports whether a reply says that something was achieved, which has to be durable.
	Achieves func(text string) bool
}

// unconfirmed is the error of something that the server has carried out, and that is not as durable as it has to be. It
// matches ErrReplicas.
type unconfirmed struct {
	err  error
	disk bool // because of a disk, the master's or a replica's
}

func (e unconfirmed) Error() string { return "not confirmed: " + e.err.Error() }

func (e unconfirmed) Is(target error) bool { return target == ErrReplicas }

func (e unconfirmed) Unwrap() error { return e.err }

// shortfall says by how much a write fell short of its durability; nil if it did not.
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

// run runs a request's script. short is the error of a script that was carried out, but is not as durable as it has to
// be: whether that matters depends on its reply.
func (s *Server) run(ctx context.Context, rq Request) (text string, short, err error) {
	if rq.Durability == nil {
		text, err = s.runCall(ctx, rq.Call)
		return text, nil, err
	}
	d := rq.Durability.Durability
	if !rq.Call.Urgent { // asking what counts costs a round trip, which a renewal can do without
		d.Counts = rq.Durability.Achieves
	}
	type confirmed struct {
		text    string
		reached driver.Confirmation
	}
	c, err := shielded(ctx, s, func(ctx context.Context) (c confirmed, err error) {
		c.text, c.reached, err = s.durable.RunDurably(ctx, rq.Call, d)
		return c, err
	})
	var refusal driver.ReplyError
	if c.text != "" && errors.As(err, &refusal) {
		return c.text, unconfirmed{told(refusal), d.Fsync}, nil
	}
	return c.text, shortfall(d, c.reached), err
}
