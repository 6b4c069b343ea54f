package virtual

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// Fault: The process that was handed the lock dies. The waiter behind it was not told when to look, since it has promised to look by
// then. It keeps the promise, and has the lock when the claim ends, also if it has looked earlier.
func TestAWaiterKeepsItsPromise(t *testing.T) {
	for name, early := range map[string]int{"no earlier look": 0, "an earlier look": 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
				var doomed mortals
				var d eager
				holder := acquire(t, client(t, srv).Mutex("a", holdfast.TTL(10*time.Minute)))
				next := wait(t, doomed.process(t, srv).Mutex("a"))
				behind := wait(t, client(t, srv, d.wrap).Mutex("a"))
				if early > 0 {
					d.interrupt()
					synctest.Wait()
				}
				if looks, _ := d.counted(); looks != early {
					t.Errorf("it looked %d times", looks)
				}
				release(t, holder)
				<-next.done
				doomed.kill()
				behind.served(t, 1500*time.Millisecond+50*time.Millisecond)
				if looks, standbys := d.counted(); looks != 2 || standbys > 0 {
					t.Errorf("it was told %d times to look, and looked %d times", standbys, looks)
				}
			})
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
				t.Errorf("%s: it was told %d times to look, not %d, and looked %d times, not %d", round.what, standbys, round.standbys, looks, round.looks)
			}
		}
	})
}

// Fault: The server hands the lock to a waiter but refuses its looks, as it does while a slot is being moved. The message alone serves the
// waiter.
func TestALockIsHandedToAWaiterWhoseLooksAreRefused(t *testing.T) {
	for name, late := range map[string]time.Duration{"before it looks": -time.Millisecond, "at its first look": 25 * time.Millisecond, "between two": time.Minute} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
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
		})
	}
}
