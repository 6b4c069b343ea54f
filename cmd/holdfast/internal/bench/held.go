package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/measure"
)

// Held is what leases cost that are held and renewed.
type Held struct {
	Leases  int   `json:"leases"`
	Wanted  int   `json:"leases_wanted"`
	For     int64 `json:"held_ms"`
	Renewed int   `json:"renewed"` // leases that were renewed at least once
	Lost    int   `json:"lost"`
	// Server and Client are the processor time that a lease takes each second.
	Server Number `json:"server_cpu_us_per_lease_and_s"`
	Client Number `json:"client_cpu_us_per_lease_and_s"`
	Heap   Number `json:"heap_bytes_per_lease"`
}

const (
	// leastTaking is how long taking the leases may last even in a short run.
	leastTaking = 5 * time.Second
	// takers is how many goroutines take and release the leases.
	takers = 64
)

// held is the experiment in which many leases are held for a time.
type held struct {
	*rig
	plan plan
}

func newHeld(g *rig, p plan) *held { return &held{g, p} }

func (h *held) run(ctx context.Context, r *Report) error {
	if h.plan.leases == 0 {
		return nil
	}
	h.progress("held: %d leases", h.plan.leases)
	takes := make([]acquire, h.plan.leases)
	for i := range takes {
		// The handles do not count as part of the leases, and live as long.
		takes[i] = h.clients[0].ways[ours](h.names.add(fmt.Sprint("held-", i)))
	}
	defer runtime.KeepAlive(takes)
	leases := newLeaseSet(len(takes))
	empty := measure.MemoryInUse()
	began := time.Now()
	err := leases.take(ctx, takes, began.Add(max(h.plan.held/3, leastTaking)))
	result := &Held{Leases: int(leases.granted.Load()), Wanted: len(takes)}
	result.Heap = per(Number(measure.MemoryInUse().HeapAlloc)-Number(empty.HeapAlloc), result.Leases)
	if err == nil && result.Leases > 0 {
		before := h.cpu.reading(ctx)
		since := time.Now()
		leases.hold(ctx, max(time.Until(began.Add(h.plan.held)), h.plan.held/3))
		took := time.Since(since)
		server, client := h.cpu.reading(ctx).since(before)
		result.For = took.Milliseconds()
		result.Server = per(server/Number(took.Seconds()), result.Leases)
		result.Client = per(client/Number(took.Seconds()), result.Leases)
		result.Renewed = leases.renewed()
		r.Held = result
	}
	lost, releasing := leases.release(context.WithoutCancel(ctx))
	result.Lost = lost
	if err == nil {
		err = releasing
	}
	if err == nil && lost > 0 {
		err = h.tryLock(ctx) // an error of the server may be why
	}
	if err == nil && ctx.Err() == nil {
		r.LeftOut = append(r.LeftOut, result.notShown()...)
	}
	return err
}

// notShown returns what a run that was too short does not show.
func (h *Held) notShown() []string {
	if h.Leases == 0 {
		return []string{"held: no lease was granted in time"}
	}
	switch d := time.Duration(h.For) * time.Millisecond; {
	case d < ttl/3:
		return []string{fmt.Sprintf("renewals, which begin after a third of the TTL of %s: use --for 1m", ttl)}
	case d < ttl:
		return []string{fmt.Sprintf("losses for want of renewals, since leases were held for less than the TTL of %s: use --for 1m", ttl)}
	}
	return nil
}

// leaseSet is leases that are held together.
type leaseSet struct {
	leases    []lease     // nil where none was granted
	deadlines []time.Time // when they were granted
	granted   atomic.Int64
}

func newLeaseSet(n int) *leaseSet {
	return &leaseSet{leases: make([]lease, n), deadlines: make([]time.Time, n)}
}

// take acquires the locks until all are held, the time comes, or one fails.
func (s *leaseSet) take(ctx context.Context, takes []acquire, until time.Time) error {
	return measure.InParallel(takers, len(takes), func(i int) error {
		if time.Now().After(until) {
			return nil
		}
		l, err := takes[i](ctx)
		if err != nil {
			return err
		}
		s.leases[i], s.deadlines[i] = l, deadline(l)
		s.granted.Add(1)
		return nil
	})
}

// deadline returns when a lease of Holdfast expires unless it is renewed.
func deadline(l lease) time.Time {
	if l, ok := l.(interface{ Deadline() time.Time }); ok {
		return l.Deadline()
	}
	return time.Time{}
}

// hold waits until d has passed, ctx ends, or the first lease is lost: then the others fare no better.
func (s *leaseSet) hold(ctx context.Context, d time.Duration) {
	ended := ctx.Done()
	for _, l := range s.leases {
		if l, ok := l.(interface{ Context() context.Context }); ok {
			lost, cancel := context.WithCancel(l.Context())
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			ended = lost.Done()
			break
		}
	}
	select {
	case <-ended:
	case <-time.After(d):
	}
}

// renewed counts the leases whose deadlines have moved.
func (s *leaseSet) renewed() (n int) {
	for i, l := range s.leases {
		if l != nil && l.Err() == nil && deadline(l).After(s.deadlines[i]) {
			n++
		}
	}
	return n
}

// release releases the leases and counts those that were lost. After another error, the rest is left to expire.
func (s *leaseSet) release(ctx context.Context) (lost int, err error) {
	var n atomic.Int64
	err = measure.InParallel(takers, len(s.leases), func(i int) error {
		l := s.leases[i]
		if l == nil {
			return nil
		}
		expired := l.Err() != nil
		err := l.Release(ctx)
		if expired || isLoss(err) {
			n.Add(1)
			return nil
		}
		return err
	})
	return int(n.Load()), err
}
