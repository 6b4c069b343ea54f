package dataloss

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: The server of latches and barriers loses its data, in Strict mode. Nobody joins before the longest lease has
// ended, and by then no earlier party believes in its place; a waiter at a latch is told that its count is lost, and
// counts go on.
func TestStrictHoldsForParties(t *testing.T) {
	long(t)
	t.Parallel()
	eachLoss(t, allLosses, func(t *testing.T, l loss) {
		holder, other := l.client(oldMasterDead()), l.client(oldMasterDead())
		initialise(t, holder)
		do(t, l.master, "CONFIG", "SET", "slowlog-log-slower-than", "0")
		theLatch, theBarrier := latch.New(holder, "l", 3), barrier.New(holder, "b", 2)
		l.before()
		if err := theLatch.CountDown(t.Context()); err != nil {
			t.Fatal(err)
		}
		counts, err := theLatch.Register(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		meets, err := theBarrier.Join(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// From now on the server has the script: a request for a missing script would be in its slow log, too.
		if _, err := theLatch.Count(t.Context()); err != nil {
			t.Fatal(err)
		}
		do(t, l.master, "SLOWLOG", "RESET")
		reset, broken := make(chan error, 1), make(chan error, 1)
		go func() { reset <- latch.New(other, "l", 3).Wait(t.Context()) }()
		go func() {
			_, err := meets.Await(t.Context())
			broken <- err
		}()
		backend.Eventually(t, "one waits, and one has arrived", func() bool {
			scripts := fmt.Sprint(do(t, l.master, "SLOWLOG", "GET", 100))
			return strings.Contains(scripts, script.LatchLook().SHA1) && do(t, l.master, "HGET", "holdfast:{b}", "arrived") == "1"
		})
		losing := time.Now()
		l.lose()

		late := latch.New(other, "l", 3)
		backend.Eventually(t, "the server answers", func() bool {
			party, err := late.Register(t.Context())
			if err == nil && counts.Lease().Err() == nil {
				t.Errorf("a party with fence %d joins the latch while an earlier one believes in its place", party.Lease().Fence())
			}
			return err == nil || errors.Is(err, holdfast.ErrQuarantine)
		})
		if err := late.CountDown(t.Context()); err != nil {
			t.Errorf("CountDown in a quarantine: %v", err)
		}
		if n, err := late.Count(t.Context()); err != nil || n != 2 {
			t.Errorf("%d are left of the 3 of the count that begins after the loss; %v", n, err)
		}
		next, err := barrier.New(other, "b", 2).Join(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		grantedAfter(t, "the barrier", next.Lease().Fence(), losing)
		if meets.Lease().Err() == nil || counts.Lease().Err() == nil {
			t.Errorf("earlier parties: %v, %v", meets.Lease().Err(), counts.Lease().Err())
		}
		if next.Lease().Fence() <= meets.Lease().Fence() {
			t.Errorf("fence %d follows %d", next.Lease().Fence(), meets.Lease().Fence())
		}
		if err := <-broken; !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Await: %v", err)
		}
		if err := <-reset; !errors.Is(err, latch.ErrReset) {
			t.Errorf("Wait: %v", err)
		}
	})
}

// Fault: Replicas do not confirm a latch's count, or who is a party. Nobody is told before they do, even if the
// request was carried out earlier and not answered.
func TestMinReplicasHoldsForParties(t *testing.T) {
	long(t)
	t.Parallel()
	eachServer(t, func(t *testing.T, bin server.Binary) {
		p := startPair(t, bin)
		master, replica := p.servers[0], p.servers[1]
		do(t, master, "CONFIG", "SET", "min-replicas-to-write", "0")
		via := proxy.New(t, master.Addr())
		rdb := redis.NewClient(&redis.Options{Addr: via.Addr()})
		t.Cleanup(func() { _ = rdb.Close() })
		c, err := holdfastgoredis.New(rdb, &holdfast.Config{CommandTimeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		backend.CloseWith(t, c)
		confirmed, soon := holdfast.Durability{Replicas: 1, Timeout: 10 * time.Second}, holdfast.Durability{Replicas: 1, Timeout: 100 * time.Millisecond}
		has := func(want string) {
			t.Helper()
			if got := do(t, replica, "HGET", "holdfast:{l}", "count"); got != want {
				t.Errorf("the replica's count is %v, want %s", got, want)
			}
		}
		theLatch := func(o latch.Option) *latch.Latch { return latch.New(c, "l", 7, o) }
		if err := theLatch(confirmed).CountDown(t.Context()); err != nil {
			t.Fatal(err)
		}
		has("6")
		party, err := theLatch(confirmed).Register(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := party.CountDown(t.Context()); err != nil {
			t.Fatal(err)
		}
		has("5")
		first, second := inSoShortATime(t, theLatch(soon).Register), inSoShortATime(t, theLatch(soon).Register)
		arrives := inSoShortATime(t, barrier.New(c, "b", 2, soon).Join)

		replica.Pause()
		defer replica.Resume()
		unconfirmed := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, holdfast.ErrReplicas) || !errors.Is(err, holdfast.ErrAmbiguous) {
				t.Errorf("%s without the replica: %v", what, err)
			}
		}
		unconfirmed("CountDown", theLatch(soon).CountDown(t.Context())) // 4
		lost := via.LoseReply(proxy.Containing(script.LatchCount().SHA1), proxy.Cut)
		unconfirmed("CountDown, not answered", theLatch(soon).CountDown(t.Context())) // 3
		lost.Wait(t)
		unconfirmed("CountDown of a party", first.CountDown(t.Context())) // 2
		unconfirmed("CountDown of a party again", first.CountDown(t.Context()))
		lost = via.LoseReply(proxy.Containing(script.ShareRelease().SHA1), proxy.Cut)
		unconfirmed("CountDown of a party, not answered", second.CountDown(t.Context())) // 1
		lost.Wait(t)
		_, err = theLatch(soon).Register(t.Context())
		unconfirmed("Join", err)
		backend.Eventually(t, "the party that Join has told nobody of is taken back", func() bool {
			parties, err := backend.HoldersOf(t.Context(), theLatch(soon))
			return err == nil && len(parties) == 0
		})
		if n, err := theLatch(soon).Count(t.Context()); err != nil || n != 1 {
			t.Errorf("%d are left, %v; want 1", n, err)
		}
		unconfirmed("CountDown to 0", theLatch(soon).CountDown(t.Context()))
		unconfirmed("CountDown at 0", theLatch(soon).CountDown(t.Context()))
		_, err = barrier.New(c, "b", 2, soon).TryJoin(t.Context())
		unconfirmed("TryJoin", err)
		_, err = arrives.Await(t.Context())
		unconfirmed("Await", err)
		lost = via.LoseReply(proxy.Containing(script.LatchReset().SHA1), proxy.Cut)
		unconfirmed("Reset, not answered", theLatch(soon).Reset(t.Context()))
		lost.Wait(t)
		replica.Resume()

		// The changes that were not confirmed exist nevertheless, once each.
		backend.Eventually(t, "the replica has it", func() bool { return do(t, replica, "HGET", "holdfast:{l}", "count") == "7" })
		other, err := barrier.New(c, "b", 2, confirmed).Join(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		passed := make(chan uint64, 2)
		for _, party := range []*barrier.Party{arrives, other} {
			go func() {
				for {
					phase, err := party.Await(t.Context())
					if err == nil || !errors.Is(err, barrier.ErrBroken) && !errors.Is(err, holdfast.ErrReplicas) {
						passed <- phase
						return
					}
				}
			}()
		}
		if one, two := <-passed, <-passed; one != two || one == 0 {
			t.Errorf("the parties passed %d and %d", one, two)
		}
	})
}
