// Package sidecar campaigns in an election for another program, which asks over HTTP whether it leads.
package sidecar

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
)

// Sidecar is a candidate. Its exported fields are set before Run.
type Sidecar struct {
	Election *election.Election
	Server   string // names the server, without credentials
	Key      string // of the leader's lock
	Hosts    []string
	// Drain is how long, after a signal, the leader denies that it leads before it resigns.
	Drain   time.Duration
	Console *console.Console

	mu     sync.Mutex
	term   *holdfast.Lease // nil unless it leads
	since  time.Time       // when the term began
	status holdfast.Status // as last seen
	seen   time.Time       // when that was; zero if never
}

// ErrServe says that requests could not be served.
var ErrServe = errors.New("cannot serve")

// Run campaigns and serves until ctx ends, or until the campaign fails. It closes the listener.
func (s *Sidecar) Run(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	campaign, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			cancel(fmt.Errorf("%w %s: %w", ErrServe, listener.Addr(), err))
		}
	})
	parts.Go(func() { s.watch(campaign) })
	err := s.Election.Run(campaign, s.lead)
	if served := context.Cause(campaign); ctx.Err() == nil && served != nil {
		err = served
	}
	cancel(nil)
	// Requests are answered at once, so that it does not take long.
	ending, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	if server.Shutdown(ending) != nil {
		_ = server.Close()
	}
	parts.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// lead leads for a term.
func (s *Sidecar) lead(ctx context.Context, term *holdfast.Lease) error {
	s.mu.Lock()
	s.term, s.since = term, time.Now()
	s.mu.Unlock()
	s.Console.Notef("leading %q, fence %d", s.Election.Name(), term.Fence())
	<-ctx.Done()
	s.mu.Lock()
	s.term = nil
	s.mu.Unlock()
	if err := term.Err(); err != nil {
		s.Console.Warnf("%v; campaigning again", err)
		return err
	}
	// It has been told to end. Programs that ask now and then must have noticed before another can lead.
	drained := time.NewTimer(s.Drain)
	defer drained.Stop()
	select {
	case <-drained.C:
	case <-term.Done():
	}
	return ctx.Err()
}

// watch notes who leads.
func (s *Sidecar) watch(ctx context.Context) {
	for status, err := range s.Election.Watch(ctx) {
		if err != nil {
			return // The campaign fails, too.
		}
		s.mu.Lock()
		s.status, s.seen = status, time.Now()
		s.mu.Unlock()
	}
}

// leading returns the term, if this process leads, and how long it may still believe so.
func (s *Sidecar) leading() (term *holdfast.Lease, left time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term == nil || s.term.Err() != nil {
		return nil, 0
	}
	if left = time.Until(s.term.Deadline()); left <= 0 {
		return nil, 0
	}
	return s.term, left
}
