package virtual

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// line is a lock for which a client waits twice, and another client behind the first of these. Nothing is passed on within a process.
type line struct {
	way           *tap
	lock          *holdfast.Lock
	holder        *holdfast.Lease // of a third client
	first, second *waiting
	other         *waiting
}

func newLine(t *testing.T, srv *holdfasttest.Server, commandTimeout time.Duration) *line {
	t.Helper()
	return newLineWithin(t, srv, commandTimeout, time.Second)
}

// newLineWithin is newLine with waiters that come with that time between them.
func newLineWithin(t *testing.T, srv *holdfasttest.Server, commandTimeout, gap time.Duration) *line {
	t.Helper()
	cfg := holdfast.Config{TTL: 10 * time.Minute, MaxLocalHandovers: -1, CommandTimeout: commandTimeout}
	c, way := tapped(t, srv, cfg)
	l := &line{way: way, lock: c.Mutex("a")}
	l.holder = acquire(t, client(t, srv).Mutex("a", holdfast.TTL(10*time.Minute)))
	l.first = waitFor(t, l.lock, gap)
	l.second = waitFor(t, l.lock, gap)
	l.other = waitFor(t, configured(t, srv, cfg).Mutex("a"), gap)
	return l
}

// hold lets the first waiter have the lock for so long.
func (l *line) hold(t *testing.T, d time.Duration) {
	t.Helper()
	release(t, l.holder)
	l.first.granted(t)
	synctest.Wait()
	l.way.set(func() { l.way.requests = nil })
	time.Sleep(d)
}

// waiters returns how many wait for the lock, as the server says.
func (l *line) waiters(t *testing.T) int {
	t.Helper()
	s := expect.Of(l.lock.Status(t.Context())).OK(t)
	return len(s.Waiters)
}

// A process that has another waiter queues it with the release of a short hold, in one request, behind all others.
func TestAReleaseCarriesTheNextWaiter(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		l := newLine(t, srv, time.Second)
		l.hold(t, time.Millisecond)
		release(t, l.first.lease)
		<-l.other.done
		time.Sleep(100 * time.Millisecond)
		expect.Equal(t, "acquires of the next waiter's own", l.way.sent(script.Acquire().SHA1), 0)
		expect.Equal(t, "waiters", l.waiters(t), 1)
		l.other.served(t, 0)
		l.second.served(t, 10*time.Millisecond)
	})
}

// A waiter that was queued with a release is the same when it looks, as it has promised: one entry of the queue, with one token.
func TestAWaiterThatAReleaseCarriedLooks(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		l := newLineWithin(t, srv, time.Second, 100*time.Millisecond) // none waits for longer than a claim: they promise
		queue := func() []string {
			members, err := server(t, srv).ZRange(t.Context(), "holdfast:{a}:q", 0, -1).Result()
			if err != nil {
				t.Error(err)
			}
			return members
		}
		l.hold(t, time.Millisecond)
		release(t, l.first.lease)
		<-l.other.done
		before := queue()
		time.Sleep(3 * time.Second)
		expect.Equal(t, "looks", l.way.sent(script.Acquire().SHA1), 1)
		if after := queue(); len(after) != 1 || !slices.Equal(before, after) || !strings.Contains(after[0], "@") {
			t.Errorf("the queue was %q, and is %q", before, after)
		}
		l.other.served(t, 0)
		l.second.served(t, 10*time.Millisecond)
	})
}

// A release that finds nobody in the queue does not queue the next waiter, which then asks by itself at once.
func TestAReleaseFindsNobodyInTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		l := newLine(t, srv, time.Second)
		l.hold(t, time.Millisecond)
		l.other.cancel()
		<-l.other.done
		synctest.Wait()
		release(t, l.first.lease)
		l.second.served(t, 10*time.Millisecond)
	})
}

// While a hold is long, the next waiter asks by itself, so that those who come later are behind it.
func TestTheNextWaiterAsksDuringALongHold(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		l := newLine(t, srv, time.Second)
		l.hold(t, 20*time.Millisecond)
		expect.Equal(t, "waiters", l.waiters(t), 2)
		release(t, l.first.lease)
		l.other.served(t, 10*time.Millisecond)
		l.second.served(t, 10*time.Millisecond)
	})
}

func TestTheNextWaiterAsksWhenAHoldIsNotReleased(t *testing.T) {
	for what, end := range map[string]func(*testing.T, *holdfasttest.Server, *holdfast.Lease){
		"lost": func(t *testing.T, srv *holdfasttest.Server, lease *holdfast.Lease) {
			server(t, srv).Del(t.Context(), "holdfast:{a}")
			expect.Err(t, "Extend", lease.Extend(t.Context(), 10*time.Minute), holdfast.ErrLost)
		},
		"detached": func(t *testing.T, _ *holdfasttest.Server, lease *holdfast.Lease) {
			detach(t, lease, time.Minute)
		},
	} {
		bubbleOf(t, what, func(t *testing.T, srv *holdfasttest.Server) {
			l := newLine(t, srv, time.Second)
			l.hold(t, time.Millisecond)
			end(t, srv, l.first.lease)
			synctest.Wait()
			expect.AtLeast(t, "requests of the next waiter", l.way.sent(script.Acquire().SHA1), 1)
			for _, w := range []*waiting{l.second, l.other} {
				w.giveUp()
			}
		})
	}
}

// Fault: A waiter gives up while a release carries it, whose reply comes late. It does not stay in the queue.
func TestAWaiterGivesUpWhileAReleaseCarriesIt(t *testing.T) {
	for what, timeout := range map[string]time.Duration{"in time": 10 * time.Second, "too late": time.Second} {
		bubbleOf(t, what, func(t *testing.T, srv *holdfasttest.Server) {
			l := newLine(t, srv, timeout)
			l.hold(t, time.Millisecond)
			l.way.set(func() { l.way.late = script.Release().SHA1 })
			released := async(func() error { return l.first.lease.Release(context.Background()) })
			time.Sleep(500 * time.Millisecond)
			l.second.cancel()
			<-l.second.done
			expect.Err(t, "Acquire", l.second.err, context.Canceled)
			if err := <-released; err != nil && timeout > 3*time.Second {
				t.Errorf("Release: %v", err)
			}
			time.Sleep(5 * time.Second)
			expect.Equal(t, "waiters", l.waiters(t), 0)
			l.other.served(t, 0)
		})
	}
}

// Fault: A release that carries a waiter is delayed, beyond the release's time and the waiter's. What comes late queues nobody.
func TestALateReleaseQueuesNobody(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		l := newLine(t, srv, time.Second)
		l.hold(t, time.Millisecond)
		l.way.set(func() { l.way.holds = script.Release().SHA1 })
		ctx := lasting(t, time.Second)
		_ = l.first.lease.Release(ctx)
		l.second.cancel()
		<-l.second.done
		time.Sleep(time.Minute)
		l.other.served(t, 0)
		time.Sleep(time.Second)
		again := acquire(t, l.lock)
		next := wait(t, configured(t, srv, holdfast.Config{TTL: 10 * time.Minute}).Mutex("a"))
		l.way.deliver(t)
		expect.Equal(t, "waiters", l.waiters(t), 1)
		release(t, again)
		next.served(t, 10*time.Millisecond)
	})
}

// Fault: The server stops answering while a release carries a waiter. If the waiter's time passes, its error says so, and not that others
// hold the lock.
func TestAnOutageWhileAReleaseCarriesAWaiter(t *testing.T) {
	for what, broken := range map[string]state{"no answer": stuck, "connection refused": refused} {
		for _, patience := range []time.Duration{2 * time.Second, 4 * time.Second} {
			for _, by := range []string{"a deadline", "Wait"} {
				bubbleOf(t, fmt.Sprint(what, " in ", patience, " by ", by), func(t *testing.T, srv *holdfasttest.Server) {
					path := newWay(srv)
					c := path.client(t, holdfast.Config{TTL: 10 * time.Minute, MaxLocalHandovers: -1, CommandTimeout: time.Second})
					holder := acquire(t, client(t, srv).Mutex("a", holdfast.TTL(10*time.Minute)))
					first := wait(t, c.Mutex("a"))
					second := make(chan error, 1)
					go func() {
						ctx, l := context.Background(), c.Mutex("a", holdfast.Wait(patience))
						if by == "a deadline" {
							var cancel context.CancelFunc
							ctx, cancel = context.WithTimeout(ctx, patience)
							defer cancel()
							l = c.Mutex("a")
						}
						_, err := l.Acquire(ctx)
						second <- err
					}()
					time.Sleep(time.Second)
					release(t, holder)
					<-first.done
					time.Sleep(time.Millisecond)
					path.become(broken)
					released := async(func() error { return first.lease.Release(context.Background()) })
					expect.ErrSays(t, "Acquire", <-second, holdfast.ErrUnavailable, "acquire")
					<-released
				})
			}
		}
	}
}

// Fault: A release carries the next waiter, and its reply is lost. The waiter is in the queue only once; it is soon handed the
// lock, and takes it before its claim is over.
func TestALostReplyDoesNotHoldUpTheNextWaiter(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		l := newLine(t, srv, 10*time.Second)
		l.hold(t, time.Millisecond)
		l.way.set(func() { l.way.silences = script.Release().SHA1 })
		released := async(func() error { return l.first.lease.Release(context.Background()) })
		<-l.other.done
		expect.Equal(t, "waiters", server(t, srv).ZCount(t.Context(), "holdfast:{a}:q", "0", "+inf").Val(), 1)
		l.other.served(t, 10*time.Millisecond)
		begun := time.Now()
		<-l.second.done
		if took := l.second.at.Sub(begun); l.second.err != nil || took > time.Second {
			t.Errorf("Acquire took %s, and returned %v", took, l.second.err)
		}
		<-released                                       // it says that the lock is gone, which an earlier try may have brought about
		_ = l.second.lease.Release(context.Background()) // on the same connection, which says nothing
		time.Sleep(time.Minute)
		expect.Equal(t, "waiters", l.waiters(t), 0)
		release(t, acquire(t, l.lock))
	})
}
