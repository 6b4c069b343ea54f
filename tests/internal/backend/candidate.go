package backend

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Candidate runs in an election. It leads until it is told what to return.
type Candidate struct {
	Terms  chan Term  // that it was elected for
	Answer chan error // what lead is to return
	Over   chan error // what Run returned
}

// Term is what lead is called with.
type Term struct {
	Lease *holdfast.Lease
	Ctx   context.Context
}

// Campaign has a goroutine run in an election.
func Campaign(ctx context.Context, e *holdfast.Election) *Candidate {
	c := &Candidate{make(chan Term), make(chan error), make(chan error, 1)}
	go func() {
		c.Over <- e.Run(ctx, func(ctx context.Context, term *holdfast.Lease) error {
			select {
			case c.Terms <- Term{term, ctx}:
			case <-ctx.Done(): // before anybody asked
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

// Watch watches an election until the test ends. next returns what is seen next: the leader's
// owner, "" for none. It is seen within half of the time after which a watcher looks that
// hears nothing.
func Watch(tb testing.TB, e *holdfast.Election) (next func() string) {
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
			if err != nil {
				tb.Errorf("Watch: %v", err)
			}
			select {
			case seen <- leader.Owner:
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
