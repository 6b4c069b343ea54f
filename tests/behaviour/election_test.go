package behaviour

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// election returns the test's election, with a client of its own.
func theElection(t testing.TB, b *backend.Backend, opts ...holdfast.MutexOption) *election.Election {
	return election.New(b.Client(t, nil).Mutex("e", opts...))
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
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		next := backend.Watch(t, theElection(t, b))
		see := func(want string) {
			t.Helper()
			expect.Equal(t, "the leader", next(), want)
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
