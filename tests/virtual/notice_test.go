package virtual

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// A holder that is asked to let go before it has heard that it holds the lock learns of that, too.
func TestANoticeBeforeTheGrantIsNotLost(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		cfg := holdfast.Config{ViaClient: true, TTL: time.Hour}
		c := configured(t, srv, cfg, meddle(func(r request) (string, error) {
			if strings.Contains(r.Keys[0], "{late}") {
				return r.late(time.Second)
			}
			return r.send()
		}))
		first := acquire(t, c.Mutex("first"))
		time.Sleep(2 * time.Second) // since then the client listens
		got := make(chan *holdfast.Lease, 1)
		go func() { got <- acquire(t, c.Mutex("late")) }()
		time.Sleep(500 * time.Millisecond)
		in := inspect.New(client(t, srv))
		s, err := in.Get(t.Context(), "late")
		if err != nil || len(s.Holders) != 1 || len(got) > 0 {
			t.Fatalf("Get: %+v, %v", s, err)
		}
		if err := in.Revoke(t.Context(), s.Holders[0], ""); err != nil {
			t.Fatal(err)
		}
		release(t, acquire(t, c.Mutex("between"))) // which the notice does not concern
		lease := <-got
		time.Sleep(time.Minute)
		select {
		case <-lease.Revoked():
		default:
			t.Error("it was not told")
		}
		release(t, lease)
		release(t, first)
	})
}

// A holder that has heard of a break, and could not read of it, is told at its next renewal that its lock was broken, by whom
// and why.
func TestANoticeExplainsWhatARenewalFinds(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		c := client(t, srv, meddle(func(r request) (string, error) {
			if r.Script.Name == script.Notes().Name {
				return "", driver.ErrNotSent
			}
			return r.send()
		}))
		lease := acquire(t, c.Mutex("m"))
		time.Sleep(2500 * time.Millisecond) // the client listens after one second, and renews after five
		in := inspect.New(client(t, srv))
		broken, err := in.Break(t.Context(), backend.Seen(t, in, "m", lease.Fence()), "it hung")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := lease.Err(); err != nil {
			t.Fatalf("a notice alone ended it: %v", err)
		}
		<-lease.Done()
		var lost *holdfast.LostError
		if !errors.As(lease.Err(), &lost) || lost.Reason != holdfast.LossBroken || lost.By != broken.By || lost.Note != "it hung" {
			t.Errorf("it was told %+v", lost)
		}
	})
}

// Leases that have one grant, one after another or at the same time, have one grant id, whatever their fences. A revocation by that id
// reaches the lease that has the lock now, or all that share it.
func TestLeasesOfOneGrantAreToldTogether(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		slow := unconfirmed{by: time.Millisecond} // so that the first asks for a fence for the second, too
		c, in := client(t, srv, slow.wrap), inspect.New(client(t, srv))
		mutex := c.Mutex("m", holdfast.TTL(time.Hour))
		free := acquire(t, client(t, srv).Mutex("m"))
		first, second := inLine(t, mutex), inLine(t, mutex)
		release(t, free)
		<-first.done
		release(t, first.lease)
		<-second.done
		if first.err != nil || second.err != nil {
			t.Fatal(first.err, second.err)
		}
		seen := backend.Seen(t, in, "m", first.lease.Fence()) // the server was not asked when the lock was passed on
		readers := []*holdfast.Lease{acquire(t, c.RWMutex("rw", holdfast.TTL(time.Hour)).Reader()), acquire(t, c.RWMutex("rw", holdfast.TTL(time.Hour)).Reader())}
		shared, err := in.Get(t.Context(), "rw")
		if err != nil || len(shared.Holders) != 1 {
			t.Fatalf("the readers have %+v, %v", shared, err)
		}
		time.Sleep(2 * time.Second) // since then the client listens
		for _, of := range []struct {
			h      holdfast.Holder
			leases []*holdfast.Lease
		}{{seen, []*holdfast.Lease{second.lease}}, {shared.Holders[0], readers}} {
			if err := in.Revoke(t.Context(), of.h, ""); err != nil {
				t.Fatal(err)
			}
			for _, l := range of.leases {
				<-l.Revoked()
			}
			if _, err := in.Break(t.Context(), of.h, ""); err != nil {
				t.Fatal(err)
			}
			for _, l := range of.leases {
				<-l.Done()
				var lost *holdfast.LostError
				if !errors.As(l.Err(), &lost) || lost.Reason != holdfast.LossBroken {
					t.Errorf("%v is told %v", l, l.Err())
				}
			}
		}
	})
}
