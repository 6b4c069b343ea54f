// Package exec carries out requests to one server, or one Cluster: it connects, bounds each attempt, repeats what failed
// for a reason that may pass, tells what an error says of the request, waits for replicas and disks, and keeps track of
// the server's clock. A request has a name, for errors, and keys; exec knows no locks.
package exec

import (
	"context"
	"strings"
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
}

// Server is the server, or the Cluster, behind a driver.
type Server struct {
	driver driver.Driver
	cfg    Config

	// RTT is a running mean of how long the server takes to answer.
	RTT RoundTrip

	contact contacts
	clocks  serverClocks
	native  atomic.Bool // the server has DELIFEQ, as far as is known
	written atomic.Bool // the server has taken a write
}

// New returns the server behind a driver. Nothing is sent.
func New(d driver.Driver, cfg Config) *Server {
	return &Server{driver: d, cfg: cfg, clocks: serverClocks{anchors: map[uint16]Anchor{}}}
}

// Addr names the server in errors and logs, without credentials.
func (s *Server) Addr() string { return s.driver.Addr() }

// Close closes what the driver opened itself.
func (s *Server) Close() error { return s.driver.Close() }

// CanConfirm reports whether the driver can wait for replicas and disks.
func (s *Server) CanConfirm() bool {
	_, can := s.driver.(driver.Durable)
	return can
}

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

// Do sends a request until it is answered, while what its attempts meet may pass, for at most RetryTimeout; ctx may end
// it sooner. unanswered reports whether some attempt may have been carried out without its answer having
// arrived, or may still be.
func (s *Server) Do(ctx context.Context, rq Request) (a Answer, unanswered bool, err error) {
	return PersistSince(rq.Began, ctx, s, rq.Op, rq.Name, func(ctx context.Context) (Answer, error) {
		a, err := s.Send(ctx, rq)
		if err != nil && rq.Met != nil {
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
