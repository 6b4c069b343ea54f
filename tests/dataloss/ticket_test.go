package dataloss

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// detach detaches a lease, or fails the test.
func detach(t *testing.T, lease *holdfast.Lease, ttl time.Duration) holdfast.Ticket {
	t.Helper()
	ticket, err := lease.Detach(t.Context(), ttl)
	if err != nil {
		t.Fatalf("Detach: %v", err)
	}
	return ticket
}

// Fault: A ticket is to be adopted in quarantine. It is refused, since somebody may have adopted the lock before the
// loss, and stays valid.
func TestTicketsOutliveAQuarantine(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		c, other := b.Client(t, strict(time.Hour)), b.Client(t, strict(time.Hour))
		initialise(t, c)
		first := detach(t, backend.Acquire(t, c.Mutex("a")), 30*time.Minute)
		lease, err := other.Adopt(t.Context(), first)
		if err != nil {
			t.Fatal(err)
		}
		ticket, held := detach(t, lease, 30*time.Minute), backend.Acquire(t, c.Mutex("b"))

		do(t, b.Server, "DEL", mark)
		for range 2 {
			_, err := c.Adopt(t.Context(), ticket)
			if left := quarantined(t, err); left < 50*time.Minute || errors.Is(err, holdfast.ErrLost) || errors.Is(err, holdfast.ErrAmbiguous) {
				t.Errorf("Adopt: %v, with %s left", err, left)
			}
			if err := c.ExtendTicket(t.Context(), ticket, time.Hour); err != nil {
				t.Errorf("ExtendTicket: %v", err)
			}
		}
		second := detach(t, held, 30*time.Minute) // as leases are renewed in quarantine
		if err := inspect.New(c).ForceAdmit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Adopt(t.Context(), first); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Adopt with a ticket that was used: %v", err)
		}
		for what, of := range map[string]struct {
			ticket holdfast.Ticket
			before *holdfast.Lease
		}{"a": {ticket, lease}, "b": {second, held}} {
			heir, err := c.Adopt(t.Context(), of.ticket)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if heir.Fence() <= of.before.Fence() {
				t.Errorf("%s: fence %d after %d", what, heir.Fence(), of.before.Fence())
			}
			backend.Release(t, heir)
		}
	})
}

// Fault: Replicas do not confirm a ticket or its adoption. Neither counts.
func TestMinReplicasHoldsForTickets(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, bin server.Binary) {
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
		heir, err := c.Adopt(t.Context(), ticket)
		if err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprint(do(t, replica, "GET", "holdfast:{a}")); !strings.Contains(text, fmt.Sprint(heir.Fence())) {
			t.Errorf("the replica has %q; the adopted lease's fence is %d", text, heir.Fence())
		}
		backend.Release(t, heir)

		lease = inSoShortATime(t, func(ctx context.Context) (*holdfast.Lease, error) { return soon.Mutex("b").Acquire(ctx) })
		ticket = detach(t, backend.Acquire(t, plain.Mutex("d")), time.Hour)
		replica.Pause()
		defer replica.Resume()
		if got, err := lease.Detach(t.Context(), time.Hour); !errors.Is(err, holdfast.ErrReplicas) || got != (holdfast.Ticket{}) || lease.Err() != nil {
			t.Errorf("Detach without the replica: %v, %v; the lease: %v", got, err, lease.Err())
		}
		if err := soon.ExtendTicket(t.Context(), ticket, time.Hour); !errors.Is(err, holdfast.ErrReplicas) {
			t.Errorf("ExtendTicket without the replica: %v", err)
		}
		demanding := holdfast.Durability{Replicas: 1, Timeout: time.Second}
		if _, err := plain.Adopt(t.Context(), ticket, demanding); !errors.Is(err, holdfast.ErrReplicas) || !errors.Is(err, holdfast.ErrAmbiguous) {
			t.Errorf("Adopt without the replica: %v", err)
		}
		backend.Eventually(t, "what was not confirmed is given back", func() bool {
			return do(t, master, "EXISTS", "holdfast:{d}") == int64(0)
		})
		if _, err := plain.Adopt(t.Context(), ticket); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Adopt with a ticket that was used up: %v", err)
		}
		replica.Resume()
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Fault: A Strict server comes back from an older file, with the lock as it was before its adoption. The ticket
// cannot be used again before the adopter's lease is over.
func TestStrictTicketsAreNotUsedTwice(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, bin server.Binary) {
		s := server.Start(t, bin, server.Conf("appendonly", "yes"), server.Conf("appendfsync", "always"))
		b := &backend.Backend{Name: bin.Name, Server: s}
		const longest = 20 * time.Second
		c, other := b.Client(t, strict(longest)), b.Client(t, strict(longest))
		initialise(t, c)
		ticket := detach(t, backend.Acquire(t, c.Mutex("a")), longest)
		copyAOF(t, s)
		heir, err := c.Adopt(t.Context(), ticket, holdfast.NoRenew())
		if err != nil {
			t.Fatal(err)
		}
		over := heir.Deadline()
		s.Kill()
		restoreAOF(t, s)
		s.Restart()
		for {
			second, err := other.Adopt(t.Context(), ticket)
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
