package virtual

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/race"
)

// soonest is how soon the last to come is told of a circle.
const soonest = 2 * time.Second

// outcome is how an acquire ended.
type outcome struct {
	lease *holdfast.Lease
	err   error
	at    time.Time
}

// within acquires a lock within a lease, in a goroutine.
func within(ctx context.Context, lease *holdfast.Lease, l *holdfast.Lock) <-chan outcome {
	return async(func() outcome {
		got, err := l.Acquire(lease.Context(ctx))
		return outcome{got, err, time.Now()}
	})
}

// told requires that the acquire ended, in that time, with a circle of holders with these identities.
func (o outcome) told(t *testing.T, began time.Time, limit time.Duration, want ...string) {
	t.Helper()
	var found *holdfast.DeadlockError
	if !errors.Is(o.err, holdfast.ErrDeadlock) || !errors.As(o.err, &found) {
		t.Fatalf("Acquire: %v", o.err)
	}
	var circle []string
	for _, h := range found.Circle {
		circle = append(circle, h.Identity)
	}
	expect.Equal(t, "the circle", fmt.Sprint(circle), fmt.Sprint(want))
	expect.Between(t, "the time until the circle is found", o.at.Sub(began), 700*time.Millisecond, limit)
}

// got requires that the acquire was granted the lock.
func (o outcome) got(t *testing.T) *holdfast.Lease {
	t.Helper()
	expect.OK(t, o.err)
	return o.lease
}

// Processes each hold a lock and wait for that of the next, and begin to wait in any order. The one that came last is told of the circle; the
// others go on. It does not matter how the waiters wait.
func TestACircleOfProcesses(t *testing.T) {
	most := 5
	if race.Detector { // under which the 24 orders of five take 10 s
		most = 4
	}
	for n := 2; n <= most; n++ {
		for _, first := range permutations(n - 1) { // the order in which all but the last begin; the last is process n-1
			for name, poll := range map[string]time.Duration{"notified": 0, "polling": 50 * time.Millisecond} {
				if poll > 0 && n > 3 {
					continue
				}
				t.Run(fmt.Sprint(n, "/", first, "/", name), func(t *testing.T) {
					bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
						var clients []*holdfast.Client
						var leases []*holdfast.Lease
						for i := range n {
							cfg := holdfast.Config{Identity: fmt.Sprint("api-", i), PollInterval: poll}
							clients = append(clients, configured(t, srv, cfg))
							leases = append(leases, acquire(t, clients[i].Mutex(fmt.Sprint("lock-", i))))
						}
						last := n - 1
						waits := make([]<-chan outcome, n)
						var began time.Time
						for _, i := range append(first, last) {
							began = time.Now()
							waits[i] = within(t.Context(), leases[i], clients[i].Mutex(fmt.Sprint("lock-", (i+1)%n)))
							time.Sleep(300 * time.Millisecond)
						}
						circle := []string{fmt.Sprint("api-", last)}
						for i := range last {
							circle = append(circle, fmt.Sprint("api-", i))
						}
						(<-waits[last]).told(t, began, soonest, circle...)
						release(t, leases[last])
						for i := last - 1; i >= 0; i-- {
							release(t, (<-waits[i]).got(t))
							release(t, leases[i])
						}
					})
				})
			}
		}
	}
}

// permutations returns all orders of the numbers below n.
func permutations(n int) (all [][]int) {
	if n == 0 {
		return [][]int{nil}
	}
	for _, p := range permutations(n - 1) {
		for at := range n {
			all = append(all, slices.Insert(slices.Clone(p), at, n-1))
		}
	}
	return all
}

// Circles of every kind of lock that has holders, in which the first caller waits within a lease of one lock for the other, and the second
// the other way round.
func TestCirclesOfEveryKind(t *testing.T) {
	type locker = func(*holdfast.Client) *holdfast.Lock
	type pair struct{ held, wanted locker }
	mutex := func(name string) locker { return func(c *holdfast.Client) *holdfast.Lock { return c.Mutex(name) } }
	reader := func(c *holdfast.Client) *holdfast.Lock { return c.RWMutex("b").Reader() }
	writer := func(c *holdfast.Client) *holdfast.Lock { return c.RWMutex("b").Writer() }
	permits := func(n int) locker {
		return func(c *holdfast.Client) *holdfast.Lock { return c.Semaphore("b", 3).Permits(n) }
	}
	for name, p := range map[string]pair{
		"a writer waits for a reader": {reader, writer},
		"a reader waits for a writer": {writer, reader},
		"a writer waits for a writer": {writer, writer},
		"for too many permits":        {permits(2), permits(2)},
		"several":                     {mutex("b"), func(c *holdfast.Client) *holdfast.Lock { return c.Multi([]string{"b", "c"}) }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
				one := configured(t, srv, holdfast.Config{Identity: "one"})
				two := configured(t, srv, holdfast.Config{Identity: "two"})
				a := acquire(t, mutex("a")(one))
				b := acquire(t, p.held(two))
				first := within(t.Context(), a, p.wanted(one))
				time.Sleep(time.Second)
				began := time.Now()
				(<-within(t.Context(), b, mutex("a")(two))).told(t, began, soonest, "two", "one")
				release(t, b)
				release(t, (<-first).got(t))
				release(t, a)
			})
		})
	}
}

// A Multi holds some of its locks while it waits for another.
func TestACircleOfMultis(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		one := configured(t, srv, holdfast.Config{Identity: "one"})
		two := configured(t, srv, holdfast.Config{Identity: "two"})
		b := acquire(t, two.Mutex("b"))
		first := async(func() error { return expect.ErrOf(one.Multi([]string{"a", "b"}).Acquire(t.Context())) })
		time.Sleep(time.Second)
		began := time.Now()
		(<-within(t.Context(), b, two.Mutex("a"))).told(t, began, soonest, "two", "one")
		release(t, b)
		expect.OK(t, <-first)
	})
}

// Goroutines of one process may wait for each other, too, also one that stands behind another in the queue.
func TestACircleInOneProcess(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		c := configured(t, srv, holdfast.Config{Identity: "one"})
		a, b := acquire(t, c.Mutex("a")), acquire(t, c.Mutex("b"))
		other := wait(t, c.Mutex("b"))
		first := within(t.Context(), a, c.Mutex("b"))
		time.Sleep(time.Second)
		began := time.Now()
		(<-within(t.Context(), b, c.Mutex("a"))).told(t, began, soonest, "one", "one")
		release(t, b)
		release(t, other.granted(t))
		release(t, (<-first).got(t))
		release(t, a)
	})
}

// A circle is found among many waits that lead nowhere, and beside keys that hold something else.
func TestACircleAmongOtherWaits(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		one := configured(t, srv, holdfast.Config{Identity: "one"})
		two := configured(t, srv, holdfast.Config{Identity: "two"})
		a, b := acquire(t, one.Mutex("a")), acquire(t, two.Mutex("b"))
		ctx, cancel := context.WithCancel(t.Context())
		var waits []<-chan outcome
		for i := range 60 {
			name := fmt.Sprint("other-", i)
			defer release(t, acquire(t, two.Mutex(name)))
			waits = append(waits, within(ctx, a, one.Mutex(name)))
		}
		rdb := server(t, srv)
		expect.OK(t, rdb.Set(t.Context(), "holdfast:waits:{01234567}", "text", 0).Err())
		first := within(t.Context(), a, one.Mutex("b"))
		time.Sleep(time.Second)
		expect.Equal(t, "deadlocks", len(expect.Of(inspect.New(one).Deadlocks(t.Context())).OK(t)), 0)
		began := time.Now()
		(<-within(t.Context(), b, two.Mutex("a"))).told(t, began, soonest, "two", "one")
		release(t, b)
		release(t, (<-first).got(t))
		cancel()
		for _, w := range waits {
			expect.Equal(t, "Acquire", (<-w).err, context.Canceled)
		}
		release(t, a)
	})
}

// Whoever waits for somebody in a circle, but is in none, is not told, even if it came last. Neither is anybody who waits for permits of
// which some can still come.
func TestNoCircle(t *testing.T) {
	const long = 10 * time.Second
	stays := func(t *testing.T, w <-chan outcome) {
		t.Helper()
		select {
		case o := <-w:
			t.Errorf("an acquire ended with %v", o.err)
		case <-time.After(long):
		}
	}
	t.Run("outside", func(t *testing.T) {
		bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
			one, two, three := client(t, srv), client(t, srv), client(t, srv)
			a, b, c := acquire(t, one.Mutex("a")), acquire(t, two.Mutex("b")), acquire(t, three.Mutex("c"))
			first := within(t.Context(), a, one.Mutex("b"))
			ctx, cancel := context.WithCancel(t.Context())
			outside := within(ctx, c, three.Mutex("a"))
			stays(t, outside)
			release(t, b)
			release(t, (<-first).got(t))
			cancel()
			expect.Equal(t, "Acquire", (<-outside).err, context.Canceled)
			release(t, a)
			release(t, c)
		})
	})
	t.Run("a reader does not wait for readers", func(t *testing.T) {
		bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
			one, two, three := client(t, srv), client(t, srv), client(t, srv)
			held, m := acquire(t, one.RWMutex("rw").Reader()), acquire(t, two.Mutex("m"))
			writer := async(func() error {
				return expect.ErrOf(three.RWMutex("rw").Writer(holdfast.Wait(5 * time.Second)).Acquire(t.Context()))
			})
			time.Sleep(10 * time.Millisecond)
			behind := within(t.Context(), m, two.RWMutex("rw").Reader())
			time.Sleep(10 * time.Millisecond)
			last := within(t.Context(), held, one.Mutex("m"))
			expect.Err(t, "the writer", <-writer, holdfast.ErrHeld)
			release(t, (<-behind).got(t))
			release(t, m)
			release(t, (<-last).got(t))
			release(t, held)
		})
	})
	// Two goroutines share a hold of readers. One goes on to wait after its lease has ended, so nobody waits within that hold.
	t.Run("who has left a shared hold", func(t *testing.T) {
		bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
			one, two := client(t, srv), client(t, srv)
			other := acquire(t, one.RWMutex("a").Reader())
			left, m := acquire(t, one.RWMutex("a").Reader()), acquire(t, one.Mutex("m"))
			b := acquire(t, two.Mutex("b"))
			permit := acquire(t, two.Semaphore("s", 1).Permits(1))
			first := within(context.WithoutCancel(left.Context(t.Context())), m, one.Mutex("b"))
			second := within(t.Context(), other, one.Semaphore("s", 1).Permits(1))
			time.Sleep(2 * time.Second)
			release(t, left)
			third := within(t.Context(), b, two.RWMutex("a").Writer())
			stays(t, third)
			release(t, permit)
			release(t, (<-second).got(t))
			release(t, other)
			release(t, (<-third).got(t))
			release(t, b)
			release(t, (<-first).got(t))
			release(t, m)
		})
	})
	t.Run("a permit can come", func(t *testing.T) {
		bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
			one, two, three := client(t, srv), client(t, srv), client(t, srv)
			a := acquire(t, one.Mutex("a"))
			held, others := acquire(t, two.Semaphore("s", 2).Permits(1)), acquire(t, three.Semaphore("s", 2).Permits(1))
			first, second := within(t.Context(), a, one.Semaphore("s", 2).Permits(1)), within(t.Context(), held, two.Mutex("a"))
			stays(t, first)
			stays(t, second)
			release(t, others)
			release(t, (<-first).got(t))
			release(t, a)
			release(t, (<-second).got(t))
			release(t, held)
		})
	})
}

// A circle of callers that do not want to know of it lasts. An inspector lists it until somebody leaves it. A caller who does want to know
// is told, also if others came later.
func TestACircleThatIsIgnored(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		one := configured(t, srv, holdfast.Config{Identity: "one", IgnoreDeadlocks: true})
		two := configured(t, srv, holdfast.Config{Identity: "two", IgnoreDeadlocks: true})
		three := configured(t, srv, holdfast.Config{Identity: "three"})
		in := inspect.New(three)
		lists := func(want ...string) {
			t.Helper()
			var circles []string
			for _, found := range expect.Of(in.Deadlocks(t.Context())).OK(t) {
				text := ""
				for _, h := range found.Circle {
					text += h.Name + " of " + h.Identity + ", "
				}
				circles = append(circles, text)
			}
			expect.Equal(t, "deadlocks", fmt.Sprint(circles), fmt.Sprint(want))
		}
		a, b, c, d := acquire(t, one.Mutex("a")), acquire(t, two.Mutex("b")), acquire(t, three.Mutex("c")), acquire(t, one.Mutex("d"))
		lists()
		ctx, cancel := context.WithCancel(t.Context())
		first := within(ctx, a, one.Mutex("b"))
		time.Sleep(time.Millisecond)
		second := within(ctx, b, two.Mutex("a"))
		third := within(t.Context(), c, three.Mutex("d"))
		time.Sleep(time.Minute)
		began := time.Now()
		fourth := within(t.Context(), d, one.Mutex("c"))
		(<-third).told(t, began, 5*time.Second, "three", "one") // it has waited for long, and looks rarely
		release(t, c)
		release(t, (<-fourth).got(t))
		lists("a of one, b of two, ")
		cancel()
		for _, w := range []<-chan outcome{first, second} {
			expect.Equal(t, "Acquire", (<-w).err, context.Canceled)
		}
		lists()
		for _, lease := range []*holdfast.Lease{a, b, d} {
			release(t, lease)
		}
	})
}

// Fault: Somebody leaves a circle while others look: he gives up, or his process dies. Nobody is told of a circle that is none any more:
// whoever is told, is told before, or at the next look if the other died just after he said that he waits.
func TestACircleEndsWhileOthersLook(t *testing.T) {
	for name, late := range map[string]time.Duration{"gives up": 0, "dies": 120 * time.Millisecond} {
		kills := late > 0
		t.Run(name, func(t *testing.T) {
			for after := 500 * time.Millisecond; after < 3*time.Second; after += 110 * time.Millisecond {
				bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
					var dead atomic.Bool
					one := client(t, srv, meddle(func(r request) (string, error) {
						if dead.Load() {
							return "", errors.New("dead")
						}
						return r.send()
					}))
					two := configured(t, srv, holdfast.Config{Identity: "two"})
					a := acquire(t, one.Mutex("a", holdfast.TTL(10*time.Second)))
					b := acquire(t, two.Mutex("b"))
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					first := within(ctx, a, one.Mutex("b"))
					time.Sleep(200 * time.Millisecond)
					second := within(t.Context(), b, two.Mutex("a"))
					time.Sleep(after)
					left := time.Now()
					dead.Store(kills)
					cancel()
					<-first
					if !kills {
						release(t, a)
					}
					switch o := <-second; {
					case o.err == nil:
						release(t, o.lease)
					case !errors.Is(o.err, holdfast.ErrDeadlock) || o.at.Sub(left) > late:
						t.Errorf("%s after the first has left, the second is told %v", o.at.Sub(left), o.err)
					}
					dead.Store(false)
					release(t, b)
				})
			}
		})
	}
}
