// Package recorder records the calls of an observer, and checks what holdfast.Observer promises about them.
package recorder

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// Recorder records events by acquire.
type Recorder struct {
	mu       sync.Mutex
	acquires []*Acquire
	servers  []string
	wrong    []string
}

// Acquire has the events of one acquire, and of its lease.
type Acquire struct {
	Start  holdfast.AcquireEvent
	Queued *holdfast.AcquireEvent // nil if it did not wait
	End    *holdfast.AcquireEvent // nil while it goes on
	Last   *holdfast.LeaseEvent   // Lost or Released; nil while the lease is held
	Lost   bool                   // Last is Lost
	Leases []holdfast.LeaseEvent  // Renewed and RenewFailed
	Events []string               // the names of all events, in order

	calling sync.Mutex
}

// name is the key under which a context carries an Acquire.
type name struct{}

// Observer returns an observer that records.
func (r *Recorder) Observer() *holdfast.Observer {
	return &holdfast.Observer{
		AcquireStart: func(ctx context.Context, e holdfast.AcquireEvent) context.Context {
			a := &Acquire{Start: e, Events: []string{"AcquireStart"}}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.acquires = append(r.acquires, a)
			return context.WithValue(ctx, name{}, a)
		},
		AcquireQueued: func(ctx context.Context, e holdfast.AcquireEvent) {
			r.record(ctx, "AcquireQueued", func(a *Acquire) { a.Queued = &e })
		},
		AcquireEnd: func(ctx context.Context, e holdfast.AcquireEvent) {
			r.record(ctx, "AcquireEnd", func(a *Acquire) { a.End = &e })
		},
		Renewed: func(ctx context.Context, e holdfast.LeaseEvent) {
			r.record(ctx, "Renewed", func(a *Acquire) { a.Leases = append(a.Leases, e) })
		},
		RenewFailed: func(ctx context.Context, e holdfast.LeaseEvent) {
			r.record(ctx, "RenewFailed", func(a *Acquire) { a.Leases = append(a.Leases, e) })
		},
		Lost: func(ctx context.Context, e holdfast.LeaseEvent) {
			r.record(ctx, "Lost", func(a *Acquire) { a.Last, a.Lost = &e, true })
		},
		Released: func(ctx context.Context, e holdfast.LeaseEvent) {
			r.record(ctx, "Released", func(a *Acquire) { a.Last = &e })
		},
		ServerLost: func(e holdfast.ServerEvent) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.servers = append(r.servers, fmt.Sprintf("lost %s: %v", e.Server, e.Err))
		},
		ServerFound: func(e holdfast.ServerEvent) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.servers = append(r.servers, fmt.Sprintf("found %s after %s", e.Server, e.Down))
		},
	}
}

func (r *Recorder) record(ctx context.Context, what string, note func(*Acquire)) {
	a, known := ctx.Value(name{}).(*Acquire)
	if !known {
		r.accuse("%s without the values of AcquireStart's context", what)
		return
	}
	if ctx.Done() != nil {
		r.accuse("%s with a context that can end", what)
	}
	if !a.calling.TryLock() {
		r.accuse("%s while another function is told of the same lease", what)
		a.calling.Lock()
	}
	defer a.calling.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	note(a)
	a.Events = append(a.Events, what)
}

func (r *Recorder) accuse(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

// Acquires returns copies of what was recorded, in the order in which the acquires began.
func (r *Recorder) Acquires() []*Acquire {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*Acquire
	for _, a := range r.acquires {
		all = append(all, &Acquire{Start: a.Start, Queued: a.Queued, End: a.End, Last: a.Last, Lost: a.Lost, Leases: a.Leases[:len(a.Leases):len(a.Leases)], Events: a.Events[:len(a.Events):len(a.Events)]})
	}
	return all
}

// Latest returns the record of the acquire that began last.
func (r *Recorder) Latest(tb testing.TB) *Acquire {
	tb.Helper()
	all := r.Acquires()
	if len(all) == 0 {
		tb.Fatal("no acquire was observed")
	}
	return all[len(all)-1]
}

// Servers returns the recorded events of servers.
func (r *Recorder) Servers() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.servers...)
}

// Check checks the record of a client whose acquires have returned and whose leases have ended.
func (r *Recorder) Check(tb testing.TB) {
	tb.Helper()
	for i, a := range r.Acquires() {
		if why := a.wrong(); why != "" {
			tb.Errorf("acquire %d, of %s %q: %s; told was %v", i, a.Start.Kind, a.Start.Name, why, a.Events)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.wrong {
		tb.Error(w)
	}
}

// wrong says what is wrong with the events of an acquire that has ended and of its lease, or returns "".
func (a *Acquire) wrong() string {
	stage := 0 // 1: begun, 2: queued, 3: granted, 4: over
	for _, e := range a.Events {
		switch {
		case e == "AcquireStart" && stage == 0:
			stage = 1
		case e == "AcquireQueued" && stage == 1:
			stage = 2
		case e == "AcquireEnd" && (stage == 1 || stage == 2):
			stage = 3
			if a.End.Err != nil {
				stage = 4
			}
		case (e == "Renewed" || e == "RenewFailed") && stage == 3:
		case (e == "Lost" || e == "Released") && stage == 3:
			stage = 4
		default:
			return e + " came out of turn"
		}
	}
	switch {
	case stage != 4 && a.End == nil:
		return "AcquireEnd is missing"
	case stage != 4:
		return "neither Lost nor Released came"
	case a.End.Err == nil && a.End.Fence == 0:
		return "AcquireEnd has no fence"
	case a.Last != nil && (a.Last.Fence != a.End.Fence || a.Last.Name != a.Start.Name || a.Last.Kind != a.Start.Kind || a.Last.Mode != a.Start.Mode):
		return fmt.Sprintf("the last event is of another lease: %+v", *a.Last)
	case a.Last != nil && (a.Last.Granted.IsZero() || a.Last.Held < 0):
		return fmt.Sprintf("the last event has no times: %+v", *a.Last)
	case a.Lost && (a.Last.Err == nil || a.Last.Reason == ""):
		return fmt.Sprintf("Lost does not say why: %+v", *a.Last)
	}
	return ""
}
