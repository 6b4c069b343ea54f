package topology

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/history"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
)

const (
	loadClients    = 4 // each with connections of its own, like a process
	loadGoroutines = 6 // of each client
	hotName        = "hot"

	// bound is how soon everything goes on after a fault.
	bound = 30 * time.Second
)

// promise is what remains of a lock's promises during a fault.
type promise struct {
	ttl       time.Duration // of leases
	handovers int           // Config.LocalHandovers
	overlaps  bool          // locks may be lost, and have two holders at a time, which are counted
}

var (
	// lossless is for faults in which no write is lost. Leases last longer than the test waits, so that an
	// orphaned lock, or a waiter that is not notified, would show.
	lossless = promise{ttl: term}
	// lossy is for failovers, in which the last writes may be lost. A lock whose release was lost exists until
	// its TTL ends. Goroutines do not pass locks on among themselves, since they do that without the server,
	// and so with a fence from before the failover.
	lossy = promise{ttl: 5 * time.Second, handovers: -1, overlaps: true}
)

// load is many goroutines of several clients that acquire and release locks: one name that all want, and others that a few
// share, sometimes two of them at once.
type load struct {
	t *testing.T
	promise
	record *history.Recorder
	turns  []atomic.Int64 // of each goroutine

	mu     sync.Mutex
	errors map[string]int // errors of clients, by kind

	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// startLoad starts the load, which ends with stopped.
func startLoad(t *testing.T, open opener, p promise) *load {
	t.Helper()
	ld := &load{t: t, promise: p, record: history.NewRecorder(nil), errors: map[string]int{}}
	ld.turns = make([]atomic.Int64, loadClients*loadGoroutines)
	ld.ctx, ld.stop = context.WithCancel(context.Background())
	var clients []*holdfast.Client
	for range loadClients {
		clients = append(clients, open.client(t, &holdfast.Config{MaxLocalHandovers: p.handovers}))
	}
	t.Cleanup(func() { // before the clients close
		ld.stop()
		if t.Failed() {
			t.Logf("errors: %s", ld.met())
		} else {
			ld.wg.Wait()
		}
	})
	for c, client := range clients {
		for g := range loadGoroutines {
			ld.wg.Go(func() { ld.work(client, c*loadGoroutines+g) })
		}
	}
	ld.goesOn("the beginning")
	return ld
}

// work takes turns. One goroutine of each of two clients holds a lock so long that it has to be renewed.
func (ld *load) work(c *holdfast.Client, goroutine int) {
	names := names(8)
	for ld.ctx.Err() == nil {
		switch {
		case goroutine == 0, goroutine == loadGoroutines:
			ld.turn(c.Mutex("long", holdfast.TTL(5*time.Second)), goroutine, 1800*time.Millisecond, "long")
		case rand.N(3) == 0:
			ld.turn(c.Mutex(hotName, holdfast.TTL(ld.ttl)), goroutine, time.Millisecond, hotName)
		case rand.N(5) == 0:
			some := []string{names[0], names[1+rand.N(len(names)-1)]}
			ld.turn(c.Multi(some, holdfast.TTL(ld.ttl)), goroutine, time.Millisecond, some...)
		default:
			name := names[rand.N(len(names))]
			ld.turn(c.Mutex(name, holdfast.TTL(ld.ttl)), goroutine, time.Millisecond, name)
		}
		time.Sleep(rand.N(40 * time.Millisecond))
	}
}

// turn acquires a lock, which has these names, once, and records the outcome.
func (ld *load) turn(l *holdfast.Lock, goroutine int, hold time.Duration, names ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*bound)
	defer cancel()
	var attempts []*history.Attempt
	for _, name := range names {
		attempts = append(attempts, ld.record.Ask(goroutine, name))
	}
	lease, err := l.Acquire(ctx)
	if err != nil {
		for _, a := range attempts {
			a.GaveUp()
		}
		ld.meets("acquire", err, time.Time{})
		return
	}
	tokens := lease.Fences()
	for i, a := range attempts {
		a.Granted(tokens[names[i]], lease.Deadline())
	}
	select {
	case <-time.After(hold):
	case <-lease.Done():
	}
	if err := lease.Err(); err != nil {
		ld.meets("hold", err, lease.Deadline())
	}
	deadline := lease.Deadline()
	for _, a := range attempts {
		a.Released(deadline)
	}
	if err := lease.Release(context.Background()); err != nil {
		ld.meets("release", err, deadline)
	}
	ld.turns[goroutine].Add(1)
}

// meets counts an error. It is a failure if callers cannot tell it from others by its type, or if it is an
// endless wait. If nothing may be lost, no lock is gone before its deadline; a later release may find it gone.
func (ld *load) meets(op string, err error, deadline time.Time) {
	var lost *holdfast.LostError
	var server *holdfast.ServerError
	what := ""
	switch {
	case errors.As(err, &lost):
		what = "lost: " + string(lost.Reason)
		if (lost.Reason == holdfast.LossTaken || lost.Reason == holdfast.LossDeleted) && !ld.overlaps && time.Now().Before(deadline) {
			ld.t.Errorf("%s: %v, though nothing was to be lost", op, err)
		}
	case errors.As(err, &server) && kindOf(err) != nil:
		what = strings.TrimSpace(server.Code + " " + kindOf(err).Error())
		if errors.Is(err, holdfast.ErrAmbiguous) {
			what += " (ambiguous)"
		}
	case ld.ctx.Err() != nil && errors.Is(err, holdfast.ErrClosed):
		return // the test has failed already
	default:
		ld.t.Errorf("%s: %v", op, err)
		return
	}
	ld.mu.Lock()
	defer ld.mu.Unlock()
	ld.errors[op+": "+what]++
}

// goesOn requires that every goroutine soon gets a turn.
func (ld *load) goesOn(after string) {
	ld.t.Helper()
	begun := time.Now()
	before := make([]int64, len(ld.turns))
	for i := range ld.turns {
		before[i] = ld.turns[i].Load()
	}
	for i := 0; i < len(before); {
		if ld.turns[i].Load() > before[i] {
			i++
			continue
		}
		if took := time.Since(begun); took > bound && took > bound+2*machine.HeldUp(begun) {
			ld.t.Fatalf("goroutine %d has had no turn within %s after %s\n%s", i, took, after, machine.Report(begun))
		}
		time.Sleep(time.Millisecond)
	}
	ld.t.Logf("%s after %s all goroutines have had a turn", time.Since(begun).Round(time.Millisecond), after)
}

// stopped ends the load and judges it.
func (ld *load) stopped() {
	ld.t.Helper()
	ld.stop()
	ld.wg.Wait()
	events := expect.Of(ld.record.Events()).OK(ld.t)
	overlaps := 0
	for i, v := range history.Check(events) {
		if ld.overlaps && (v.Rule == history.Exclusion || v.Rule == history.Fencing && crossed(v.First, v.Second)) {
			overlaps++
			continue
		}
		if i < 5 {
			ld.t.Error(v)
		} else {
			ld.t.Fail()
		}
	}
	grants, longest := 0, time.Duration(0)
	for _, e := range events {
		if e.Granted != 0 {
			grants++
			longest = max(longest, time.Duration(e.Granted-e.Asked))
		}
	}
	ld.t.Logf("%d grants, the longest wait %s; %d overlaps; errors: %s", grants, longest.Round(time.Millisecond), overlaps, ld.met())
}

// crossed reports whether two masters may have granted a lock at about the same time, with the earlier grant
// reported later: then it has the lower fence, as it should.
func crossed(first, second history.Event) bool {
	return second.Fence != first.Fence && second.Asked < first.Granted
}

func (ld *load) met() string {
	ld.mu.Lock()
	defer ld.mu.Unlock()
	var all []string
	for _, what := range slices.Sorted(maps.Keys(ld.errors)) {
		all = append(all, fmt.Sprintf("%d × %s", ld.errors[what], what))
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}
