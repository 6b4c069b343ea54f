package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Held is what leases cost that are held, and renewed.
type Held struct {
	Leases  int   `json:"leases"`
	Wanted  int   `json:"leases_wanted"`
	For     int64 `json:"held_ms"`
	Renewed int   `json:"renewed"` // leases, once or more
	Lost    int   `json:"lost"`
	// Server and Client are the processor time that a lease takes in a second.
	Server Number `json:"server_cpu_us_per_lease_and_s"`
	Client Number `json:"client_cpu_us_per_lease_and_s"`
	Heap   Number `json:"heap_bytes_per_lease"`
}

// leastTaking is how long the taking of the leases of held may last, in short runs, too.
const leastTaking = 5 * time.Second

// takers is how many goroutines take and release the leases of held.
const takers = 64

// held takes leases, has them renewed for a time, and releases them.
func (b *bench) held(ctx context.Context) error {
	if b.cfg.Leases == 0 {
		return nil
	}
	b.progress("held: %d leases", b.cfg.Leases)
	locks := fenced(b.sites[0].locks)
	takes := make([]acquire, b.cfg.Leases)
	for i := range takes {
		// The handles are no part of the leases, and live for as long as these.
		takes[i] = locks(b.name(fmt.Sprint("held-", i)))
	}
	g := &granted{leases: make([]lease, len(takes)), deadlines: make([]time.Time, len(takes))}
	empty := heap()
	began := time.Now()
	err := g.take(ctx, takes, began.Add(max(b.plan.held/3, leastTaking)))
	h := &Held{Leases: int(g.n.Load()), Wanted: len(takes)}
	h.Heap = per(Number(heap())-Number(empty), h.Leases)
	if err == nil && h.Leases > 0 {
		before := b.meter(ctx)
		since := time.Now()
		g.hold(ctx, max(time.Until(began.Add(b.plan.held)), b.plan.held/3))
		took := time.Since(since)
		server, client := b.meter(ctx).since(before)
		h.For = took.Milliseconds()
		h.Server, h.Client = per(server/Number(took.Seconds()), h.Leases), per(client/Number(took.Seconds()), h.Leases)
		h.Renewed = g.renewed()
		b.report.Held = h
	}
	gone, releasing := g.release(context.WithoutCancel(ctx))
	h.Lost = gone
	runtime.KeepAlive(takes)
	if err == nil {
		err = releasing
	}
	if err == nil && gone > 0 {
		err = b.ask(ctx)
	}
	if err == nil && ctx.Err() == nil {
		b.tooShort(h)
	}
	return err
}

// tooShort says what a run cannot show that held leases for less than their TTL.
func (b *bench) tooShort(h *Held) {
	if h.Leases == 0 {
		b.report.LeftOut = append(b.report.LeftOut, "held: no lease was granted in time")
		return
	}
	why := ""
	switch d := time.Duration(h.For) * time.Millisecond; {
	case d < ttl/3:
		why = "renewals: they come after a third of the TTL"
	case d < ttl:
		why = "leases that would be lost without renewals: held was shorter than the TTL"
	default:
		return
	}
	b.report.LeftOut = append(b.report.LeftOut, fmt.Sprintf("%s, %s; --for 1m has time for that", why, ttl))
}

// granted are leases that are held.
type granted struct {
	leases    []lease     // in no order, some missing
	deadlines []time.Time // as they were granted
	n         atomic.Int64
}

// take takes the locks, until all are held, or the time comes, or one fails.
func (g *granted) take(ctx context.Context, takes []acquire, until time.Time) error {
	return inParallel(len(takes), func(i int) error {
		if time.Now().After(until) {
			return nil
		}
		l, err := takes[i](ctx)
		if err != nil {
			return err
		}
		g.leases[i], g.deadlines[i] = l, deadline(l)
		g.n.Add(1)
		return nil
	})
}

// deadline returns when a lease of Holdfast's ends unless it is renewed.
func deadline(l lease) time.Time {
	if l, ok := l.(interface{ Deadline() time.Time }); ok {
		return l.Deadline()
	}
	return time.Time{}
}

// hold waits for the time d, or until ctx ends, or the first lease is lost: the others do not
// fare better.
func (g *granted) hold(ctx context.Context, d time.Duration) {
	ended := ctx.Done()
	for _, l := range g.leases {
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

// renewed counts the leases whose deadline has moved.
func (g *granted) renewed() (n int) {
	for i, l := range g.leases {
		if l != nil && l.Err() == nil && deadline(l).After(g.deadlines[i]) {
			n++
		}
	}
	return n
}

// release releases all, and counts those that were lost. When the server does not answer, it
// leaves the others to their TTL.
func (g *granted) release(ctx context.Context) (gone int, err error) {
	var n atomic.Int64
	err = inParallel(len(g.leases), func(i int) error {
		l := g.leases[i]
		if l == nil {
			return nil
		}
		expired := l.Err() != nil
		err := l.Release(ctx)
		if expired || lost(err) {
			n.Add(1)
			return nil
		}
		return err
	})
	return int(n.Load()), err
}

// inParallel calls f for 0 to n-1, until one fails.
func inParallel(n int, f func(i int) error) error {
	var next atomic.Int64
	var failed error
	var once sync.Once
	var all sync.WaitGroup
	for range takers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					once.Do(func() { failed = err })
					next.Store(int64(n))
					return
				}
			}
		})
	}
	all.Wait()
	return failed
}

// heap is how many bytes are in use once garbage is collected.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers and pools let go
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
