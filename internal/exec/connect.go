package exec

import (
	"context"
	"errors"
	"fmt"
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

// contacts is what is known of the server, and of the attempt to find out.
type contacts struct {
	info atomic.Pointer[driver.ServerInfo]

	mu     sync.Mutex
	trying *contact // under way; or nil
}

// contact is an attempt to find out what the server is, shared by all callers that need to know meanwhile.
type contact struct {
	met  error         // what the latest probe met; guarded by contacts.mu
	over chan struct{} // closed when it has ended
	err  error         // read after over
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
		trying = &contact{over: make(chan struct{})}
		s.contact.trying = trying
		s.cfg.Tasks.Run(func() { s.reach(trying, name) })
	}
	s.contact.mu.Unlock()
	select {
	case <-trying.over:
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
	server, _, err := Persist(ctx, s, OpReach, name, func(one context.Context) (Found, error) {
		// A probe holds nothing: when the client closes, its connection need not be spared.
		one, end := context.WithCancel(one)
		defer end()
		defer context.AfterFunc(ctx, end)()
		server, err := s.Probe(one)
		if err != nil {
			s.contact.mu.Lock()
			defer s.contact.mu.Unlock()
			trying.met = err
		}
		return server, err
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

// Probe asks the server what it is, once.
func (s *Server) Probe(ctx context.Context) (Found, error) {
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
