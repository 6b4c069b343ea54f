package holdfast_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

func detach(t *testing.T, lease *holdfast.Lease, ttl time.Duration) holdfast.Ticket {
	t.Helper()
	ticket, err := lease.Detach(t.Context(), ttl)
	if err != nil {
		t.Fatalf("Detach of %s: %v", lease, err)
	}
	return ticket
}

// carried returns the ticket as another process reads it.
func carried(t *testing.T, ticket holdfast.Ticket) (read holdfast.Ticket) {
	t.Helper()
	text, err := ticket.MarshalText()
	if err == nil {
		err = read.UnmarshalText(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func TestALockIsCarriedToAnotherProcess(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	c, there := s.client(), s.client()
	for what, lock := range map[string]func(*holdfast.Client) *holdfast.Lock{
		"Mutex":    func(c *holdfast.Client) *holdfast.Lock { return c.Mutex("m") },
		"MutexKey": func(c *holdfast.Client) *holdfast.Lock { return c.MutexKey(s.prefix + "key") },
	} {
		lease := acquire(t, lock(c))
		ticket := carried(t, detach(t, lease, time.Hour))
		want(t, what+": Err of a lease that is detached", lease.Err(), holdfast.ErrReleased)
		wantHeld(t, lock(s.client()))
		if ticket.Name() != lease.Name() {
			t.Errorf("%s: the ticket's name is %q, the lease's %q", what, ticket.Name(), lease.Name())
		}
		next := start(t, lock(s.client()).Acquire)
		if err := there.ExtendTicket(t.Context(), ticket, 2*time.Hour); err != nil {
			t.Errorf("%s: ExtendTicket: %v", what, err)
		}
		adopted, err := there.Adopt(t.Context(), ticket, holdfast.Owner("heir"))
		if err != nil {
			t.Fatalf("%s: Adopt: %v", what, err)
		}
		if adopted.Fence() <= lease.Fence() || adopted.Err() != nil || adopted.Owner() != "heir" {
			t.Errorf("%s: fence %d follows %d; its owner is %q; %v", what, adopted.Fence(), lease.Fence(), adopted.Owner(), adopted.Err())
		}
		_, err = c.Adopt(t.Context(), ticket)
		want(t, what+": a second Adopt", err, holdfast.ErrLost)
		want(t, what+": ExtendTicket after Adopt", c.ExtendTicket(t.Context(), ticket, time.Hour), holdfast.ErrLost)
		wantWaiting(t, what+": a waiter", next)
		release(t, adopted)
		release(t, succeeded(t, next))
	}
	s.cleaned()
}

func TestATicketForALockThatIsGone(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	c := s.client()
	ticket := detach(t, acquire(t, c.Mutex("m")), time.Hour)
	s.steal("m")
	_, err := c.Adopt(t.Context(), ticket)
	want(t, "Adopt", err, holdfast.ErrLost)
	want(t, "ExtendTicket", c.ExtendTicket(t.Context(), ticket, time.Hour), holdfast.ErrLost)
	if got := s.do("GET", s.key("m")); got != "theirs" {
		t.Errorf("the other's lock is now %q", got)
	}
}

func TestDetachRefuses(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	c := s.client()
	for what, l := range map[string]*holdfast.Lock{
		"a reader": c.RWMutex("rw").Reader(), "a permit": c.Semaphore("s", 1).Permits(1), "several": c.Multi([]string{"a", "b"}),
		"an owner's": c.OwnerMutex("o", "me"), "Redisson's": c.RedissonMutex(s.prefix + "r"),
	} {
		lease := acquire(t, l)
		_, err := lease.Detach(t.Context(), time.Minute)
		want(t, "Detach of "+what, err, holdfast.ErrInvalid)
		if err := lease.Err(); err != nil {
			t.Errorf("the lease of %s: %v", what, err)
		}
		release(t, lease)
	}
	lease := acquire(t, c.Mutex("m"))
	for _, ttl := range []time.Duration{0, -1, 25 * time.Hour} {
		_, err := lease.Detach(t.Context(), ttl)
		want(t, "Detach for "+ttl.String(), err, holdfast.ErrInvalid)
	}
	release(t, lease)
	_, err := lease.Detach(t.Context(), time.Minute)
	want(t, "Detach after Release", err, holdfast.ErrReleased)
	s.cleaned()
}

func TestTicketsThatAreNone(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	c := s.client()
	var none holdfast.Ticket
	_, err := c.Adopt(t.Context(), none)
	want(t, "Adopt of no ticket", err, holdfast.ErrInvalid)
	want(t, "ExtendTicket of no ticket", c.ExtendTicket(t.Context(), none, time.Minute), holdfast.ErrInvalid)
	_, err = none.MarshalText()
	want(t, "the text of no ticket", err, holdfast.ErrInvalid)
	if none.Name() != "" || none.String() != "holdfast.Ticket(none)" {
		t.Errorf("no ticket is %s, for %q", none, none.Name())
	}
	for _, text := range []string{"", "x", strings.Repeat("secret", 1000)} {
		err := none.UnmarshalText([]byte(text))
		want(t, "a text that is no ticket", err, holdfast.ErrInvalid)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows the text: %v", err)
		}
	}
	ticket := detach(t, acquire(t, c.Mutex("m")), time.Hour)
	_, err = newSpace(t).client().Adopt(t.Context(), ticket)
	want(t, "Adopt under another prefix", err, holdfast.ErrInvalid)
	lease, err := c.Adopt(t.Context(), ticket)
	if err != nil {
		t.Fatal(err)
	}
	release(t, lease)
}

// Printing a ticket does not show its secret.
func TestPrintedTicketsAreNoSecret(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	c := s.client()
	ticket := detach(t, acquire(t, c.Mutex("m")), time.Hour)
	for _, v := range []any{ticket, &ticket, struct{ t holdfast.Ticket }{ticket}, ticket.LogValue()} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			if text := fmt.Sprintf(verb, v); len(text) > 100 {
				t.Errorf("%s of a %T is %s", verb, v, text)
			}
		}
	}
	if got, want := ticket.String(), `holdfast.Ticket("m")`; got != want {
		t.Errorf("it is printed as %s, want %s", got, want)
	}
	lease, err := c.Adopt(t.Context(), ticket)
	if err != nil {
		t.Fatal(err)
	}
	release(t, lease)
}
