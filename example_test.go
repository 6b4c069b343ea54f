package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/transfer"
)

// locks is what New has returned, for a client of Redis that the program has:
//
//	locks, err := holdfastgoredis.New(rdb, nil)
var locks *holdfast.Client

// server is what an adapter's New makes of the program's client.
var server driver.Driver

// nodes are such clients of three independent servers, each with Config.Strict.
var nodes []*holdfast.Client

// post stands for work under a lock, which passes the fence on.
func post(ctx context.Context, fence uint64) error { return ctx.Err() }

// One process at a time posts the invoices. The inner ctx ends, with a cause, before the lock can
// be somebody else's.
func ExampleClient_Mutex() {
	ctx := context.Background()

	err := locks.Mutex("invoices").Do(ctx, func(ctx context.Context, l *holdfast.Lease) error {
		return post(ctx, l.Fence())
	})
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleLock_TryAcquire() {
	ctx := context.Background()

	lease, err := locks.Mutex("reindex", holdfast.TTL(time.Minute)).TryAcquire(ctx)
	var held *holdfast.HeldError
	switch {
	case errors.As(err, &held):
		fmt.Println("held by", held.Holder.Identity)
		return
	case err != nil:
		log.Fatal(err)
	}
	defer lease.Release(ctx) // works even when ctx has been cancelled
	for page := range 1000 {
		if err := lease.Err(); err != nil {
			log.Fatal(err) // lost: stop before the next write
		}
		_ = page
	}
}

// The caller waits for 5 s at most, and learns why it did not get the lock.
func ExampleWait() {
	ctx := context.Background()

	err := locks.Mutex("reindex", holdfast.Wait(5*time.Second)).Do(ctx,
		func(ctx context.Context, l *holdfast.Lease) error { return post(ctx, l.Fence()) })
	var held *holdfast.HeldError
	switch {
	case errors.As(err, &held):
		fmt.Printf("%s has it for another %s\n", held.Holder.Identity, held.Holder.TTL)
	case errors.Is(err, holdfast.ErrQuarantine):
		fmt.Println("in Strict mode the server grants nothing yet")
	case errors.Is(err, holdfast.ErrUnavailable):
		fmt.Println("the server does not answer")
	case err != nil:
		log.Fatal(err)
	}
}

// A job that is skipped while another process runs it.
func ExampleLock_TryDo() {
	ctx := context.Background()

	err := locks.Mutex("cleanup").TryDo(ctx, func(ctx context.Context, l *holdfast.Lease) error {
		return post(ctx, l.Fence())
	})
	if errors.Is(err, holdfast.ErrHeld) {
		return
	}
	if err != nil {
		log.Fatal(err)
	}
}

// A holder that waits for work notices at once if it loses the lock.
func ExampleLease_Done() {
	ctx := context.Background()
	work := make(chan string, 1)
	work <- "one"
	close(work)

	lease, err := locks.Mutex("worker").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	for {
		select {
		case _, more := <-work:
			if !more {
				return
			}
			if err := post(lease.Context(ctx), lease.Fence()); err != nil { // ends with ctx, or with the lease
				log.Fatal(err)
			}
		case <-lease.Done():
			log.Fatal(lease.Err())
		}
	}
}

// An Observer that counts acquires and lost leases, and the leases that are held.
func ExampleObserver() {
	var granted, refused, held, lost atomic.Int64
	counts := &holdfast.Observer{
		AcquireEnd: func(_ context.Context, e holdfast.AcquireEvent) {
			if e.Err != nil {
				refused.Add(1)
				return
			}
			granted.Add(1)
			held.Add(1)
		},
		Released: func(context.Context, holdfast.LeaseEvent) { held.Add(-1) },
		Lost: func(_ context.Context, e holdfast.LeaseEvent) {
			held.Add(-1)
			lost.Add(1) // by e.Reason, e.Kind and e.Mode, in a metric
		},
	}
	// A program calls holdfastgoredis.New(rdb, cfg).
	locks, err := holdfast.New(server, &holdfast.Config{Observers: []*holdfast.Observer{counts}})
	if err != nil {
		log.Fatal(err)
	}
	err = locks.Mutex("invoices").Do(context.Background(), func(ctx context.Context, l *holdfast.Lease) error {
		return post(ctx, l.Fence())
	})
	fmt.Println(granted.Load(), "granted,", refused.Load(), "refused,", held.Load(), "held,", lost.Load(), "lost:", err)
}

// A lock that other programs take with SET key token NX PX ttl, and release with a
// script that compares and deletes.
func ExampleClient_MutexKey() {
	ctx := context.Background()

	err := locks.MutexKey("lock:settlement").Do(ctx,
		func(ctx context.Context, l *holdfast.Lease) error { return post(ctx, l.Fence()) })
	if err != nil {
		log.Fatal(err)
	}
}

// A lock that is Redisson's RLock in Java, too: redisson.getLock("orders").
func ExampleClient_RedissonMutex() {
	ctx := context.Background()

	err := locks.RedissonMutex("orders").Do(ctx,
		func(ctx context.Context, l *holdfast.Lease) error { return post(ctx, l.Fence()) })
	if err != nil {
		log.Fatal(err)
	}
}

// A function that a holder calls acquires the lock again, with the context that it gets.
func ExampleReentrant() {
	ctx := context.Background()

	ledger := locks.Mutex("ledger", holdfast.Reentrant(), holdfast.MaxDepth(10))
	audit := func(ctx context.Context) error {
		return ledger.Do(ctx, func(ctx context.Context, l *holdfast.Lease) error {
			return post(ctx, l.Fence())
		})
	}
	err := ledger.Do(ctx, func(ctx context.Context, l *holdfast.Lease) error {
		return audit(ctx) // does not wait for itself
	})
	if err != nil {
		log.Fatal(err)
	}
}

// The steps of a job hold the lock together, in any process. The last one ends the lease that a dead step left behind.
func ExampleClient_ReleaseOwner() {
	ctx := context.Background()

	order := locks.OwnerMutex("order-7", "job-42")
	err := order.Do(ctx, func(ctx context.Context, l *holdfast.Lease) error {
		return post(ctx, l.Fence()) // the same fence in all steps that overlap
	})
	if err != nil {
		log.Fatal(err)
	}
	switch left, err := locks.ReleaseOwner(ctx, "order-7", "job-42"); {
	case errors.Is(err, holdfast.ErrNotHeld):
		fmt.Println("nothing was left behind")
	case errors.Is(err, holdfast.ErrNotOwner):
		fmt.Println(err) // names who has it now
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println(left, "leases are left")
	}
}

// Any number of processes read the catalog at a time, or one changes it. After a change
// it goes on as a reader, beside the others, before another process can change it again.
func ExampleClient_RWMutex() {
	ctx := context.Background()

	catalog := locks.RWMutex("catalog")
	err := catalog.Reader().Do(ctx, func(ctx context.Context, l *holdfast.Lease) error {
		return ctx.Err() // read
	})
	if err != nil {
		log.Fatal(err)
	}

	writer, err := catalog.Writer().Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := post(writer.Context(ctx), writer.Fence()); err != nil {
		_ = writer.Release(ctx)
		log.Fatal(err)
	}
	reader, err := catalog.Downgrade(ctx, writer)
	if err != nil {
		log.Fatal(err) // the lock is given up
	}
	if err := reader.Release(ctx); err != nil {
		log.Fatal(err)
	}
}

// At most 8 permits are taken at a time, by all processes together. A large job takes
// several of them.
func ExampleClient_Semaphore() {
	ctx := context.Background()

	slots := locks.Semaphore("renderers", 8)
	for _, permits := range []int{1, 4} {
		err := slots.Permits(permits).Do(ctx, func(ctx context.Context, l *holdfast.Lease) error {
			status, err := slots.Status(ctx)
			for _, h := range status.Holders {
				fmt.Println(h.Identity, "has", h.Permits)
			}
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
}

// Money moves from one account to another while nobody else works on either. A process that moves it back names the
// accounts in the other order, and the two do not wait for each other.
func ExampleClient_Multi() {
	ctx := context.Background()

	err := locks.Multi([]string{"account/17", "account/4"}).Do(ctx, func(ctx context.Context, l *holdfast.Lease) error {
		for _, account := range []string{"account/17", "account/4"} {
			if err := post(ctx, l.Fences()[account]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// A web server accepts an order, and a worker fulfils it. Nobody else touches the order until the worker is done.
func Example_transfer() {
	ctx := context.Background()

	// In the web server.
	lease, err := locks.Mutex("order/17").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	ticket, err := transfer.Detach(ctx, lease, 10*time.Minute) // for the worker to begin
	if err != nil {
		_ = lease.Release(ctx)
		log.Fatal(err)
	}
	text, err := ticket.MarshalText() // a secret: it gives its bearer the lock
	if err != nil {
		log.Fatal(err)
	}

	// In the worker.
	var received transfer.Ticket
	if err := received.UnmarshalText(text); err != nil {
		log.Fatal(err)
	}
	lease, err = transfer.Adopt(ctx, locks, received)
	if errors.Is(err, holdfast.ErrLost) {
		return // another worker has it, or it waited for too long
	} else if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	if err := post(lease.Context(ctx), lease.Fence()); err != nil {
		log.Fatal(err)
	}
}

// Every host starts the draw at about the same time; it is drawn once a day.
func Example_once() {
	ctx := context.Background()

	today := once.Slot(time.Now().UTC().Format(time.DateOnly), 60*24*time.Hour)
	run, err := once.New(locks, "draw", today).Do(ctx, func(ctx context.Context, l *holdfast.Lease) (string, error) {
		return "42", post(ctx, l.Fence())
	})
	if err != nil {
		log.Fatal(err) // the next host that comes, or waits, tries again
	}
	log.Printf("%s drew %s at %s", run.Identity, run.Result, run.Time)
}

// One process at a time schedules; when it dies, another does.
func Example_election() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	err := election.New(locks.Mutex("scheduler")).Run(ctx, func(ctx context.Context, term *holdfast.Lease) error {
		for range 3 {
			if err := post(ctx, term.Fence()); err != nil {
				return err // ctx has ended with the term, perhaps: another may lead then
			}
		}
		return nil // it resigns; with ErrResign it would campaign again
	})
	if err != nil && err != context.Canceled {
		log.Fatal(err)
	}
}

// Who leads, whenever that changes.
func Example_electionWatch() {
	ctx := context.Background()

	for status, err := range election.New(locks.Mutex("scheduler")).Watch(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		leader, leads := status.Holder()
		if !leads {
			log.Print("nobody leads")
			return
		}
		log.Printf("%s leads", leader.Identity)
	}
}

// Five workers have to be ready before others go on. A worker that dies is not waited for.
func Example_latch() {
	ctx := context.Background()
	ready := latch.New(locks, "warmed-up", 5)

	work := func() error { // in each worker
		party, err := ready.Register(ctx)
		if err != nil {
			return err
		}
		defer party.Leave(ctx) // a party that has not counted down by then is missing
		if err := post(party.Lease().Context(ctx), party.Lease().Fence()); err != nil {
			return err
		}
		return party.CountDown(ctx)
	}
	for range 5 {
		go func() {
			if err := work(); err != nil {
				log.Print(err)
			}
		}()
	}

	err := ready.Wait(ctx) // in each process that waits for them
	var incomplete *latch.IncompleteError
	switch {
	case errors.As(err, &incomplete):
		log.Printf("going on without %d of %d", incomplete.Missing, incomplete.Parties)
	case err != nil:
		log.Fatal(err)
	}
}

// Three workers do a computation in steps, each of which needs the results of all of them.
func Example_barrier() {
	ctx := context.Background()

	work := func() error { // in each worker
		party, err := barrier.New(locks, "simulation", 3).Join(ctx)
		if err != nil {
			return err
		}
		defer party.Leave(ctx)
		for {
			if err := post(party.Lease().Context(ctx), party.Lease().Fence()); err != nil {
				return err
			}
			step, err := party.Await(ctx)
			var broken *barrier.BrokenError
			switch {
			case errors.As(err, &broken):
				log.Printf("%s is gone: step %d is to be done again", broken.Party.Identity, broken.Phase)
			case err != nil:
				return err
			case step == 100:
				return nil
			}
		}
	}
	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() {
			if err := work(); err != nil {
				log.Print(err)
			}
		})
	}
	workers.Wait()
}

// A lock that three servers hold, of which one may be down, or come back empty.
func Example_quorum() {
	ctx := context.Background()

	majority, err := quorum.New(nodes, nil)
	if err != nil {
		log.Fatal(err)
	}
	// Once for new servers, by hand: quorum.Admit(ctx)
	err = majority.Mutex("settlement").Do(ctx, func(ctx context.Context, l *holdfast.Lease) error {
		fmt.Println("these agree:", majority.Nodes(l))
		return post(ctx, l.Fence())
	})
	if err != nil {
		log.Fatal(err)
	}
}
