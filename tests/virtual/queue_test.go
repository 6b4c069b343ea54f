package virtual

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// Fault: The holder dies, and with it the first waiters. The next waiter gets the lock within TTL + 1 s, however many
// they are, and whenever they died.
func TestAHolderDiesWithTheFirstWaiters(t *testing.T) {
	for kind, lock := range kinds {
		for _, dead := range []int{0, 1, 6} {
			for _, ttl := range []time.Duration{time.Second, 4 * time.Second, 15 * time.Second} {
				t.Run(fmt.Sprintf("%s/%d/%s", kind, dead, ttl), func(t *testing.T) {
					if testing.Short() && kind != "mutex" && kind != "permit" {
						t.Skip("many processes")
					}
					for _, after := range []time.Duration{100 * time.Millisecond, 3 * time.Second, 11 * time.Second} {
						bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
							var doomed mortals
							acquire(t, lock(doomed.process(t, srv), holdfast.TTL(ttl)))
							for range dead {
								wait(t, lock(doomed.process(t, srv), holdfast.TTL(30*time.Second)))
							}
							last := wait(t, lock(client(t, srv), holdfast.TTL(30*time.Second)))
							time.Sleep(after)
							doomed.kill()
							last.served(t, ttl+time.Second)
						})
					}
				})
			}
		}
	}
}

// Fault: The first waiters for a key that another program holds die. The next notices at its next look, within 12 s.
func TestTheFirstWaitersDieWhileAnotherProgramHasTheKey(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		other := server(t, srv)
		other.Set(t.Context(), "k", "theirs", 0)
		var doomed mortals
		for range 6 {
			wait(t, doomed.process(t, srv).MutexKey("k"))
		}
		last := wait(t, client(t, srv).MutexKey("k"))
		doomed.kill()
		time.Sleep(15 * time.Second) // it has looked since
		other.Del(t.Context(), "k")
		last.served(t, 400*time.Millisecond)
	})
}

// Fault: The first waiter for a key that another program holds gives up. Another goroutine of its process, which wants another lease, takes
// its place and looks as often as a first waiter does, whichever of their two entries the server sorts first.
func TestAFirstWaiterForAnotherProgramsKeyIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		other, c := server(t, srv), client(t, srv)
		for i := range 16 {
			key := fmt.Sprint("k", i)
			other.Set(t.Context(), key, "theirs", 0)
			first := wait(t, c.MutexKey(key))
			next := wait(t, c.MutexKey(key, holdfast.TTL(5*time.Second)))
			first.giveUp()
			time.Sleep(time.Second)
			other.Del(t.Context(), key)
			next.served(t, 400*time.Millisecond)
		}
	})
}

// Fault: A waiter finds the lock free when it looks, acquires it without a hand-over, and dies. The next in the queue
// has been told when to look, and is served.
func TestFirstWaiterIsServedAfterAHolderThatFoundTheLockAndDied(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		acquire(t, client(t, srv, dying).Mutex("a", holdfast.TTL(5*time.Second), holdfast.NoRenew()))
		first := wait(t, client(t, srv, dying).Mutex("a", holdfast.TTL(time.Second), holdfast.NoRenew()))
		time.Sleep(2500 * time.Millisecond)
		second := wait(t, client(t, srv).Mutex("a"))
		first.granted(t)
		second.served(t, time.Second+50*time.Millisecond)
	})
}

// Fault: A message that says when to look is late, or forged. It does not make a waiter look later than it would
// without it.
func TestAStandbyDoesNotPutOffALook(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		observer := server(t, srv)
		acquire(t, client(t, srv, dying).Mutex("a", holdfast.TTL(10*time.Second), holdfast.NoRenew()))
		w := wait(t, client(t, srv).Mutex("a"))
		for range 3 {
			waiters := observer.ZRange(t.Context(), "holdfast:{a}:q", 0, -1).Val()
			if len(waiters) != 1 {
				t.Fatalf("%q are in the queue", waiters)
			}
			member := strings.Split(waiters[0], "\n")
			now := expect.Of(observer.Time(t.Context()).Result()).OK(t)
			message := fmt.Sprintf("hf2 standby %s %d %d", member[0], now.UnixMicro(), now.Add(25*time.Second).UnixMicro())
			expect.Equal(t, "who have heard it", observer.Publish(t.Context(), member[2], message).Val(), 1)
			time.Sleep(time.Second)
		}
		w.served(t, 6*time.Second+50*time.Millisecond)
	})
}

// If the first waiting goroutine of a process leaves, and the next one wants other options, the process asks again. It keeps its place,
// although the lock becomes free meanwhile, or was granted to the goroutine that has left.
func TestNobodyPassesAProcessThatAsksAnew(t *testing.T) {
	for what, granted := range map[string]bool{"it asks": false, "its grant finds nobody": true} {
		eachWayOf(t, what, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
			lease := acquire(t, client(t, srv).Mutex("a"))
			var slow atomic.Bool
			c := configured(t, srv, cfg, meddle(func(r request) (string, error) {
				switch {
				case !slow.Load() || !r.does("acquire"):
					return r.send()
				case granted:
					return r.late(200 * time.Millisecond)
				}
				time.Sleep(500 * time.Millisecond)
				return r.send()
			}))
			options := []holdfast.MutexOption{holdfast.TTL(20 * time.Second)}
			if granted { // without renewals the lock must be confirmed after a hand-over
				options = append(options, holdfast.NoRenew())
			}
			leaving := wait(t, c.Mutex("a", options...))
			staying := wait(t, c.Mutex("a", holdfast.TTL(10*time.Second)))
			behind := wait(t, client(t, srv).Mutex("a"))
			slow.Store(true)
			if granted {
				release(t, lease)
				time.Sleep(100 * time.Millisecond) // the answer is on its way
				leaving.cancel()
			} else {
				leaving.cancel()
				time.Sleep(100 * time.Millisecond) // it is asking
				release(t, lease)
			}
			select {
			case <-staying.done:
			case <-behind.done:
				t.Fatal("the process behind was served first")
			}
			staying.served(t, 0)
			behind.served(t, time.Second)
		})
	}
}

// Fault: The process that was handed the lock dies. The waiter behind it was not told when to look, since it has promised to look by
// then. It keeps the promise, and has the lock when the claim ends, also if it has looked earlier.
func TestAWaiterKeepsItsPromise(t *testing.T) {
	for name, early := range map[string]int{"no earlier look": 0, "an earlier look": 1} {
		bubbleOf(t, name, func(t *testing.T, srv *holdfasttest.Server) {
			var doomed mortals
			var d eager
			holder := acquire(t, client(t, srv).Mutex("a", holdfast.TTL(10*time.Minute)))
			next := wait(t, doomed.process(t, srv).Mutex("a"))
			behind := wait(t, client(t, srv, d.wrap).Mutex("a"))
			if early > 0 {
				d.mu.Lock()
				d.interrupt()
				d.mu.Unlock()
				synctest.Wait()
			}
			looks, _ := d.counted()
			expect.Equal(t, "looks", looks, early)
			release(t, holder)
			<-next.done
			doomed.kill()
			behind.served(t, 1500*time.Millisecond+50*time.Millisecond)
			if looks, standbys := d.counted(); looks != 2 || standbys > 0 {
				t.Errorf("it was told %d times to look, and looked %d times", standbys, looks)
			}
		})
	}
}

// A waiter whose promised time has passed is told when to look. After a wait longer than a claim, the next one promises nothing.
func TestWhoWaitsLongPromisesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var d eager
		holders, other, lock := client(t, srv), client(t, srv).Mutex("a"), client(t, srv, d.wrap).Mutex("a")
		for _, round := range []struct {
			what            string
			lasts           time.Duration // the hold
			looks, standbys int
		}{
			{"long, the first", 2 * time.Second, 1, 1},
			{"short, after a long one", 10 * time.Millisecond, 0, 1},
			{"short, after a short one", 10 * time.Millisecond, 0, 0},
			{"long, after a short one", 2 * time.Second, 1, 1},
			{"long, after a long one", 2 * time.Second, 0, 1},
		} {
			holder := acquire(t, holders.Mutex("a", holdfast.TTL(10*time.Minute)))
			next := wait(t, other)
			behind := wait(t, lock)
			time.Sleep(round.lasts)
			release(t, holder)
			next.served(t, 10*time.Millisecond)
			behind.served(t, 10*time.Millisecond)
			if looks, standbys := d.counted(); looks != round.looks || standbys != round.standbys {
				t.Errorf("%s: it was told %d times to look, not %d, and looked %d times, not %d",
					round.what, standbys, round.standbys, looks, round.looks)
			}
		}
	})
}

// Fault: The server hands the lock to a waiter but refuses its looks, as it does while a slot is being moved. The message alone serves the
// waiter.
func TestALockIsHandedToAWaiterWhoseLooksAreRefused(t *testing.T) {
	for name, late := range map[string]time.Duration{
		"before it looks": -time.Millisecond, "at its first look": 25 * time.Millisecond, "between two": time.Minute,
	} {
		bubbleOf(t, name, func(t *testing.T, srv *holdfasttest.Server) {
			var moves atomic.Bool
			refuses := meddle(func(r request) (string, error) {
				if moves.Load() && r.does("acquire") {
					return "", driver.ReplyError("TRYAGAIN Multiple keys request during rehashing of slot")
				}
				return r.send()
			})
			holder := acquire(t, client(t, srv).Mutex("a", holdfast.TTL(10*time.Minute)))
			next := wait(t, client(t, srv, refuses).Mutex("a"))
			moves.Store(true)
			time.Sleep(500*time.Millisecond + late) // it has waited for a second
			release(t, holder)
			next.served(t, time.Second)
			moves.Store(false)
		})
	}
}

// Fault: The reply to a waiter's first request is lost, and the lock is handed to the waiter before it can ask again. The message tells it
// that the server works, so it does not give up.
func TestALockIsHandedToAWaiterThatHasHeardNothingElse(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var loses atomic.Bool
		m := client(t, srv, meddle(func(r request) (string, error) {
			if !r.does("acquire") || !loses.Swap(false) {
				return r.send()
			}
			_, _ = r.late(time.Second)
			return "", io.EOF
		})).Mutex("a", holdfast.TTL(10*time.Minute))
		holder := acquire(t, m)
		loses.Store(true)
		next := waitFor(t, m, 500*time.Millisecond)
		release(t, holder)
		next.served(t, time.Second)
	})
}

// eager counts the looks of waiters, and the messages that tell them when to look. Before a waiter hears that it is queued, eager can
// interrupt subscriptions for a moment, or make the server not know them.
type eager struct {
	drivertest.Driver
	mu              sync.Mutex
	sinks           []driver.Subscription
	interrupts      bool
	unknown         bool
	looks, standbys int
}

func (d *eager) wrap(inner drivertest.Driver) drivertest.Driver {
	d.Driver = inner
	return d
}

func (d *eager) Subscribe(s driver.Subscription) (cancel func()) {
	tell := s.Message
	s.Message = func(message string) {
		if strings.HasPrefix(message, "hf2 standby ") {
			d.mu.Lock()
			d.standbys++
			d.mu.Unlock()
		}
		tell(message)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sinks = append(d.sinks, s)
	return d.Driver.Subscribe(s)
}

func (d *eager) Run(ctx context.Context, call driver.Call) (string, error) {
	reply, err := d.Driver.Run(ctx, call)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case call.Script.Name != "acquire":
	case strings.HasPrefix(call.Args[0], "l"):
		d.looks++
	case strings.HasPrefix(call.Args[0], "w") && d.unknown && err == nil:
		fields := strings.Fields(reply)
		fields[5] = "0" // receivers
		reply = strings.Join(fields, " ")
	case strings.HasPrefix(call.Args[0], "w") && d.interrupts:
		d.interrupt()
	}
	return reply, err
}

// interrupt ends the subscriptions, and begins them again. The caller holds d.mu.
func (d *eager) interrupt() {
	for _, sink := range d.sinks {
		sink.Down(errors.New("interrupted"))
		sink.Up()
	}
}

// counted returns the numbers of looks and messages since the last call.
func (d *eager) counted() (looks, standbys int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	looks, standbys = d.looks, d.standbys
	d.looks, d.standbys = 0, 0
	return looks, standbys
}

// A waiter that was just told its place does not ask again, unless a notification may have been lost since it
// asked.
func TestAWaiterLooksOnlyIfItMayHaveMissedSomething(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		d := &eager{}
		holder := client(t, srv).Mutex("m")
		l := client(t, srv, d.wrap).Mutex("m")
		for _, c := range []struct {
			what                string
			interrupts, unknown bool
			looks               int
		}{
			{"at first, it has to subscribe", false, false, 0},
			{"nothing happens", false, false, 0},
			{"the subscription is interrupted", true, false, 1},
			{"the server does not know of the subscription", false, true, 1},
		} {
			d.mu.Lock()
			d.interrupts, d.unknown = c.interrupts, c.unknown
			d.mu.Unlock()
			d.counted()
			lease := acquire(t, holder)
			w := wait(t, l)
			looks, _ := d.counted()
			expect.Equal(t, c.what+": looks", looks, c.looks)
			release(t, lease)
			w.served(t, time.Second)
		}
	})
}
