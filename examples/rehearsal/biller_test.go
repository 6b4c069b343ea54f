package rehearsal

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/inspect"
)

// process is a process that runs a Biller.
type process struct {
	*holdfasttest.Client
	ended chan error // gets what Run returned
}

// start starts a process.
func start(t *testing.T, srv *holdfasttest.Server, name string, ledger *Ledger) *process {
	p := &process{srv.NewClient(t, &holdfast.Config{Identity: name}), make(chan error, 1)}
	biller := &Biller{p.Client.Client, ledger}
	go func() { p.ended <- biller.Run(t.Context()) }()
	synctest.Wait() // it has the lock, or waits for it
	return p
}

// lost checks that a process has ended because it lost the lock for that reason.
func (p *process) lost(t *testing.T, why holdfast.LossReason) {
	t.Helper()
	synctest.Wait()
	var lost *holdfast.LostError
	select {
	case err := <-p.ended:
		if !errors.As(err, &lost) || lost.Reason != why {
			t.Errorf("it ended with %v, not because its lease was %s", err, why)
		}
	default:
		t.Errorf("it goes on, although its lease was %s", why)
	}
}

// posts checks that a process posts invoices now.
func posts(t *testing.T, ledger *Ledger, name string) {
	t.Helper()
	before := ledger.Posted(name)
	time.Sleep(10 * time.Minute)
	if n := ledger.Posted(name) - before; n < 9 {
		t.Errorf("%s has posted %d invoices in 10 minutes", name, n)
	}
}

// A process that is too busy to renew its lease stops, and the next one goes on.
func TestTheLeaseExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ledger Ledger
		srv := holdfasttest.Run(t)
		one := start(t, srv, "one", &ledger)
		start(t, srv, "other", &ledger)
		posts(t, &ledger, "one")
		one.Expire("billing")
		one.lost(t, holdfast.LossExpired)
		posts(t, &ledger, "other")
	})
}

// A process that is cut off for longer than its lease stops. For less, it goes on.
func TestTheNetworkIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ledger Ledger
		srv := holdfasttest.Run(t)
		one := start(t, srv, "one", &ledger)
		start(t, srv, "other", &ledger)

		heal := one.Partition()
		time.Sleep(5 * time.Second)
		heal()
		posts(t, &ledger, "one")

		heal = one.Partition()
		time.Sleep(time.Minute)
		one.lost(t, holdfast.LossUnreachable)
		posts(t, &ledger, "other")
		heal()
		posts(t, &ledger, "other")
	})
}

// A process whose requests arrive but are not answered stops, too: it cannot know that its lease is renewed.
func TestRepliesAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ledger Ledger
		srv := holdfasttest.Run(t)
		one := start(t, srv, "one", &ledger)
		other := start(t, srv, "other", &ledger)

		end := one.LoseReplies()
		time.Sleep(time.Minute)
		one.lost(t, holdfast.LossUnreachable)
		end()
		posts(t, &ledger, "other")

		// An acquire without a reply may have succeeded. Nobody is kept out for longer than the TTL.
		other.LoseReplies()
		if err := other.Mutex("report").Do(t.Context(), nil); !errors.Is(err, holdfast.ErrAmbiguous) {
			t.Errorf("Do: %v", err)
		}
		began := time.Now()
		lease, err := one.Mutex("report").Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release(context.Background())
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("the lock of an acquire that failed was kept for %s", took)
		}
	})
}

// A process that is suspended after it checked its lease, and before it writes, wakes up too late. Nothing that it does itself
// can prevent that; the ledger refuses the write.
func TestTheProcessIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late atomic.Bool // the next to post is late
		checked, write := make(chan struct{}), make(chan struct{})
		ledger := Ledger{pause: func() {
			if late.CompareAndSwap(true, false) {
				close(checked)
				<-write
			}
		}}
		srv := holdfasttest.Run(t)
		one := start(t, srv, "one", &ledger)
		start(t, srv, "other", &ledger)
		posts(t, &ledger, "one")

		late.Store(true)
		<-checked
		resume := one.Pause()
		before := ledger.Posted("one")
		posts(t, &ledger, "other")
		resume()
		close(write)
		if err := <-one.ended; !errors.Is(err, fence.ErrStale) || !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("it ended with %v", err)
		}
		if n := ledger.Posted("one") - before; n != 0 {
			t.Errorf("it has posted %d invoices late", n)
		}
	})
}

// Over a restart with its data the server keeps the lock. Without data, the holder claims its mutex again, if nobody was
// first.
func TestTheServerRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ledger Ledger
		srv := holdfasttest.Run(t)
		one := start(t, srv, "one", &ledger)
		posts(t, &ledger, "one")
		srv.Restart(true)
		posts(t, &ledger, "one")
		srv.Restart(false)
		posts(t, &ledger, "one")
		select {
		case err := <-one.ended:
			t.Errorf("it has ended: %v", err)
		default:
		}

		// Another process that comes first after the restart has the lock.
		srv.Restart(false)
		start(t, srv, "other", &ledger)
		time.Sleep(time.Minute)
		one.lost(t, holdfast.LossTaken)
		posts(t, &ledger, "other")
	})
}

// A process whose lock an operator breaks stops at once, and not when it next renews its lease.
func TestTheLockIsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ledger Ledger
		srv := holdfasttest.Run(t)
		one := start(t, srv, "one", &ledger)
		start(t, srv, "other", &ledger)
		posts(t, &ledger, "one")
		time.Sleep(30 * time.Second) // it has posted, and posts again in half a minute
		before := ledger.Posted("one")
		one.Break("billing")
		one.lost(t, holdfast.LossBroken)
		posts(t, &ledger, "other")
		if n := ledger.Posted("one") - before; n != 0 {
			t.Errorf("it has posted %d invoices since", n)
		}
	})
}

// A process that an operator asks to let go finishes what it does, and leaves without an error.
func TestTheHolderIsAskedToLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ledger Ledger
		srv := holdfasttest.Run(t)
		one := start(t, srv, "one", &ledger)
		start(t, srv, "other", &ledger)
		posts(t, &ledger, "one")
		operator := inspect.New(srv.NewClient(t, nil).Client)
		status, err := operator.Get(t.Context(), "billing")
		if err != nil {
			t.Fatal(err)
		}
		if err := operator.Revoke(t.Context(), status.Holders[0], "maintenance"); err != nil {
			t.Fatal(err)
		}
		if err := <-one.ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
		posts(t, &ledger, "other")
	})
}
