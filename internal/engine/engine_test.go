package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A waiter whose context ends just as it is served takes its result with it: waiters are used again, and the next one must not
// be given what was another's.
func TestAWaiterThatIsServedAsItLeavesTakesItsResult(t *testing.T) {
	c := open(t, &fake{holders: map[string]string{}}, nil)
	defer c.Close(t.Context())
	l := c.Mutex("a")
	must(t, l.Ready(t.Context()))
	wq := l.queue()
	defer wq.unref()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	late := errors.New("late")
	for range 200 { // a select chooses at random whether the result or the end of the context comes first
		w := c.newWaiter(ended, l)
		if len(w.results) > 0 {
			t.Fatal("a waiter begins with another's result")
		}
		wq.mu.Lock()
		wq.insert(w, false)
		wq.mu.Unlock()
		wq.fail(late)
		if lease, err := wq.await(ended, w, time.Time{}); lease != nil || !errors.Is(err, late) && !errors.Is(err, context.Canceled) {
			t.Fatalf("await: %v, %v", lease, err)
		}
	}
}

// Bug: A process that is handed a lock for which more of its goroutines wait gives it back at once, because a very short hold ended before
// fences were reserved for them.
func TestABriefHoldWaitsForTheFencesOfOthers(t *testing.T) {
	server := &fake{holders: map[string]string{}}
	c, err := New(server, nil)
	must(t, err)
	l := c.Mutex("a")
	must(t, l.Ready(t.Context()))
	wq := l.queue()
	first, second := c.newWaiter(t.Context(), l), c.newWaiter(t.Context(), l)
	wq.mu.Lock()
	wq.insert(first, false)
	wq.insert(second, false)
	wq.mu.Unlock()
	h := granted(l, 1)
	h.claim = true
	release := c.schedule.Hold() // it is as slow as it can be
	server.mu.Lock()             // and so is the server
	server.holders[l.Keys.Lock] = h.attempt.Token()
	wq.deliver(h)
	lease := (<-first.results).lease
	next, _, err := lease.giveUp(true, hasLeft)
	if err != nil || next.landed == nil {
		t.Errorf("a release just after a hand-over waits for %v, error %v; want it to wait for a renewal", next, err)
	}
	server.mu.Unlock()
	release()
	if err := lease.releaseAfter(t.Context(), next, hasLeft); err != nil {
		t.Error(err)
	}
	wq.mu.Lock()
	wq.withdraw(second)
	wq.mu.Unlock()
	wq.unref()
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// granted returns a hold with this fence that has not begun.
func granted(l *Target, fence uint64) *hold {
	now := clock.Now()
	h := newHold(l.newAttempt(), now, 0, l.Set.TTL, fence, 1)
	h.renewAt(now)
	h.queue = &waitQueue{l: l}
	return h
}

// fakeMutex returns a mutex on a fake server, and its client.
func fakeMutex(t *testing.T) (*Target, *Client) {
	c := open(t, &fake{holders: map[string]string{}}, nil)
	l := c.Mutex("a")
	must(t, l.Ready(t.Context()))
	return l, c
}

// While the reply to a grant is on its way, an operator can delete the lock, and the process can be granted it again. Both
// leases are lost.
func TestAGrantIsAnsweredAfterALaterOne(t *testing.T) {
	l, c := fakeMutex(t)
	later := l.keep(granted(l, 2))
	earlier := l.keep(granted(l, 1))
	for name, lease := range map[string]*holdLease{"later": later, "earlier": earlier} {
		var lost *lock.LostError
		if err := lease.Err(); !errors.As(err, &lost) || lost.Reason != lock.LossTaken {
			t.Errorf("the lease of the %s grant: %v", name, err)
		}
	}
	wantErr(t, "Close", c.Close(t.Context()), nil)
}

// However many locks have been contended, those that are contended now are known.
func TestContendedLocksAreRememberedForAsLongAsTheyAreAskedFor(t *testing.T) {
	c := recent[string]{most: maxContended}
	c.add("often")
	for i := range 3 * maxContended {
		key := fmt.Sprint("lock", i)
		c.add(key)
		if !c.has(key) || i%1000 == 0 && !c.has("often") {
			t.Fatalf("after %d contended locks, one of them is not known", i)
		}
	}
	if n := len(c.newer) + len(c.older); n > maxContended {
		t.Errorf("%d are remembered, want %d at most", n, maxContended)
	}
	c.remove("often")
	if c.has("often") {
		t.Error("a lock that is no longer contended is remembered")
	}
}

// A node that grants a vote shows that the lock is contended there no more: its release may go together with others.
func TestAVoteThatIsGrantedIsContendedNoMore(t *testing.T) {
	c := open(t, &fake{}, nil)
	n := c.NodeLock("a", "me", nil)
	c.contended.add(n.Keys.Lock)
	must(t, n.Attempt(NewRound()).Take(clock.Now(), codec.Reply{Head: codec.Head{Now: time.Now().UnixMicro()}, Grant: codec.Grant{TTL: time.Minute, Fence: 1}}))
	if c.contended.has(n.Keys.Lock) {
		t.Error("it is contended still")
	}
}

// A lock that comes too late is given back as what it is: one with an exact key leaves gaps for programs that know no queue.
func TestALateGrantIsOfItsKind(t *testing.T) {
	space, err := keys.NewSpace("p:")
	must(t, err)
	c := &Client{Keyspace: lock.Keyspace{Space: space}}
	for grant, want := range map[wire.Grant]*kind.Kind{
		{Lock: "p:{a}"}:                    &kind.Mutex,
		{Lock: "a"}:                        &kind.Keyed,
		{Lock: "{a}b"}:                     &kind.Keyed,
		{Lock: "a", Kind: kind.RLock.Name}: &kind.RLock,
		{Lock: "p:{a}", Kind: kind.Semaphore.Name}: &kind.Semaphore,
	} {
		l := c.stray(&grant)
		if l.Set.Kind != want || l.Keys.Lock != grant.Lock {
			t.Errorf("%+v is a %q with the flags %q and the keys %+v", grant, l.Set.Kind.Name, l.Set.Kind.Flags, l.Keys)
		}
	}
}

// A lease that Extend has made as long as MaxHold allows wants no more renewals. One that was about to be sent then is not why
// it ends.
func TestALeaseThatReachedItsBoundEndsByIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := open(t, &fake{holders: map[string]string{}}, nil)
		defer c.Close(t.Context())
		lease := take(t, c.Mutex("a", kind.MaxHold(20*time.Second)))
		must(t, lease.Extend(t.Context(), time.Hour))
		h := lease.(*holdLease).g
		time.Sleep(10 * time.Second) // longer than a renewal takes to become due
		synctest.Wait()
		h.mu.Lock()
		equal(t, "another renewal", h.renewAfter, 0)
		h.renewalQueued = true // as long as its goroutine has not run, on a slow machine
		h.mu.Unlock()
		<-lease.Done()
		var lost *lock.LostError
		if !errors.As(lease.Err(), &lost) || lost.Reason != lock.LossBound {
			t.Errorf("it ended with %v", lease.Err())
		}
	})
}

// A hold's other times are kept as distances from the request that its deadline counts from. They stay when that moves.
func TestALaterDeadlineMovesNoOtherTime(t *testing.T) {
	t.Run("with a clock that runs through suspension", otherTimesStay)
	t.Run("without", func(t *testing.T) {
		t.Cleanup(clock.SetBoot(func() time.Duration { return 0 }))
		otherTimesStay(t)
	})
}

func otherTimesStay(t *testing.T) {
	c := open(t, &fake{}, nil)
	defer c.Close(t.Context())
	asked := clock.Now()
	at := func(d time.Duration) clock.Instant { return asked.Add(d) }
	h := newHold(c.Mutex("a").newAttempt(), asked, -time.Second, 10*time.Second, 1, 1)
	for i, c := range []struct{ sent, renew, want time.Duration }{
		{sent: 3 * time.Second, renew: 5 * time.Second, want: 5 * time.Second},
		{sent: 2 * time.Second, renew: 5 * time.Second, want: 5 * time.Second}, // answered late, and for longer
		{sent: 8 * time.Second, renew: 7 * time.Second, want: 8*time.Second + 1},
	} {
		h.renewAt(at(c.renew))
		h.prolong(at(c.sent), at(9*time.Second), time.Duration(i+1)*time.Hour)
		if h.anchor != at(c.sent) {
			t.Fatalf("the deadline does not count from the request sent at %s", c.sent)
		}
		equal(t, "when the renewal is due, after a request sent at "+c.sent.String(), h.anchor.Add(h.renewAfter), at(c.want))
		equal(t, "since when there is the hold, after a request sent at "+c.sent.String(), h.since(), at(time.Second))
	}
	h.renewAfter = 0
	h.prolong(at(9*time.Second), at(9*time.Second), 4*time.Hour)
	equal(t, "a renewal, although there is to be none", h.renewAfter, 0)
}

// Observing a free acquire and its release takes one allocation: the observation.
func TestAnObservationIsOneAllocation(t *testing.T) {
	told := 0
	c := &Client{}
	c.mint.init()
	c.Config.Observer = &lock.Observer{
		AcquireStart: func(ctx context.Context, _ lock.AcquireEvent) context.Context { return ctx },
		AcquireEnd:   func(context.Context, lock.AcquireEvent) { told++ },
		Released:     func(context.Context, lock.LeaseEvent) { told++ },
	}
	l := &Target{c: c, Lock: lock.Lock{Of: &c.Keyspace, Set: &kind.Settings{Terms: &kind.Terms{Kind: &kind.Mutex}}}}
	h := &hold{attempt: attempt{l: l, head: c.mint.head()}}
	ctx := t.Context()
	const cycles = 100
	leases := make([]holdLease, cycles+1) // AllocsPerRun makes one more run
	n := testing.AllocsPerRun(cycles, func() {
		lease := &leases[told/2]
		lease.g, h.lease = h, lease
		c.Tasks.Begin()
		o, within := c.observe(ctx, l, false)
		equal(t, "the observation", c.observing(within), o)
		_, _ = o.end(lease, nil)
		lease.endObserved(lock.HandoverNone, nil)
		lease.flush()
		c.Tasks.End()
	})
	if n != 1 || told != 2*len(leases) {
		t.Errorf("%v allocations, %d events of %d leases", n, told, len(leases))
	}
	if size := unsafe.Sizeof(observation{}); size > 256 { // a size class of Go's allocator
		t.Errorf("an observation takes %d bytes", size)
	}
}

// Observers get the values of a caller's context, but not its end.
func TestAnObserversContextNeverEnds(t *testing.T) {
	type key struct{}
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Hour)
	cancel()
	var told context.Context
	c := &Client{}
	c.Config.Observer = &lock.Observer{AcquireEnd: func(ctx context.Context, _ lock.AcquireEvent) { told = ctx }}
	o, _ := c.observe(ctx, &Target{c: c, Lock: lock.Lock{Of: &c.Keyspace, Set: &kind.Settings{Terms: &kind.Terms{Kind: &kind.Mutex}}}}, false)
	_, _ = o.end(nil, ctx.Err())
	if _, ends := told.Deadline(); ends || told.Err() != nil || told.Done() != nil || told.Value(key{}) != "value" {
		t.Errorf("%v", told)
	}
	child, end := context.WithCancel(told)
	defer end()
	equal(t, "the end of a context that is made of it", child.Err(), nil)
}

// If a server says that it grants nothing for longer than clocks can count, the client waits for as
// long as they can, and does not ask again at once.
func TestQuarantinesCannotOverflow(t *testing.T) {
	for _, ms := range []string{"9223372036854775807", "9223372036854775", "-5"} {
		r, err := (&codec.Acquire{Mode: codec.Try}).Parse("quarantined 1 " + ms)
		if left := r.Refusal.Quarantine; err != nil || left < -time.Millisecond || ms[0] != '-' && left < 1 {
			t.Errorf("%s ms are read as %s, %v", ms, left, err)
		}
	}
}

// Callers can do nothing about these errors. It would not help them to check whether the server is
// running.
func TestNothingIsAdvisedWithoutReason(t *testing.T) {
	for _, cause := range []error{errLate, lock.Unadvised("its clock jumps")} {
		err := (&exec.Failure{Op: "acquire", Name: "a", Server: "host:1", Kind: exec.ErrUnavailable, Err: cause}).Error()
		if strings.HasSuffix(err, ")") {
			t.Errorf("advice where there is no next step: %s", err)
		}
	}
}
