package virtual

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
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
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/transfer"
)

// between is a driver whose requests a test can answer, for a time. It records the names of the scripts that were run.
type between struct {
	mu    sync.Mutex
	run   func(r request) (string, error) // nil: send
	calls []string
}

func (d *between) wrap(inner drivertest.Driver) drivertest.Driver {
	return meddle(func(r request) (string, error) {
		d.mu.Lock()
		d.calls = append(d.calls, r.Script.Name)
		run := d.run
		d.mu.Unlock()
		if run == nil {
			run = request.anyhow
		}
		return run(r)
	})(inner)
}

func (d *between) handle(run func(r request) (string, error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.run = run
}

// since returns which scripts were run since its last call, without those of waiters that look.
func (d *between) since() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls := slices.DeleteFunc(d.calls, func(name string) bool { return name == "acquire" })
	d.calls = nil
	return calls
}

var errNoAnswer = context.DeadlineExceeded // as a driver returns it: the request may have been carried out

func detach(t *testing.T, l *holdfast.Lease, ttl time.Duration) transfer.Ticket {
	t.Helper()
	return expect.Of(transfer.Detach(t.Context(), l, ttl)).OK(t)
}

func adopt(t *testing.T, c *holdfast.Client, ticket transfer.Ticket) *holdfast.Lease {
	t.Helper()
	return expect.Of(transfer.Adopt(t.Context(), c, ticket)).OK(t)
}

// free requires that nobody holds the lock "a".
func free(t *testing.T, srv *holdfasttest.Server) {
	t.Helper()
	expect.Equal(t, "the lock is held", isHeld(t, client(t, srv)), false)
}

func isHeld(t *testing.T, c *holdfast.Client) bool {
	t.Helper()
	return expect.Of(backend.IsHeld(t.Context(), c.Mutex("a"))).OK(t)
}

// Once a lease is detached, its process neither renews nor releases it, nor hands it to its own goroutines. When the
// ticket expires, the lock is theirs.
func TestADetachedLeaseIsLeftAlone(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		var d between
		c := configured(t, srv, cfg, d.wrap)
		// A lock that was handed over, and passed on within the process, is no different.
		lease := acquire(t, client(t, srv).Mutex("a"))
		before, handed, here := wait(t, c.Mutex("a")), wait(t, c.Mutex("a")), wait(t, c.Mutex("a"))
		release(t, lease)
		before.served(t, time.Second)
		handed.granted(t)
		began := time.Now()
		ticket := detach(t, handed.lease, time.Hour)
		release(t, handed.lease)
		d.since()
		time.Sleep(59 * time.Minute)
		expect.Equal(t, "what the process of a detached lease runs", fmt.Sprint(d.since()), "[]")
		expect.Equal(t, "the lock is held", isHeld(t, c), true)
		<-here.done
		if here.err != nil || here.at.Sub(began) < time.Hour || here.at.Sub(began) > time.Hour+2*time.Second {
			t.Errorf("a waiter got the lock after %s: %v", here.at.Sub(began), here.err)
		}
		expect.Rises(t, handed.lease.Fence(), here.lease.Fence())
		expect.Err(t, "Adopt", expect.ErrOf(transfer.Adopt(t.Context(), c, ticket)), holdfast.ErrLost)
		release(t, here.lease)
	})
}

// A lease that was passed on within its process is adopted like any other, though the lock's value has an earlier fence.
func TestALeaseThatWasPassedOnIsDetached(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		c := configured(t, srv, cfg)
		lease := acquire(t, client(t, srv).Mutex("a"))
		first, second := wait(t, c.Mutex("a")), wait(t, c.Mutex("a"))
		release(t, lease)
		first.granted(t)
		time.Sleep(20 * time.Millisecond) // until the first renewal has reserved a fence
		release(t, first.lease)
		second.granted(t)
		value := server(t, srv).Get(t.Context(), "holdfast:{a}").Val()
		if fence := strings.Split(value, ":")[2]; fence == strconv.FormatUint(second.lease.Fence(), 10) {
			t.Fatalf("it was not passed on: %q", value)
		}
		heir := adopt(t, client(t, srv), detach(t, second.lease, time.Minute))
		expect.Rises(t, second.lease.Fence(), heir.Fence())
		release(t, heir)
	})
}

// Fault: The machine is suspended while a lease is being detached. It notices that it is too late, whatever the
// answer is.
func TestALeaseThatIsDetachedInASuspension(t *testing.T) {
	suspendable(t, func(t *testing.T, srv *holdfasttest.Server, suspend func(time.Duration)) {
		var d between
		lease := acquire(t, client(t, srv, d.wrap).Mutex("a", holdfast.TTL(time.Minute)))
		d.handle(func(r request) (string, error) {
			reply, err := r.anyhow()
			suspend(2 * time.Minute)
			return reply, err
		})
		if ticket, err := transfer.Detach(t.Context(), lease, time.Hour); !errors.Is(err, holdfast.ErrLost) || ticket != (transfer.Ticket{}) {
			t.Errorf("Detach: %v, %v", ticket, err)
		}
		d.handle(nil)
		synctest.Wait()
		free(t, srv)
	})
}

// Fault: A lease is to be detached whose lock the server has lost. It takes the lock again, as by a renewal, and is
// detached.
func TestALeaseIsDetachedAfterALossOfData(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		lease := acquire(t, configured(t, srv, cfg).Mutex("a"))
		server(t, srv).FlushAll(t.Context())
		ticket := detach(t, lease, time.Minute)
		heir := adopt(t, client(t, srv), ticket)
		expect.Rises(t, lease.Fence(), heir.Fence())
		release(t, heir)

		// With an exact key another program may have had it.
		lease = acquire(t, configured(t, srv, cfg).MutexKey("k"))
		server(t, srv).FlushAll(t.Context())
		if _, err := transfer.Detach(t.Context(), lease, time.Minute); !errors.Is(err, holdfast.ErrLost) || !errors.Is(lease.Err(), holdfast.ErrLost) {
			t.Errorf("Detach: %v", err)
		}
	})
}

// Fault: A process adopts a lock while it still believes that it holds an earlier lease of it. That lease is lost at
// once.
func TestAnAdoptionEndsAnEarlierLease(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		c, other := configured(t, srv, cfg), client(t, srv)
		for _, get := range []func(context.Context) (*holdfast.Lease, error){c.Mutex("a").Acquire, c.Mutex("a").TryAcquire} {
			earlier := expect.Of(get(t.Context())).OK(t)
			server(t, srv).Del(t.Context(), "holdfast:{a}")
			heir := adopt(t, c, detach(t, acquire(t, other.Mutex("a")), time.Minute))
			if earlier.Err() == nil || heir.Err() != nil {
				t.Errorf("the earlier lease: %v; the adopted one: %v", earlier.Err(), heir.Err())
			}
			release(t, heir)
		}
	})
}

// Fault: The message that granted a lock comes late, when the lock already belongs to a ticket. Nothing is released.
func TestALateMessageDoesNotReleaseADetachedLock(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var echoes atomic.Int64 // each grant comes once more, later
		c := client(t, srv, overhear(func(message string, tell func(string)) {
			if tell(message); strings.HasPrefix(message, "hf2 grant ") {
				time.AfterFunc(10*time.Second, func() {
					echoes.Add(1)
					tell(message)
				})
			}
		}))
		lease := acquire(t, client(t, srv).Mutex("a"))
		w := wait(t, c.Mutex("a"))
		release(t, lease)
		w.granted(t)
		ticket := detach(t, w.lease, time.Hour)
		time.Sleep(time.Minute)
		if echoes.Load() != 1 || !isHeld(t, c) {
			t.Errorf("after %d late messages the lock is held: %v", echoes.Load(), isHeld(t, c))
		}
		heir := adopt(t, c, ticket)
		release(t, heir)
	})
}

// Fault: The server does not confirm that it keeps a lock that is being detached. There is no ticket, and the lease
// goes on and is renewed.
func TestALeaseThatCannotBeDetachedGoesOn(t *testing.T) {
	for what, c := range map[string]struct {
		run     func(r request) (string, error)
		timeout time.Duration
		want    error
	}{
		"the request is lost": {func(request) (string, error) { return "", errNoAnswer }, time.Hour, holdfast.ErrUnavailable},
		"the reply is lost": {func(r request) (string, error) {
			_, _ = r.anyhow()
			return "", errNoAnswer
		}, time.Hour, holdfast.ErrUnavailable},
		"the server refuses": {func(request) (string, error) {
			return "", driver.ReplyError("NOPERM no permission")
		}, time.Hour, holdfast.ErrDenied},
		"the context ends": {func(r request) (string, error) {
			time.Sleep(time.Second)
			return r.anyhow()
		}, 100 * time.Millisecond, context.DeadlineExceeded},
	} {
		eachWayOf(t, what, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
			var d between
			lease := acquire(t, configured(t, srv, cfg, d.wrap).Mutex("a", holdfast.TTL(time.Minute)))
			d.handle(c.run)
			ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
			ticket, err := transfer.Detach(ctx, lease, time.Hour)
			cancel()
			d.handle(nil)
			if !errors.Is(err, c.want) || ticket != (transfer.Ticket{}) {
				t.Errorf("Detach: %v, %v", ticket, err)
			}
			d.since()
			time.Sleep(10 * time.Minute)
			if err := lease.Err(); err != nil || len(d.since()) < 20 {
				t.Errorf("ten minutes later: %v", err)
			}
			next := detach(t, lease, time.Minute) // the next try may succeed
			heir := adopt(t, client(t, srv), next)
			release(t, heir)
			free(t, srv)
		})
	}
}

// Fault: A lease ends while it is being detached. It is over, and there is no ticket, whatever the server answers.
func TestALeaseThatEndsWhileItIsDetached(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		for what, c := range map[string]struct {
			end  func(lease *holdfast.Lease)
			late time.Duration
			want error
		}{
			"it is released": {func(l *holdfast.Lease) { _ = l.Release(t.Context()) }, 500 * time.Millisecond, holdfast.ErrReleased},
			"it expires":     {func(*holdfast.Lease) {}, 2500 * time.Millisecond, holdfast.ErrLost},
		} {
			cfg := cfg
			cfg.CommandTimeout = 10 * time.Second
			var d between
			lease := acquire(t, configured(t, srv, cfg, d.wrap).Mutex("a", holdfast.TTL(2*time.Second), holdfast.NoRenew()))
			d.handle(func(r request) (string, error) {
				reply, err := r.anyhow()
				if strings.HasPrefix(r.Script.Name, "renew") {
					time.Sleep(c.late)
				}
				return reply, err
			})
			go func() {
				time.Sleep(100 * time.Millisecond)
				c.end(lease)
			}()
			if ticket, err := transfer.Detach(t.Context(), lease, time.Hour); !errors.Is(err, c.want) || ticket != (transfer.Ticket{}) {
				t.Errorf("%s: Detach: %v, %v", what, ticket, err)
			}
			expect.Err(t, what, lease.Err(), c.want)
			d.handle(nil)
			time.Sleep(time.Second)
			expect.Equal(t, "the lock is held", isHeld(t, client(t, srv)), false)
		}
	})
}

// Nobody shares a lease that is being detached: it is detached once.
func TestALeaseIsDetachedOnce(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		var d between
		c := configured(t, srv, cfg, d.wrap)
		l := c.Mutex("a", holdfast.Reentrant(), holdfast.TTL(time.Minute))
		lease := acquire(t, l)
		d.handle(func(r request) (string, error) {
			time.Sleep(time.Second)
			return r.anyhow()
		})
		tickets := make(chan transfer.Ticket)
		go func() {
			ticket, err := transfer.Detach(t.Context(), lease, time.Minute)
			if err != nil {
				t.Error(err)
			}
			tickets <- ticket
		}()
		synctest.Wait()
		expect.Err(t, "Detach of a lease that is being detached", expect.ErrOf(transfer.Detach(t.Context(), lease, time.Minute)), holdfast.ErrInvalid)
		expect.Err(t, "TryAcquire within it", expect.ErrOf(l.TryAcquire(lease.Context(t.Context()))), holdfast.ErrInvalid)
		expect.Err(t, "before there is a ticket", lease.Err(), nil)
		heir := adopt(t, c, <-tickets)
		release(t, heir)
	})
}

// Fault: The reply to an adoption is lost. The adoption is asked for again, and is the same one.
func TestAnAdoptionIsAskedForAgain(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		ticket := detach(t, acquire(t, client(t, srv).Mutex("a")), time.Minute)
		var d between
		var replies []string
		d.handle(func(r request) (string, error) {
			reply, err := r.anyhow()
			if r.Script.Name != "adopt" {
				return reply, err
			}
			replies = append(replies, reply)
			if len(replies) < 3 {
				return "", errNoAnswer
			}
			return reply, err
		})
		heir, err := transfer.Adopt(t.Context(), client(t, srv, d.wrap), ticket)
		if err != nil || len(replies) != 3 {
			t.Fatalf("Adopt: %v, after %q", err, replies)
		}
		for _, r := range replies {
			if last := replies[2]; r[strings.LastIndexByte(r, ' '):] != last[strings.LastIndexByte(last, ' '):] {
				t.Errorf("the fences differ: %q", replies)
			}
		}
		release(t, heir)
		free(t, srv)
	})
}

// Fault: An adopter gives up before it is answered. A lock that it may have adopted is released, its late requests
// adopt nothing, and the ticket is either used up or still valid.
func TestAnAdoptionThatIsGivenUp(t *testing.T) {
	for what, c := range map[string]struct {
		carriedOut bool // at once; otherwise when the caller has left
		cancel     bool // by its caller; otherwise it runs into its deadline
	}{
		"it was carried out, cancelled": {true, true}, "it was carried out, deadline": {true, false},
		"it comes late, cancelled": {false, true}, "it comes late, deadline": {false, false},
	} {
		bubbleOf(t, what, func(t *testing.T, srv *holdfasttest.Server) {
			ticket := detach(t, acquire(t, client(t, srv).Mutex("a")), time.Hour)
			var d between
			late := make(chan string, 10)
			d.handle(func(r request) (string, error) {
				if r.Script.Name != "adopt" {
					return r.anyhow()
				}
				if c.carriedOut {
					_, _ = r.anyhow()
					time.Sleep(time.Minute)
					return "", errNoAnswer
				}
				go func() {
					time.Sleep(4 * time.Second) // and before its not-after
					reply, _ := r.anyhow()
					late <- reply
				}()
				time.Sleep(time.Minute)
				return "", errNoAnswer
			})
			adopter := client(t, srv, d.wrap)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if c.cancel {
				ctx, cancel = context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
			}
			defer cancel()
			expect.ErrBoth(t, "Adopt", expect.ErrOf(transfer.Adopt(ctx, adopter, ticket)), holdfast.ErrAmbiguous, ctx.Err())
			time.Sleep(10 * time.Second)
			d.handle(nil)
			if c.carriedOut {
				free(t, srv)
				expect.Err(t, "Adopt", expect.ErrOf(transfer.Adopt(t.Context(), adopter, ticket)), holdfast.ErrLost)
				return
			}
			expect.Begins(t, "the late request's answer", <-late, "gone ")
			heir := adopt(t, adopter, ticket)
			release(t, heir)
		})
	}
}

// Fault: The reply to an adoption comes past the deadline. The lock is given back.
func TestAnAdoptionPastItsDeadlineIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		lease := acquire(t, client(t, srv).Mutex("a", holdfast.TTL(time.Second)))
		ticket := detach(t, lease, time.Millisecond)
		var d between
		d.handle(func(r request) (string, error) {
			reply, err := r.anyhow()
			if r.Script.Name == "adopt" {
				time.Sleep(1500 * time.Millisecond)
			}
			return reply, err
		})
		c := client(t, srv, d.wrap)
		_, err := transfer.Adopt(t.Context(), c, ticket, holdfast.TTL(1400*time.Millisecond))
		expect.ErrBoth(t, "Adopt", err, holdfast.ErrUnavailable, holdfast.ErrAmbiguous)
		synctest.Wait()
		free(t, srv)
	})
}

// Fault: A copy of the first holder's acquire comes late. It takes nothing: neither after an adoption, nor if the
// lock was deleted, nor once the ticket has expired.
func TestALateAcquireOfADetachedLock(t *testing.T) {
	for what, use := range map[string]func(t *testing.T, c *holdfast.Client, srv *holdfasttest.Server, ticket transfer.Ticket){
		"it was adopted and released": func(t *testing.T, c *holdfast.Client, _ *holdfasttest.Server, ticket transfer.Ticket) {
			heir := adopt(t, c, ticket)
			release(t, heir)
		},
		"it was deleted": func(t *testing.T, c *holdfast.Client, srv *holdfasttest.Server, ticket transfer.Ticket) {
			server(t, srv).Del(t.Context(), "holdfast:{a}")
			expect.Err(t, "Adopt", expect.ErrOf(transfer.Adopt(t.Context(), c, ticket)), holdfast.ErrLost)
		},
		"the ticket is not used": func(t *testing.T, c *holdfast.Client, _ *holdfasttest.Server, _ transfer.Ticket) {
			time.Sleep(time.Second)
			expect.Equal(t, "the lock is held", isHeld(t, c), true)
		},
	} {
		eachWayOf(t, what, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
			var repeats atomic.Bool // the next acquire is not answered, and is carried out 3 s later
			late := make(chan string, 1)
			holder := configured(t, srv, cfg, meddle(func(r request) (string, error) {
				if !r.does("acquire") || !repeats.Swap(false) {
					return r.send()
				}
				go func() {
					time.Sleep(3 * time.Second)
					reply, _ := r.anyhow()
					late <- reply
				}()
				return "", errNoAnswer
			}))
			if isHeld(t, holder) { // which connects
				t.Fatal("it is held")
			}
			repeats.Store(true)
			lease := acquire(t, holder.Mutex("a", holdfast.TTL(500*time.Millisecond)))
			ticket := detach(t, lease, time.Millisecond)
			c := client(t, srv)
			use(t, c, srv, ticket)
			t.Logf("a late copy of the acquire was answered %q", <-late)
			if what == "the ticket is not used" {
				time.Sleep(10 * time.Second) // until the ticket has expired
			}
			expect.Equal(t, "the lock is held", isHeld(t, c), false)
		})
	}
}
