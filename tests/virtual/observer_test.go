package virtual

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/recorder"
	"github.com/holdfast-go/holdfast/transfer"
)

// journal is a client's log.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// lines returns the lines of the log with that level, without their time.
func (j *journal) lines(level string) (all []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, line := range strings.Split(j.text.String(), "\n") {
		if _, said, is := strings.Cut(line, "level="+level+" "); is {
			all = append(all, said)
		}
	}
	return all
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

// The renewal with which a waiter confirms that it was handed a lock comes when little is left of a short claim. It is part of the
// hand-over: observers, who warn of renewals that are late, are not told of it, but of an extension at that time.
func TestObserversOfAHandOver(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		const ttl = 15 * time.Second
		var r recorder.Recorder
		defer r.Check(t)
		a := client(t, srv).Mutex("m")
		b := configured(t, srv, holdfast.Config{Observers: []*holdfast.Observer{r.Observer()}}).Mutex("m", holdfast.TTL(ttl))
		for _, extends := range []bool{false, true} {
			held := acquire(t, a)
			w := wait(t, b)
			release(t, held)
			w.granted(t)
			var slacks []time.Duration
			told := func() []time.Duration {
				slacks = nil
				for _, e := range r.Latest(t).Leases {
					slacks = append(slacks, e.Slack)
				}
				return slacks
			}
			if extends {
				expect.OK(t, w.lease.Extend(t.Context(), ttl))
				if told(); len(slacks) != 1 || slacks[0] <= 0 || slacks[0] > 2*time.Second {
					t.Errorf("after an extension at once, told was of renewals with %v left", slacks)
				}
				release(t, w.lease)
				continue
			}
			time.Sleep(time.Second)
			expect.AtLeast(t, "after a second, it is held for", time.Until(w.lease.Deadline()), ttl/2)
			if told(); len(slacks) != 0 {
				t.Errorf("after the hand-over, told was of renewals with %v left", slacks)
			}
			time.Sleep(ttl / 3)
			if told(); len(slacks) != 1 || slacks[0] < ttl/2 {
				t.Errorf("after a third of the TTL, told was of renewals with %v left", slacks)
			}
			release(t, w.lease)
		}
	})
}

// Observers are told once of an outage and once of its end, however many requests fail in between, and of a lease lost in it.
func TestObserversOfAnOutage(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		eachWayOf(t, fmt.Sprintf("hangs %v", hangs), func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
			var r recorder.Recorder
			var log journal
			var d moody
			cfg.Observers, cfg.Logger = []*holdfast.Observer{r.Observer()}, log.logger()
			t.Cleanup(func() { r.Check(t) })
			c := configured(t, srv, cfg, d.wrap)
			short, long := acquire(t, c.Mutex("short", holdfast.Identity("me"))), acquire(t, c.Mutex("long", holdfast.TTL(10*time.Minute)))
			began := time.Now()
			if d.hangs.Store(hangs); !hangs {
				d.refuse(errRefused)
			}
			time.Sleep(time.Minute)
			if told := r.Servers(); len(told) != 1 || !strings.HasPrefix(told[0], "lost 127.0.0.1:0: ") {
				t.Errorf("during the outage, told was %q", told)
			}
			expect.Err(t, "Err", short.Err(), holdfast.ErrLost)
			expect.Err(t, "TryAcquire", expect.ErrOf(c.Mutex("other").TryAcquire(context.Background())), holdfast.ErrUnavailable)
			d.hangs.Store(false)
			d.refuse(nil)
			time.Sleep(time.Minute) // in which something is sent
			release(t, long)
			down := time.Since(began)
			time.Sleep(time.Second)
			if told := r.Servers(); len(told) != 2 || !strings.HasPrefix(told[1], "found 127.0.0.1:0 after ") {
				t.Errorf("after an outage of at most %s, told was %q", down, told)
			}
			all := r.Acquires()
			var failed, renewed int
			for i, e := range all[0].Events {
				switch e {
				case "RenewFailed":
					failed++
				case "Renewed":
					renewed++
				case "Lost":
					expect.Equal(t, "the last event", i, len(all[0].Events)-1)
				}
			}
			if failed == 0 || !all[0].Lost || all[0].Last.Reason != holdfast.LossUnreachable || all[0].Last.Held < 10*time.Second ||
				all[0].Last.Held > 16*time.Second {
				t.Errorf("of the lease that was lost, told was %v, at last %+v", all[0].Events, all[0].Last)
			}
			for _, e := range all[0].Leases {
				if e.Err != nil && (!errors.Is(e.Err, holdfast.ErrUnavailable) || e.Deadline.Before(began)) {
					t.Errorf("RenewFailed: %+v", e)
				}
			}
			if a := all[1]; a.Lost || a.Last == nil {
				t.Errorf("of the lease that outlived the outage, told was %v", a.Events)
			}
			if a := all[2]; a.End == nil || !errors.Is(a.End.Err, holdfast.ErrUnavailable) {
				t.Errorf("of the acquire that failed, told was %v", a.Events)
			}
			warnings := log.lines("WARN")
			if len(warnings) != 2 || !strings.HasPrefix(warnings[0], `msg="holdfast: server does not answer" server=127.0.0.1:0 error=`) ||
				!strings.HasPrefix(warnings[1], fmt.Sprintf(
					`msg="holdfast: lease lost" lock=short reason=unreachable fence=%d identity=me server=127.0.0.1:0 error=`, short.Fence())) {
				t.Errorf("the warnings were %q", warnings)
			}
			if said := log.lines("INFO"); len(said) != 1 ||
				!strings.HasPrefix(said[0], `msg="holdfast: server answers again" server=127.0.0.1:0 down=`) {
				t.Errorf("the news were %q", said)
			}
		})
	}
}

// broken is a driver that loses some requests, and the replies to some.
type broken struct {
	drivertest.Driver
	every atomic.Int64 // one of so many; 0 for none

	mu   sync.Mutex
	dice *rand.Rand
}

func (d *broken) Run(ctx context.Context, call driver.Call) (string, error) {
	every := d.every.Load()
	if every == 0 {
		return d.Driver.Run(ctx, call)
	}
	d.mu.Lock()
	fate := d.dice.Int64N(3 * every)
	d.mu.Unlock()
	switch fate {
	case 0:
		return "", fmt.Errorf("%w: connection refused", driver.ErrNotSent)
	case 1:
		_, _ = d.Driver.Run(ctx, call)
		return "", errors.New("connection reset by peer")
	case 2:
		<-ctx.Done()
		return "", ctx.Err()
	}
	return d.Driver.Run(ctx, call)
}

// Whatever happens to requests, locks and callers, each AcquireStart has one AcquireEnd, and each granted lease ends with one
// Lost or Released and has no event after that. So the numbers of OpenTelemetry add up.
func TestEveryAcquireAndEveryLeaseHasOneEnd(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		seed := backend.Seed(1)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
		var r recorder.Recorder
		o := newTelemetry(t)
		cfg.Observers, cfg.Logger = []*holdfast.Observer{r.Observer(), o.observer}, slog.New(slog.DiscardHandler)
		cfg.TTL, cfg.CommandTimeout, cfg.RetryTimeout = 2*time.Second, 500*time.Millisecond, time.Second
		t.Cleanup(func() {
			r.Check(t)
			o.check(t, r.Acquires())
		})
		var ways []*broken
		var all []*holdfast.Client
		for range 2 {
			all = append(all, configured(t, srv, cfg, func(d drivertest.Driver) drivertest.Driver {
				ways = append(ways, &broken{Driver: d, dice: rand.New(rand.NewPCG(seed, uint64(100+len(ways))))})
				return ways[len(ways)-1]
			}))
		}
		for _, w := range ways {
			w.every.Store(15)
		}
		var wg sync.WaitGroup
		var granted, failed atomic.Int64
		for i := range 24 {
			c := all[i%len(all)]
			dice := rand.New(rand.NewPCG(seed, uint64(i)))
			wg.Go(func() {
				for range 40 {
					if dice.IntN(4) == 0 {
						useOther(t, c, dice)
						continue
					}
					lease, err := someLock(c, dice).Acquire(short(t, dice))
					if err != nil {
						failed.Add(1)
						time.Sleep(upTo(time.Second, dice))
						continue
					}
					granted.Add(1)
					switch dice.IntN(8) {
					case 0:
						time.Sleep(upTo(6*time.Second, dice)) // it may be lost
					case 1:
						_ = lease.Extend(short(t, dice), 3*time.Second)
					case 2:
						srv.FlushAll()
					}
					for range 1 + dice.IntN(2) {
						ctx := short(t, dice)
						go func() { _ = lease.Release(ctx) }()
					}
				}
			})
		}
		wg.Wait()
		for _, w := range ways {
			w.every.Store(0)
		}
		for i, c := range all { // which are lost when the client closes, and nobody releases them
			acquire(t, c.Semaphore("kept", 4).Permits(1))
			acquire(t, c.Multi([]string{fmt.Sprint("first of ", i), fmt.Sprint("second of ", i)}))
		}
		if granted.Load() == 0 || failed.Load() == 0 {
			t.Errorf("%d acquires were granted, %d failed", granted.Load(), failed.Load())
		}
	})
}

// upTo returns a random duration below most.
func upTo(most time.Duration, dice *rand.Rand) time.Duration {
	return time.Duration(dice.Int64N(int64(most)))
}

// short returns a context that may end soon.
func short(t *testing.T, dice *rand.Rand) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), upTo(3*time.Second, dice))
	t.Cleanup(cancel)
	return ctx
}

// useOther uses something that is built on locks.
func useOther(t *testing.T, c *holdfast.Client, dice *rand.Rand) {
	takes := upTo(4*time.Second, dice)
	ctx, work := short(t, dice), func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-time.After(takes):
		}
	}
	switch dice.IntN(6) {
	case 0:
		_, _ = once.New(c, "once", once.Every(time.Second)).Do(ctx, func(ctx context.Context, _ *holdfast.Lease) (string, error) {
			work(ctx)
			return "", nil
		})
	case 1:
		_ = election.New(c.Mutex("election")).Run(ctx, func(ctx context.Context, _ *holdfast.Lease) error {
			work(ctx)
			return nil
		})
	case 2:
		if party, err := latch.New(c, "latch", 5).Register(ctx); err == nil {
			work(ctx)
			_ = party.CountDown(ctx)
			_ = party.Leave(ctx)
		}
		_ = latch.New(c, "latch", 5).Reset(ctx)
	case 3:
		if party, err := barrier.New(c, "barrier", 3).Join(ctx); err == nil {
			_, _ = party.Await(ctx)
			_ = party.Leave(ctx)
		}
	case 4:
		rw := c.RWMutex("rwa")
		if lease, err := rw.Writer().Acquire(ctx); err == nil {
			if reader, err := rw.Downgrade(ctx, lease); err == nil {
				work(ctx)
				if writer, err := rw.TryUpgrade(ctx, reader); err == nil {
					_ = writer.Release(ctx)
				}
				_ = reader.Release(ctx)
			}
			_ = lease.Release(ctx)
		}
	case 5:
		if lease, err := c.Mutex("a").Acquire(ctx); err == nil {
			if ticket, err := transfer.Detach(ctx, lease, time.Second); err == nil {
				if next, err := transfer.Adopt(ctx, c, ticket); err == nil {
					_ = next.Release(ctx)
				}
			}
			_ = lease.Release(ctx)
		}
	}
}

// someLock returns a lock of any kind.
func someLock(c *holdfast.Client, dice *rand.Rand) *holdfast.Lock {
	name := string('a' + rune(dice.IntN(3)))
	switch dice.IntN(8) {
	case 0:
		return c.RWMutex("rw" + name).Reader()
	case 1:
		return c.RWMutex("rw" + name).Writer()
	case 2:
		return c.Semaphore("sem"+name, 4).Permits(1 + dice.IntN(3))
	case 3:
		return c.Multi([]string{"a", "b", "c"}[:2+dice.IntN(2)])
	case 4:
		return c.OwnerMutex("own"+name, "owner"+name)
	case 5:
		return c.Mutex(name, holdfast.MaxHold(time.Second))
	}
	return c.Mutex(name)
}
