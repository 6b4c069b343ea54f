package virtual

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// delayed is a driver that holds back a request, or its answer, until it is let go.
type delayed struct {
	drivertest.Driver
	request, answer func(s driver.Script, args []string) bool // which requests or answers; may be nil
	held            chan struct{}                             // closed when one is held back
	letGo           chan struct{}                             // closed to let it go
}

func newDelayed() *delayed {
	return &delayed{held: make(chan struct{}), letGo: make(chan struct{})}
}

func (d *delayed) wrap(inner drivertest.Driver) drivertest.Driver {
	d.Driver = inner
	return d
}

func (d *delayed) hold(which func(driver.Script, []string) bool, s driver.Script, args []string) {
	select {
	case <-d.held:
		return // one has been held back
	default:
	}
	if which != nil && which(s, args) {
		close(d.held)
		<-d.letGo
	}
}

func (d *delayed) Run(ctx context.Context, call driver.Call) (string, error) {
	d.hold(d.request, call.Script, call.Args)
	reply, err := d.Driver.Run(ctx, call)
	d.hold(d.answer, call.Script, call.Args)
	return reply, err
}

// inLine acquires the lock in a goroutine, and returns when that is in the wait queue.
func inLine(t *testing.T, l *holdfast.Lock) *waiting {
	t.Helper()
	w := &waiting{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.lease, w.err = l.Acquire(t.Context())
	}()
	synctest.Wait()
	return w
}

// A holder reserves fences for a waiting goroutine. Before it hears of them, the server loses its data, and the
// holder claims its lock again. The counter knows nothing of those fences, and its clock is behind them.
func TestFencesThatWereReservedBeforeALossAreNotUsed(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		const ttl = 150 * time.Millisecond
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: srv.Dial})
		defer rdb.Close()
		backend.SetCounter(t, rdb, "holdfast:fences", time.Now().Add(time.Hour).UnixMicro())
		d := newDelayed()
		d.answer = func(s driver.Script, args []string) bool { return s.Name == "renew" && args[3] != "0" }
		c := client(t, srv, d.wrap)
		lock := c.Mutex("a", holdfast.TTL(ttl))

		first := acquire(t, lock)
		second := inLine(t, lock)
		<-d.held
		srv.FlushAll()
		if err := first.Extend(t.Context(), ttl); err != nil {
			t.Fatalf("the holder does not have its lock again: %v", err)
		}
		close(d.letGo)
		synctest.Wait()
		seen := first.Fence()
		release(t, first)
		<-second.done
		if second.err != nil {
			t.Fatal(second.err)
		}
		for _, lease := range []*holdfast.Lease{second.lease, nil} {
			if lease == nil {
				lease = acquire(t, configured(t, srv, holdfast.Config{ViaClient: true}).Mutex("a")) // which takes one fence
			}
			if lease.Fence() <= seen {
				t.Errorf("fence %d follows %d", lease.Fence(), seen)
			}
			seen = lease.Fence()
			release(t, lease)
		}
	})
}

// A lease is released while it is being extended beyond the TTL. The waiting goroutine did not ask for so much:
// if its process died, everybody would wait for the extended time.
func TestALeaseThatIsBeingExtendedIsNotPassedOn(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		const ttl, long = 10 * time.Second, 20 * time.Minute
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: srv.Dial})
		defer rdb.Close()
		d := newDelayed()
		d.request = func(s driver.Script, args []string) bool {
			return s.Name == "renew" && args[2] == strconv.FormatInt(long.Milliseconds(), 10)
		}
		lock := configured(t, srv, holdfast.Config{MaxTTL: time.Hour}, d.wrap).Mutex("a", holdfast.TTL(ttl))

		// The second lease has reserved fences for the third.
		first := acquire(t, lock)
		second, third := inLine(t, lock), inLine(t, lock)
		release(t, first)
		<-second.done
		if second.err != nil {
			t.Fatal(second.err)
		}
		time.Sleep(20 * time.Millisecond) // until its first renewal has reserved a fence for the third
		extended := make(chan error, 1)
		go func() { extended <- second.lease.Extend(t.Context(), long) }()
		<-d.held
		release(t, second.lease)
		close(d.letGo)
		<-third.done
		if third.err != nil {
			t.Fatal(third.err)
		}
		if err := <-extended; err != holdfast.ErrReleased {
			t.Errorf("Extend of a lease that was released meanwhile: %v", err)
		}
		if left := rdb.PTTL(t.Context(), "holdfast:{a}").Val(); left > ttl {
			t.Errorf("the next lease lasts for %s on the server; it asked for %s", left, ttl)
		}
		release(t, third.lease)
	})
}

// lying is a driver that replaces the fences in replies, as if somebody had written another fence to a lock.
type lying struct {
	drivertest.Driver
	fence string
	about string // the script
}

func (d lying) Run(ctx context.Context, call driver.Call) (string, error) {
	reply, err := d.Driver.Run(ctx, call)
	words := strings.Fields(reply)
	switch {
	case call.Script.Name == d.about && len(words) == 5 && words[4] != "0": // granted, renewed: NOW PTTL FENCE BLOCK
		words[3] = d.fence
	case call.Script.Name == "batch_"+d.about && len(words) == 3: // taken NOW FENCE
		words[2] = d.fence
	default:
		return reply, err
	}
	return strings.Join(words, " "), err
}

// Fault: An answer has a fence that is far too high. It is shown to nobody: wherever it was seen, it would shut out
// all later holders.
func TestFencesBeyondBelief(t *testing.T) {
	const forged = 8_999_999_999_999_000
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		lie := func(about string) func(drivertest.Driver) drivertest.Driver {
			return func(d drivertest.Driver) drivertest.Driver { return lying{d, strconv.Itoa(forged), about} }
		}
		_, err := configured(t, srv, cfg, lie("acquire")).Mutex("a").Acquire(t.Context())
		if !errors.Is(err, holdfast.ErrMismatch) || !strings.Contains(err.Error(), `"holdfast:fences"`) {
			t.Errorf("Acquire: %v", err)
		}
		release(t, acquire(t, client(t, srv).Mutex("a"))) // it was given back

		lock := configured(t, srv, cfg, lie("renew")).Mutex("a", holdfast.TTL(150*time.Millisecond))
		first := acquire(t, lock)
		second := inLine(t, lock)
		time.Sleep(90 * time.Millisecond)
		release(t, first)
		<-second.done
		if second.err != nil {
			t.Fatal(second.err)
		}
		if second.lease.Fence() >= forged {
			t.Errorf("a lease is passed on with fence %d", second.lease.Fence())
		}
		release(t, second.lease)
	})
}
