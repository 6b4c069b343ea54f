package virtual

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// After a loss of the server's data, a foreign program may have taken a shared key. So the earlier holder has
// lost it, although the fence counter is gone, too.
func TestASharedKeyIsNotTakenAgainAfterALossOfData(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		const ttl = 10 * time.Second
		rdb, c := server(t, srv), configured(t, srv, cfg)
		shared := acquire(t, c.MutexKey("{shared}", holdfast.TTL(ttl)))
		ours := acquire(t, c.Mutex("b", holdfast.TTL(ttl)))
		srv.FlushAll()
		time.Sleep(ttl / 2)
		expect.Err(t, "the lease of a shared key after a renewal", shared.Err(), holdfast.ErrLost)
		expect.Equal(t, "shared keys", rdb.Exists(t.Context(), "{shared}").Val(), 0)
		expect.Err(t, "a lease of a key of ours, which nobody can have had", ours.Err(), nil)
		release(t, ours)
	})
}

// observing is a watch of an election.
type observing struct {
	seen chan holdfast.Status
	over chan error
}

func observe(ctx context.Context, e *election.Election) observing {
	w := observing{make(chan holdfast.Status, 10), make(chan error, 1)}
	go func() {
		defer close(w.over)
		for status, err := range e.Watch(ctx) {
			if err != nil {
				w.over <- err
				return
			}
			w.seen <- status
		}
	}()
	return w
}

// sees requires that the watch yields within that time that somebody leads, or nobody.
func (w observing) sees(t *testing.T, leads bool, within time.Duration) {
	t.Helper()
	select {
	case status := <-w.seen:
		expect.Equal(t, "the watcher sees a leader", status.Held(), leads)
	case <-time.After(within):
		t.Errorf("the watcher has heard nothing for %s; somebody leads: %v", within, leads)
		<-w.seen
	}
}

// Watchers of an election hear of the end of a term when it ends, whether or not another term follows.
func TestWatchersHearOfTheEndOfATerm(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		theElection := func() *election.Election {
			return election.New(client(t, srv).Mutex("e", holdfast.TTL(10*time.Minute)))
		}
		ctx, cancel := context.WithCancel(t.Context())
		w := observe(ctx, theElection())
		w.sees(t, false, time.Second) // a watcher that hears nothing looks after 30 s
		for range 3 {
			time.Sleep(time.Second)
			resigned := make(chan error, 1)
			go func() {
				resigned <- theElection().Run(ctx, func(context.Context, *holdfast.Lease) error {
					time.Sleep(5 * time.Second)
					return nil
				})
			}()
			w.sees(t, true, time.Second)
			expect.Err(t, "Run", <-resigned, nil)
			w.sees(t, false, time.Second)
		}
		cancel()
		expect.Err(t, "Watch", <-w.over, nil)
	})
}

// Fault: The server is away for longer than a term. No Run returns, the leader is told in time, and later terms have
// higher fences. Candidates and watches that begin meanwhile go on, too.
func TestElectionsOutliveAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var servers []*moody
		var away error
		theElection := func() *election.Election {
			d := &moody{}
			d.refuse(away)
			servers = append(servers, d)
			return election.New(client(t, srv, d.wrap).Mutex("e", holdfast.TTL(6*time.Second)))
		}
		outage := func(err error) {
			away = err
			for _, d := range servers {
				d.refuse(err)
			}
		}
		terms, told, ran := make(chan *holdfast.Lease, 3), make(chan error, 1), make(chan error, 3)
		var led atomic.Bool
		stand := func() {
			e := theElection()
			go func() {
				ran <- e.Run(t.Context(), func(ctx context.Context, term *holdfast.Lease) error {
					if terms <- term; led.Swap(true) {
						return nil
					}
					<-ctx.Done()
					told <- context.Cause(ctx)
					return context.Cause(ctx)
				})
			}()
		}
		stand()
		term := <-terms
		stand()
		w := observe(t.Context(), theElection())
		w.sees(t, true, time.Second)
		time.Sleep(time.Second)
		outage(errRefused)
		if err := <-told; !errors.Is(err, holdfast.ErrLost) || time.Since(term.Deadline()).Abs() > 100*time.Millisecond {
			t.Errorf("the term until %s ends at %s with %v", term.Deadline(), time.Now(), err)
		}
		stand()
		late := observe(t.Context(), theElection())
		time.Sleep(time.Minute)
		if len(ran) > 0 || len(late.over) > 0 || len(w.over) > 0 {
			t.Error("a Run or a Watch has returned")
		}
		outage(nil)
		for last := term.Fence(); len(ran) < 3; {
			next := <-terms
			expect.Rises(t, last, next.Fence())
			last = next.Fence()
			time.Sleep(10 * time.Second) // by then it has returned
		}
		for range 3 {
			expect.Err(t, "Run", <-ran, nil)
		}
		for _, seen := range []observing{w, late} {
			for status := range seen.seen {
				if !status.Held() {
					break
				}
			}
		}
	})
}

// Fault: A watcher's look is not answered, and the leader crashes meanwhile. The watcher looks again soon, not only
// when it hears something.
func TestWatcherLooksAgainSoonAfterAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var d moody
		acquire(t, client(t, srv, dying).Mutex("e", holdfast.NoRenew(), holdfast.TTL(4*time.Second)))
		w := observe(t.Context(), election.New(client(t, srv, d.wrap).Mutex("e")))
		w.sees(t, true, time.Second)
		time.Sleep(3500 * time.Millisecond) // it looks when the lease should end
		d.hangs.Store(true)
		time.Sleep(10 * time.Second)
		expect.AtLeast(t, "looks in the outage", d.hung.Load(), 1)
		d.hangs.Store(false)
		w.sees(t, false, 15*time.Second)
	})
}

// Fault: A watcher of an election may not subscribe. It looks once a second, and no more often.
func TestWatchWithoutPubSub(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		d := unheard{refused: driver.ReplyError("NOPERM this user has no permissions to access one of the channels")}
		w := observe(t.Context(), election.New(client(t, srv, d.wrap).Mutex("e")))
		w.sees(t, false, time.Second)
		lease := acquire(t, client(t, srv).Mutex("e", holdfast.TTL(time.Hour)))
		w.sees(t, true, 15*time.Second)
		d.asked.Store(0)
		time.Sleep(time.Minute)
		expect.Between(t, "looks within a minute", d.asked.Load(), 50, 66)
		release(t, lease)
		w.sees(t, false, 2*time.Second)
	})
}

func TestALeaseThatIsGrantedDuringCloseIsOver(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		for what, get := range map[string]func(*holdfast.Lock, context.Context) (*holdfast.Lease, error){
			"Acquire": (*holdfast.Lock).Acquire, "TryAcquire": (*holdfast.Lock).TryAcquire,
		} {
			var late atomic.Bool
			c := configured(t, srv, cfg, belated("acquire", 200*time.Millisecond, &late))
			l := c.Mutex("a", holdfast.TTL(10*time.Minute))
			release(t, acquire(t, l))
			late.Store(true)
			closed := make(chan error, 1)
			time.AfterFunc(100*time.Millisecond, func() { closed <- c.Close(context.Background()) })
			lease := expect.Of(get(l, t.Context())).OK(t)
			expect.Err(t, what+": the lease's Err", lease.Err(), holdfast.ErrClosed)
			expect.Err(t, what+": the end of the lease's context", context.Cause(lease.Context(context.Background())), holdfast.ErrClosed)
			synctest.Wait()
			select {
			case err := <-closed:
				t.Errorf("%s: Close has returned %v before the lease was released", what, err)
			default:
			}
			release(t, lease)
			expect.Err(t, "Close", <-closed, nil)
		}
	})
}

// A lease that is passed on to a goroutine which gives up at the same time goes to the next one. With one
// processor that is likely: the goroutine that gives up does not run before the lease was passed on.
func TestALeaseThatIsPassedOnToWhoGivesUpGoesOn(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		crossed := 0
		for round := 0; crossed < 3; round++ {
			if round == 100 {
				t.Fatalf("in %d rounds %d leases were passed on to a goroutine that gave up", round, crossed)
			}
			other := acquire(t, client(t, srv).Mutex("a"))
			l := client(t, srv).Mutex("a", holdfast.TTL(time.Minute))
			first, second, third := wait(t, l), wait(t, l), wait(t, l)
			release(t, other)
			first.granted(t)
			time.Sleep(10 * time.Millisecond) // fences for the others are reserved
			second.cancel()
			release(t, first.lease)
			<-second.done
			if second.err == nil {
				release(t, second.lease)
				third.served(t, time.Second)
				continue
			}
			select {
			case <-third.done:
			case <-time.After(10 * time.Minute):
				t.Fatalf("the one behind waits for the lease that nobody has, of %v", first.lease.Fence())
			}
			expect.OK(t, third.err)
			if third.lease.Fence() > first.lease.Fence()+1 { // the fence in between was the second's
				crossed++
			}
			release(t, third.lease)
		}
	})
}

// overheard is a driver whose last subscription a test can speak to, and which counts scripts.
type overheard struct {
	drivertest.Driver
	sink    driver.Subscription
	scripts atomic.Int64
}

func (d *overheard) Subscribe(s driver.Subscription) (cancel func()) {
	d.sink = s
	return d.Driver.Subscribe(s)
}

func (d *overheard) Run(ctx context.Context, call driver.Call) (string, error) {
	d.scripts.Add(1)
	return d.Driver.Run(ctx, call)
}

// A client that is closed starts nothing more, even if it is granted a lock at that moment.
func TestAGrantThatComesAfterCloseBeginsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		rdb := server(t, srv)
		lease := acquire(t, client(t, srv).Mutex("a"))
		var d overheard
		c := client(t, srv, func(inner drivertest.Driver) drivertest.Driver {
			d.Driver = inner
			return &d
		})
		w := wait(t, c.Mutex("a"))
		waiters := rdb.ZRange(t.Context(), "holdfast:{a}:q", 0, -1).Val()
		if len(waiters) != 1 {
			t.Fatalf("the queue is %q", waiters)
		}
		token, _, _ := strings.Cut(waiters[0], "\n")
		grant := fmt.Sprintf("hf2 grant %s %d 1500 %d holdfast:{a}", token, time.Now().UnixMicro(), time.Now().UnixMicro())
		w.giveUp()
		time.Sleep(time.Second)
		for _, closed := range []bool{false, true} {
			before := d.scripts.Load()
			if closed {
				expect.OK(t, c.Close(t.Context()))
				before = d.scripts.Load()
			}
			d.sink.Message(grant)
			time.Sleep(10 * time.Second)
			if n := d.scripts.Load() - before; (n > 0) == closed {
				t.Errorf("%d scripts follow a grant to a waiter that has given up; the client is closed: %v", n, closed)
			}
		}
		release(t, lease)
	})
}

// Fault: A program closes its go-redis client, but not the holdfast.Client, and forgets its leases. They end at their deadlines,
// nothing is acquired any more, and the log says once that the program closed its client. Leases can still be released.
func TestAProgramClosesItsRedisClientTooEarly(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		const ttl = 15 * time.Second
		var log journal
		cfg.Logger, cfg.TTL = log.logger(), ttl
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: srv.Dial})
		c := expect.Of(holdfastgoredis.New(rdb, &cfg)).OK(t)
		forgotten, kept, shared := acquire(t, c.Mutex("forgotten")), acquire(t, c.Mutex("kept")), acquire(t, c.RWMutex("shared").Reader())
		t.Cleanup(func() { // if the test fails
			_, _, _ = forgotten.Release(context.Background()), kept.Release(context.Background()), shared.Release(context.Background())
			_ = c.Close(context.Background())
		})
		others := client(t, srv)
		held := acquire(t, others.Mutex("held"))
		queued := wait(t, c.Mutex("held"))
		time.Sleep(time.Minute)
		expect.OK(t, rdb.Close())
		closed := time.Now()
		next, nextShared := wait(t, others.Mutex("forgotten")), wait(t, others.RWMutex("shared").Writer())

		const says = "the program has closed its Redis client"
		for _, name := range []string{"free", "forgotten"} {
			expect.ErrSays(t, "TryAcquire of "+name, expect.ErrOf(c.Mutex(name).TryAcquire(t.Context())), holdfast.ErrClosed, says)
		}
		release(t, kept)
		release(t, acquire(t, others.Mutex("kept")))
		for name, lease := range map[string]*holdfast.Lease{"forgotten": forgotten, "shared": shared} {
			select {
			case <-lease.Done():
			case <-time.After(ttl - time.Since(closed)):
				t.Fatalf("%s is still held", name)
			}
			var lost *holdfast.LostError
			if err := lease.Err(); !errors.As(err, &lost) || lost.Reason != holdfast.LossUnreachable ||
				!errors.Is(err, holdfast.ErrClosed) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", name, err)
			}
		}
		next.served(t, time.Second)
		nextShared.served(t, time.Second)
		if <-queued.done; !errors.Is(queued.err, holdfast.ErrClosed) {
			t.Errorf("the queued waiter: %v", queued.err)
		}
		release(t, held)
		begun := time.Now()
		if err := c.Close(context.Background()); err != nil || time.Since(begun) > 3*time.Second {
			t.Errorf("Close: %v, after %s", err, time.Since(begun))
		}
		if errs := log.lines("ERROR"); len(errs) != 1 || !strings.Contains(errs[0], says) {
			t.Errorf("errors in the log: %q", errs)
		}
		if all := append(log.lines("WARN"), log.lines("INFO")...); strings.Contains(strings.Join(all, "\n"), "holdfast: server") {
			t.Errorf("the log takes it for an outage: %q", all)
		}
	})
}

// A program that has forgotten a lease is told why Close does not return.
func TestCloseSaysWhatItWaitsFor(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		var log journal
		cfg.Logger = log.logger()
		c := configured(t, srv, cfg)
		acquire(t, c.Mutex("forgotten"))
		released := acquire(t, c.Mutex("released"))
		time.AfterFunc(500*time.Millisecond, func() { release(t, released) })
		expect.OK(t, c.Close(t.Context()))
		const says = "leases=1 lock=forgotten for=1"
		if warned := log.lines("WARN"); len(warned) == 0 || !strings.Contains(warned[0], says) {
			t.Errorf("the log is %q; it should say %q", warned, says)
		}
	})
}
