package virtual

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// soon returns a context for operations that must end.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// A waiter that is not told that a latch has opened looks after 30 s; it learns that a party has died when the
// party's lease is over.
func TestWaitersThatAreToldNothing(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		c := client(t, srv)
		waiter := client(t, srv, deaf).Latch("l", 1)
		over := make(chan error, 1)
		wait := func() { go func() { over <- waiter.Wait(soon(t)) }() }
		wait()
		time.Sleep(10 * time.Second)
		if err := c.Latch("l", 1).CountDown(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := <-over; err != nil || time.Since(began) > 20*time.Second+100*time.Millisecond {
			t.Errorf("Wait returns after %s: %v", time.Since(began), err)
		}
		if err := c.Latch("l", 1).Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		wait()
		time.Sleep(time.Second)
		began = time.Now()
		party, err := client(t, srv, dying).Latch("l", 1, holdfast.TTL(8*time.Second), holdfast.NoRenew()).Register(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// A second waiter's look shows it, and so does a look after the party joined.
		late := client(t, srv, deaf).Latch("l", 1)
		if err := late.Wait(soon(t)); !errors.Is(err, holdfast.ErrLatchIncomplete) {
			t.Errorf("Wait: %v", err)
		}
		if d := time.Since(began); d < 8*time.Second || d > 8*time.Second+100*time.Millisecond {
			t.Errorf("a party with a lease of 8s is waited for %s", d)
		}
		if party.Lease().Err() == nil {
			t.Error("it was not waited for")
		}
		if err := <-over; !errors.Is(err, holdfast.ErrLatchIncomplete) || time.Since(began) > 30*time.Second+100*time.Millisecond {
			t.Errorf("Wait returns after %s: %v", time.Since(began), err)
		}
	})
}

// A barrier waits for a dead party until its lease is over, no longer. Then a waiting party takes its place.
func TestBarrierWaitsForADeadPartyForItsLease(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		join := func(wrap func(drivertest.Driver) drivertest.Driver, opts ...holdfast.BarrierOption) *holdfast.BarrierParty {
			party, err := client(t, srv, wrap).Barrier("b", 2, opts...).Join(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return party
		}
		one := join(deaf)
		began := time.Now()
		join(dying, holdfast.TTL(9*time.Second), holdfast.NoRenew())
		next := make(chan *holdfast.BarrierParty, 1)
		go func() { next <- join(deaf) }()
		time.Sleep(4 * time.Second)
		if _, err := one.Await(soon(t)); !errors.Is(err, holdfast.ErrBarrierBroken) {
			t.Errorf("Await: %v", err)
		}
		if d := time.Since(began); d < 9*time.Second || d > 9*time.Second+100*time.Millisecond {
			t.Errorf("a party with a lease of 9s is waited for %s", d)
		}
		two := <-next
		if d := time.Since(began); d > 12*time.Second { // it is not told of its claim
			t.Errorf("its place is taken after %s", d)
		}
		done := make(chan error, 1)
		go func() {
			_, err := two.Await(soon(t))
			done <- err
		}()
		if phase, err := one.Await(soon(t)); err != nil || phase != 2 {
			t.Errorf("Await: phase %d, %v", phase, err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		for _, p := range []*holdfast.BarrierParty{one, two} {
			if err := p.Leave(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// A latch is kept for a day after its last use.
func TestLatchIsKeptForADay(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		l := client(t, srv).Latch("l", 2)
		left := func(want int) {
			t.Helper()
			if n, err := l.Count(t.Context()); err != nil || n != want {
				t.Errorf("%d are left, want %d; %v", n, want, err)
			}
		}
		if err := l.CountDown(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(24*time.Hour - time.Second)
			left(1)
		}
		time.Sleep(24*time.Hour + time.Second)
		left(2)
	})
}
