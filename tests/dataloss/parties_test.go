package dataloss

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/transfer"
)

// Fault: The server of latches and barriers loses its data, in Strict mode. Nobody joins before the longest lease has
// ended, and by then no earlier party believes in its place; a waiter at a latch is told that its count is lost, and
// counts go on.
func TestStrictHoldsForParties(t *testing.T) {
	long(t)
	eachLoss(t, allLosses, func(t *testing.T, l loss) {
		holder, other := l.client(oldMasterDead()), l.client(oldMasterDead())
		initialise(t, holder)
		do(t, l.master, "CONFIG", "SET", "slowlog-log-slower-than", "0")
		theLatch, theBarrier := latch.New(holder, "l", 3), barrier.New(holder, "b", 2)
		l.before()
		expect.OK(t, theLatch.CountDown(t.Context()))
		counts := expect.Of(theLatch.Register(t.Context())).OK(t)
		meets := expect.Of(theBarrier.Join(t.Context())).OK(t)
		// From now on the server has the script: a request for a missing script would be in its slow log, too.
		expect.OK(t, expect.ErrOf(theLatch.Count(t.Context())))
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
		expect.Err(t, "CountDown in a quarantine", late.CountDown(t.Context()), nil)
		expect.Of(late.Count(t.Context())).Is(t, "what is left of the count of 3 that begins after the loss", 2)
		next := expect.Of(barrier.New(other, "b", 2).Join(t.Context())).OK(t)
		grantedAfter(t, "the barrier", next.Lease().Fence(), losing)
		if meets.Lease().Err() == nil || counts.Lease().Err() == nil {
			t.Errorf("earlier parties: %v, %v", meets.Lease().Err(), counts.Lease().Err())
		}
		if next.Lease().Fence() <= meets.Lease().Fence() {
			t.Errorf("fence %d follows %d", next.Lease().Fence(), meets.Lease().Fence())
		}
		expect.Err(t, "Await", <-broken, holdfast.ErrLost)
		expect.Err(t, "Wait", <-reset, latch.ErrReset)
	})
}

// Fault: Replicas do not confirm a latch's count, or who is a party. Nobody is told before they do, even if the
// request was carried out earlier and not answered.
func TestMinReplicasHoldsForParties(t *testing.T) {
	long(t)
	server.Each(t, func(t *testing.T, bin server.Binary) {
		p := startPair(t, bin)
		master, replica := p.servers[0], p.servers[1]
		do(t, master, "CONFIG", "SET", "min-replicas-to-write", "0")
		via := proxy.New(t, master.Addr())
		c := backend.Open(t, &holdfast.Config{CommandTimeout: 10 * time.Second}, &redis.Options{Addr: via.Addr()})
		confirmed, soon := holdfast.Durability{Replicas: 1, Timeout: 10 * time.Second}, holdfast.Durability{Replicas: 1, Timeout: 100 * time.Millisecond}
		has := func(want string) {
			t.Helper()
			expect.Equal[any](t, "the replica's count", do(t, replica, "HGET", "holdfast:{l}", "count"), want)
		}
		theLatch := func(o latch.Option) *latch.Latch { return latch.New(c, "l", 7, o) }
		expect.OK(t, theLatch(confirmed).CountDown(t.Context()))
		has("6")
		party, err := theLatch(confirmed).Register(t.Context())
		expect.OK(t, err)
		expect.OK(t, party.CountDown(t.Context()))
		has("5")
		first, second := inSoShortATime(t, theLatch(soon).Register), inSoShortATime(t, theLatch(soon).Register)
		arrives := inSoShortATime(t, barrier.New(c, "b", 2, soon).Join)

		replica.Pause()
		defer replica.Resume()
		unconfirmed := func(what string, err error) {
			t.Helper()
			expect.ErrBoth(t, what+" without the replica", err, holdfast.ErrReplicas, holdfast.ErrAmbiguous)
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
		expect.Of(theLatch(soon).Count(t.Context())).Is(t, "what is left", 1)
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
		other := expect.Of(barrier.New(c, "b", 2, confirmed).Join(t.Context())).OK(t)
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

func detach(t *testing.T, lease *holdfast.Lease, ttl time.Duration) transfer.Ticket {
	t.Helper()
	return expect.Of(transfer.Detach(t.Context(), lease, ttl)).OK(t)
}

// Fault: A ticket is to be adopted in quarantine. It is refused, since somebody may have adopted the lock before the
// loss, and stays valid.
func TestTicketsOutliveAQuarantine(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		c, other := b.Client(t, strict(time.Hour)), b.Client(t, strict(time.Hour))
		initialise(t, c)
		first := detach(t, backend.Acquire(t, c.Mutex("a")), 30*time.Minute)
		lease := expect.Of(transfer.Adopt(t.Context(), other, first)).OK(t)
		ticket, held := detach(t, lease, 30*time.Minute), backend.Acquire(t, c.Mutex("b"))

		do(t, b.Server, "DEL", mark)
		for range 2 {
			_, err := transfer.Adopt(t.Context(), c, ticket)
			if left := quarantined(t, err); left < 50*time.Minute || errors.Is(err, holdfast.ErrLost) || errors.Is(err, holdfast.ErrAmbiguous) {
				t.Errorf("Adopt: %v, with %s left", err, left)
			}
			expect.Err(t, "Extend", transfer.Extend(t.Context(), c, ticket, time.Hour), nil)
		}
		second := detach(t, held, 30*time.Minute) // as leases are renewed in quarantine
		expect.OK(t, inspect.New(c).ForceAdmit(t.Context()))
		expect.Err(t, "Adopt with a ticket that was used", expect.ErrOf(transfer.Adopt(t.Context(), c, first)), holdfast.ErrLost)
		for what, of := range map[string]struct {
			ticket transfer.Ticket
			before *holdfast.Lease
		}{"a": {ticket, lease}, "b": {second, held}} {
			heir, err := transfer.Adopt(t.Context(), c, of.ticket)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			expect.Rises(t, of.before.Fence(), heir.Fence())
			backend.Release(t, heir)
		}
	})
}

// Fault: Replicas do not confirm a ticket or its adoption. Neither counts.
func TestMinReplicasHoldsForTickets(t *testing.T) {
	server.Each(t, func(t *testing.T, bin server.Binary) {
		p := startPair(t, bin)
		master, replica := p.servers[0], p.servers[1]
		do(t, master, "CONFIG", "SET", "min-replicas-to-write", "0")
		c := p.client(&holdfast.Config{CommandTimeout: 10 * time.Second, Durability: holdfast.Durability{Replicas: 1, Timeout: 10 * time.Second}, TTL: time.Minute})
		soon := p.client(&holdfast.Config{CommandTimeout: 10 * time.Second, Durability: holdfast.Durability{Replicas: 1, Timeout: time.Second}, TTL: time.Minute})
		plain := p.client(&holdfast.Config{CommandTimeout: 10 * time.Second, TTL: time.Minute})

		lease := backend.Acquire(t, c.Mutex("a"))
		ticket := detach(t, lease, time.Hour)
		if left, is := do(t, replica, "PTTL", "holdfast:{a}").(int64); !is || left < (50*time.Minute).Milliseconds() {
			t.Errorf("the replica keeps the ticket's lock for %d ms", left)
		}
		heir := expect.Of(transfer.Adopt(t.Context(), c, ticket)).OK(t)
		expect.Contains(t, "what the replica has", fmt.Sprint(do(t, replica, "GET", "holdfast:{a}")), fmt.Sprint(heir.Fence()))
		backend.Release(t, heir)

		lease = inSoShortATime(t, func(ctx context.Context) (*holdfast.Lease, error) { return soon.Mutex("b").Acquire(ctx) })
		ticket = detach(t, backend.Acquire(t, plain.Mutex("d")), time.Hour)
		replica.Pause()
		defer replica.Resume()
		if got, err := transfer.Detach(t.Context(), lease, time.Hour); !errors.Is(err, holdfast.ErrReplicas) || got != (transfer.Ticket{}) || lease.Err() != nil {
			t.Errorf("Detach without the replica: %v, %v; the lease: %v", got, err, lease.Err())
		}
		expect.Err(t, "Extend without the replica", transfer.Extend(t.Context(), soon, ticket, time.Hour), holdfast.ErrReplicas)
		demanding := holdfast.Durability{Replicas: 1, Timeout: time.Second}
		expect.ErrBoth(t, "Adopt without the replica", expect.ErrOf(transfer.Adopt(t.Context(), plain, ticket, demanding)), holdfast.ErrReplicas, holdfast.ErrAmbiguous)
		backend.Eventually(t, "what was not confirmed is given back", func() bool {
			return do(t, master, "EXISTS", "holdfast:{d}") == int64(0)
		})
		expect.Err(t, "Adopt with a ticket that was used up", expect.ErrOf(transfer.Adopt(t.Context(), plain, ticket)), holdfast.ErrLost)
		replica.Resume()
		expect.Err(t, "Release", lease.Release(t.Context()), nil)
	})
}

// Fault: A Strict server comes back from an older file, with the lock as it was before its adoption. The ticket
// cannot be used again before the adopter's lease is over.
func TestStrictTicketsAreNotUsedTwice(t *testing.T) {
	server.Each(t, func(t *testing.T, bin server.Binary) {
		s := server.Start(t, bin, server.Conf("appendonly", "yes"), server.Conf("appendfsync", "always"))
		b := &backend.Backend{Name: bin.Name, Server: s}
		const longest = 20 * time.Second
		c, other := b.Client(t, strict(longest)), b.Client(t, strict(longest))
		initialise(t, c)
		ticket := detach(t, backend.Acquire(t, c.Mutex("a")), longest)
		copyAOF(t, s)
		heir := expect.Of(transfer.Adopt(t.Context(), c, ticket, holdfast.NoRenew())).OK(t)
		over := heir.Deadline()
		s.Kill()
		restoreAOF(t, s)
		s.Restart()
		for {
			second, err := transfer.Adopt(t.Context(), other, ticket)
			switch {
			case err == nil && heir.Err() == nil:
				t.Fatalf("%s and %s are held at once", heir, second)
			case err == nil:
				backend.Release(t, second)
				return
			case errors.Is(err, holdfast.ErrLost): // it has expired in quarantine
				if time.Now().Before(over) {
					t.Errorf("before the lease was over: %v", err)
				}
				return
			case !errors.Is(err, holdfast.ErrUnavailable):
				t.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond)
		}
	})
}
