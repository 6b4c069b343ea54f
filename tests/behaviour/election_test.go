package behaviour

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// election returns the test's election, with a client of its own.
func theElection(t testing.TB, b *backend.Backend, opts ...holdfast.MutexOption) *election.Election {
	return election.New(b.Client(t, nil).Mutex("e", opts...))
}

// A candidate that polls campaigns for as long as it takes.
func TestACandidateThatPollsGoesOn(t *testing.T) {
	t.Parallel()
	backend.Virtual(t, func(t *testing.T, b *backend.Backend) {
		first := backend.Campaign(t.Context(), theElection(t, b))
		term, _ := first.Elected(t)
		second := backend.Campaign(t.Context(), theElection(t, b, holdfast.Poll(100*time.Millisecond)))
		time.Sleep(time.Minute)
		select {
		case err := <-second.Over:
			t.Fatalf("Run while another leads: %v", err)
		default:
		}
		first.Answer <- nil
		next, _ := second.Elected(t)
		if next.Fence() <= term.Fence() {
			t.Errorf("fence %d follows %d", next.Fence(), term.Fence())
		}
		second.Answer <- nil
		wantErr(t, "Run", second.Ran(t), nil)
		wantErr(t, "a negative interval", theElection(t, b, holdfast.Poll(-time.Second)).Run(t.Context(), nil), holdfast.ErrInvalid)
	})
}

// There are never two leaders, whoever resigns, is deposed or leaves; and everybody gets to lead.
func TestOneLeaderAtATime(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		var leading atomic.Int32
		var last atomic.Uint64
		var wg sync.WaitGroup
		for range 4 {
			e := theElection(t, b)
			for range 2 {
				wg.Go(func() {
					terms := 0
					err := e.Run(t.Context(), func(ctx context.Context, term *holdfast.Lease) error {
						if n := leading.Add(1); n != 1 {
							t.Errorf("%d lead", n)
						}
						defer leading.Add(-1)
						if before := last.Swap(term.Fence()); before >= term.Fence() {
							t.Errorf("fence %d follows %d", term.Fence(), before)
						}
						if terms++; terms < 5 {
							return election.ErrResign
						}
						return nil
					})
					if err != nil || terms != 5 {
						t.Errorf("after %d terms: %v", terms, err)
					}
				})
			}
		}
		wg.Wait()
		b.Cleaned(t)
	})
}

// heard waits until somebody has subscribed to the announcements of leaders.
func heard(t testing.TB, b *backend.Backend) {
	t.Helper()
	rdb := b.Redis(t)
	backend.Eventually(t, "the watcher is subscribed", func() bool {
		n, err := rdb.PubSubNumSub(t.Context(), "holdfast:c:w:holdfast:{e}").Result()
		return err == nil && n["holdfast:c:w:holdfast:{e}"] > 0
	})
}

func TestWatchSeesEveryChange(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		next := backend.Watch(t, theElection(t, b))
		see := func(want string) {
			t.Helper()
			if got := next(); got != want {
				t.Fatalf("it sees %q lead, not %q", got, want)
			}
		}
		see("")
		heard(t, b)
		time.Sleep(20 * time.Millisecond) // for the look after the subscription
		one := backend.Campaign(t.Context(), theElection(t, b, holdfast.Identity("one"), holdfast.TTL(time.Minute)))
		one.Elected(t)
		see("one")
		two := backend.Campaign(t.Context(), theElection(t, b, holdfast.Identity("two"), holdfast.TTL(time.Minute)))
		backend.Waiters(t, b.Client(t, nil).Mutex("e"), 1)
		one.Answer <- nil
		two.Elected(t)
		see("two")
		two.Answer <- nil
		see("")
		// A leader that crashes tells nobody.
		backend.Acquire(t, b.Client(t, nil).Mutex("e", holdfast.Identity("three"), holdfast.NoRenew(), holdfast.TTL(6*time.Second)))
		one = backend.Campaign(t.Context(), theElection(t, b, holdfast.Identity("four")))
		one.Elected(t)
		for got := next(); got != "four"; got = next() { // it may have seen the third
			if got == "one" || got == "two" {
				t.Fatalf("it sees %q lead again", got)
			}
		}
		one.Answer <- nil
		see("")
	})
}

// mortal is a driver that answers nothing once it is dead. Nobody announces that a leader has crashed: watchers
// must notice by themselves.
type mortal struct {
	drivertest.Driver
	dead atomic.Bool
}

func (d *mortal) Run(ctx context.Context, call driver.Call) (string, error) {
	if d.dead.Load() {
		<-ctx.Done()
		return "", ctx.Err()
	}
	return d.Driver.Run(ctx, call)
}

func TestWatchMissesALeaderThatCrashed(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		d := &mortal{Driver: drivertest.Of(holdfastgoredis.NewDriver(b.Redis(t)))}
		c := backend.New(t, nil, d)
		lease := backend.Acquire(t, c.Mutex("e", holdfast.Identity("dead"), holdfast.TTL(10*time.Second))) // it must not end before it is seen, also on a slow machine
		next := backend.Watch(t, theElection(t, b))
		if got := next(); got != "dead" {
			t.Fatalf("it sees %q lead", got)
		}
		d.dead.Store(true)
		held := lease.Deadline()
		if got := next(); got != "" {
			t.Fatalf("it sees %q lead", got)
		}
		if time.Now().Before(held) {
			t.Error("it was missed before its time")
		}
		wantErr(t, "the lease of the dead", lease.Err(), holdfast.ErrLost)
	})
}
