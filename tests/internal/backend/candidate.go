package backend

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// Candidate runs in an election. It leads until it is told what to return.
type Candidate struct {
	Terms  chan Term  // terms that it was elected for
	Answer chan error // what lead returns
	Over   chan error // what Run returned
}

// Term is what lead was called with.
type Term struct {
	Lease *holdfast.Lease
	Ctx   context.Context
}

// Campaign runs a candidate in an election, in a goroutine.
func Campaign(ctx context.Context, e *election.Election) *Candidate {
	c := &Candidate{make(chan Term), make(chan error), make(chan error, 1)}
	go func() {
		c.Over <- e.Run(ctx, func(ctx context.Context, term *holdfast.Lease) error {
			select {
			case c.Terms <- Term{term, ctx}:
			case <-ctx.Done(): // before anybody asked for it
				return ctx.Err()
			}
			return <-c.Answer
		})
	}()
	return c
}

// Elected waits for a term.
func (c *Candidate) Elected(tb testing.TB) (*holdfast.Lease, context.Context) {
	tb.Helper()
	select {
	case term := <-c.Terms:
		return term.Lease, term.Ctx
	case err := <-c.Over:
		tb.Fatalf("Run: %v", err)
	case <-time.After(30 * time.Second):
		tb.Fatal("not elected")
	}
	return nil, nil
}

// Ran is called after lead was told to return. It waits for Run, and returns what Run returned. The test fails if the candidate
// is elected again, which happens if it lost its term before lead returned.
func (c *Candidate) Ran(tb testing.TB) error {
	tb.Helper()
	for {
		select {
		case err := <-c.Over:
			return err
		case term := <-c.Terms:
			tb.Errorf("elected once more, with fence %d", term.Lease.Fence())
			c.Answer <- nil
		}
	}
}

// Watch watches an election until the test ends. next waits for the next leader that the watcher reports, and
// returns its owner, or "" if there is none. It fails the test after half of the interval at which a watcher
// that hears nothing looks by itself.
func Watch(tb testing.TB, e *election.Election) (next func() string) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	seen, over := make(chan string), make(chan struct{})
	tb.Cleanup(func() {
		cancel()
		<-over
	})
	go func() {
		defer close(over)
		for status, err := range e.Watch(ctx) {
			leader, _ := status.Holder()
			expect.Err(tb, "Watch", err, nil)
			select {
			case seen <- leader.Identity:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() string {
		tb.Helper()
		select {
		case owner := <-seen:
			return owner
		case <-time.After(15 * time.Second):
			tb.Fatal("the watcher sees nothing")
			return ""
		}
	}
}
