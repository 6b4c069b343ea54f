package holdfasttest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/inspect"
)

// ttl is that of locks whose options say nothing.
const ttl = 15 * time.Second

// bubble runs f with two clients, like two processes.
func bubble(t *testing.T, f func(t *testing.T, one, other *holdfasttest.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		one := holdfasttest.New(t)
		f(t, one, one.Server.NewClient(t, nil))
	})
}

func acquire(t *testing.T, l *holdfast.Lock) *holdfast.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	lease, err := l.Acquire(ctx)
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return lease
}

// start acquires the lock in a goroutine.
func start(t *testing.T, l *holdfast.Lock) <-chan *holdfast.Lease {
	granted := make(chan *holdfast.Lease, 1)
	go func() {
		lease, err := l.Acquire(t.Context())
		if err != nil {
			t.Errorf("Acquire: %v", err)
		}
		granted <- lease
	}()
	return granted
}

func release(t *testing.T, l *holdfast.Lease) {
	t.Helper()
	wantErr(t, "Release", l.Release(context.Background()), nil)
}

// lost checks why a lease has ended.
func lost(t *testing.T, l *holdfast.Lease, why holdfast.LossReason) {
	t.Helper()
	synctest.Wait()
	select {
	case <-l.Done():
	default:
		t.Errorf("%s: it has not ended", l)
	}
	var err *holdfast.LostError
	if !errors.As(l.Err(), &err) || err.Reason != why {
		t.Errorf("%s: it ended with %v, not with reason %q", l, l.Err(), why)
	}
}

// kept checks that a lease goes on.
func kept(t *testing.T, l *holdfast.Lease) {
	t.Helper()
	synctest.Wait()
	if err := l.Err(); err != nil {
		t.Errorf("%s: %v", l, err)
	}
}

// kinds are locks of the name "a".
var kinds = map[string]func(c *holdfasttest.Client) *holdfast.Lock{
	"mutex":     func(c *holdfasttest.Client) *holdfast.Lock { return c.Mutex("a") },
	"bounded":   func(c *holdfasttest.Client) *holdfast.Lock { return c.Mutex("a", holdfast.MaxHold(time.Hour)) },
	"key":       func(c *holdfasttest.Client) *holdfast.Lock { return c.MutexKey("a") },
	"reader":    func(c *holdfasttest.Client) *holdfast.Lock { return c.RWMutex("a").Reader() },
	"writer":    func(c *holdfasttest.Client) *holdfast.Lock { return c.RWMutex("a").Writer() },
	"semaphore": func(c *holdfasttest.Client) *holdfast.Lock { return c.Semaphore("a", 3).Permits(2) },
	"owner":     func(c *holdfasttest.Client) *holdfast.Lock { return c.OwnerMutex("a", "job") },
	"multi":     func(c *holdfasttest.Client) *holdfast.Lock { return c.Multi([]string{"other", "a"}) },
}

func TestExpire(t *testing.T) {
	for kind, lock := range kinds {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, one, other *holdfasttest.Client) {
				lease, spared := acquire(t, lock(one)), acquire(t, one.Mutex("spared"))
				time.Sleep(time.Minute) // it is renewed
				kept(t, lease)
				began := time.Now()
				one.Expire("a")
				if took := time.Since(began); took < ttl/2 || took > ttl+time.Second {
					t.Errorf("it took %s", took)
				}
				lost(t, lease, holdfast.LossExpired)
				kept(t, spared)
				release(t, spared)
				next := acquire(t, lock(other))
				if next.Fence() <= lease.Fence() {
					t.Errorf("fence %d follows %d", next.Fence(), lease.Fence())
				}
				release(t, next)
				release(t, acquire(t, lock(one))) // the next one is renewed again
			})
		})
	}
}

// A lease that expires goes to those that wait for it, in this process too, and theirs goes on.
func TestExpireServesWaiters(t *testing.T) {
	bubble(t, func(t *testing.T, one, other *holdfasttest.Client) {
		lease := acquire(t, one.Mutex("a"))
		ours, theirs := start(t, one.Mutex("a")), start(t, other.Mutex("a"))
		time.Sleep(time.Second)
		one.Expire("a")
		lost(t, lease, holdfast.LossExpired)
		for range 2 {
			var l *holdfast.Lease
			select {
			case l = <-ours:
			case l = <-theirs:
			}
			time.Sleep(time.Minute)
			kept(t, l)
			release(t, l)
		}
	})
}

// A method that acts on a lock's holder fails the test if there is none.
func TestALockThatIsNotHeldFailsTheTest(t *testing.T) {
	for what, do := range map[string]func(c *holdfasttest.Client, name string){
		"Expire": (*holdfasttest.Client).Expire, "Break": (*holdfasttest.Client).Break,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{T: t}
			c := holdfasttest.Run(t).NewClient(r, nil)
			lease := acquire(t, c.Mutex("a"))
			do(c, "b")
			if !r.failed {
				t.Errorf("%s did not fail the test", what)
			}
			release(t, lease)
		})
	}
}

// recorder notes that a test would have failed.
type recorder struct {
	*testing.T
	failed bool
}

func (r *recorder) Fatalf(string, ...any) { r.failed = true }

func TestPartition(t *testing.T) {
	bubble(t, func(t *testing.T, one, other *holdfasttest.Client) {
		lease := acquire(t, one.Mutex("a"))
		heal := one.Partition()
		wantErr(t, "Acquire", errOf(one.Mutex("b").Acquire(t.Context())), holdfast.ErrUnavailable)
		next := acquire(t, other.Mutex("a")) // when the lease has expired
		lost(t, lease, holdfast.LossUnreachable)
		heal()
		heal()
		time.Sleep(time.Minute)
		kept(t, next)
		release(t, next)
		release(t, acquire(t, one.Mutex("a")))
		release(t, acquire(t, other.Mutex("b"))) // the late acquire has left nothing
	})
}

// A lease outlives a partition that is shorter than itself, and a waiter one of any length.
func TestPartitionThatHealsInTime(t *testing.T) {
	bubble(t, func(t *testing.T, one, other *holdfasttest.Client) {
		lease := acquire(t, one.Mutex("a"))
		granted := start(t, other.Mutex("a"))
		time.Sleep(time.Second)
		healWaiter := other.Partition()
		heal, again := one.Partition(), one.Partition()
		time.Sleep(5 * time.Second)
		heal()
		time.Sleep(3 * time.Second)
		again()
		time.Sleep(time.Minute)
		kept(t, lease)
		release(t, lease)
		time.Sleep(time.Minute)
		healWaiter()
		release(t, <-granted)
	})
}

func TestLoseReplies(t *testing.T) {
	bubble(t, func(t *testing.T, one, other *holdfasttest.Client) {
		lease := acquire(t, one.Mutex("a"))
		end := one.LoseReplies()
		wantErr(t, "Acquire", errOf(one.Mutex("b").Acquire(t.Context())), holdfast.ErrAmbiguous)
		if _, err := other.Mutex("b").TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("nobody has the lock that was granted without a reply: %v", err)
		}
		time.Sleep(ttl)
		lost(t, lease, holdfast.LossUnreachable)
		end()
		for _, name := range []string{"a", "b"} {
			release(t, acquire(t, other.Mutex(name)))
		}
	})
}

func TestPause(t *testing.T) {
	// While a renewal is under way, too.
	for _, before := range []time.Duration{0, time.Millisecond, 4 * time.Second, 5 * time.Second, 5100 * time.Millisecond} {
		bubble(t, func(t *testing.T, one, other *holdfasttest.Client) {
			unread, read := acquire(t, one.Mutex("a")), acquire(t, one.Mutex("b"))
			told := unread.Done()
			time.Sleep(before)
			resume := one.Pause()
			time.Sleep(time.Minute)
			next := acquire(t, other.Mutex("a"))
			select {
			case <-told:
				t.Error("the holder was told while it slept")
			default:
			}
			lost(t, read, holdfast.LossExpired)
			resume()
			lost(t, unread, holdfast.LossExpired)
			kept(t, next)
			time.Sleep(time.Minute)
			kept(t, next)
			release(t, next)
			release(t, acquire(t, one.Mutex("a")))
		})
	}
}

// What the program calls meanwhile is answered when the process runs again.
func TestAcquireOfAPausedProcess(t *testing.T) {
	bubble(t, func(t *testing.T, one, other *holdfasttest.Client) {
		release(t, acquire(t, one.Mutex("a")))
		resume := one.Pause()
		granted := start(t, one.Mutex("a"))
		time.Sleep(time.Second)
		select {
		case <-granted:
			t.Error("it has acquired a lock in its sleep")
		default:
		}
		resume()
		release(t, <-granted)
	})
}

func TestRestart(t *testing.T) {
	bubble(t, func(t *testing.T, one, other *holdfasttest.Client) {
		mutex, writer := acquire(t, one.Mutex("a")), acquire(t, one.RWMutex("rw").Writer())
		waitedFor := acquire(t, one.Mutex("b"))
		granted := start(t, other.Mutex("b"))
		time.Sleep(time.Second)
		one.Server.Restart(true)
		time.Sleep(time.Minute)
		kept(t, mutex)
		kept(t, writer)
		release(t, waitedFor)
		release(t, <-granted)
		one.Server.Restart(false)
		time.Sleep(time.Minute)
		kept(t, mutex) // it has claimed it again
		lost(t, writer, holdfast.LossDeleted)
		release(t, mutex)
		release(t, acquire(t, other.Mutex("a")))
	})
}

// In Strict mode a restart is followed by a quarantine, so that no two leases overlap.
func TestRestartInStrictMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, strict := holdfasttest.Run(t), &holdfast.Config{Strict: true}
		one, other := srv.NewClient(t, strict), srv.NewClient(t, strict)
		must(t, inspect.New(one.Client).Admit(t.Context()))
		lease := acquire(t, one.Mutex("a"))
		began := time.Now()
		srv.Restart(false)
		wantErr(t, "TryAcquire", errOf(other.Mutex("a").TryAcquire(t.Context())), holdfast.ErrQuarantine)
		next := acquire(t, other.Mutex("a"))
		if took := time.Since(began); took < time.Minute {
			t.Errorf("it is granted after %s", took)
		}
		lost(t, lease, holdfast.LossDeleted)
		release(t, next)
	})
}

// A server that listens keeps its address, and serves old clients and new ones.
func TestRestartOfAServerThatListens(t *testing.T) {
	srv, err := holdfasttest.NewServer(&holdfasttest.ServerConfig{Listen: "127.0.0.1:0"})
	must(t, err)
	t.Cleanup(srv.Close)
	addr := srv.Addr()
	c := srv.NewClient(t, nil)
	release(t, acquire(t, c.Mutex("a")))
	srv.Restart(true)
	release(t, acquire(t, c.Mutex("a")))
	if srv.Addr() != addr {
		t.Errorf("it listens at %s, not %s", srv.Addr(), addr)
	}
}

// A test that ends in the middle of everything ends.
func TestEverythingEndsWithTheTest(t *testing.T) {
	bubble(t, func(t *testing.T, one, other *holdfasttest.Client) {
		acquire(t, one.Mutex("a"))
		acquire(t, other.Mutex("b"))
		for _, c := range []*holdfasttest.Client{one, other} {
			go func() { _, _ = c.Mutex("a").Acquire(t.Context()) }()
			go func() { _, _ = c.Mutex("b").Acquire(t.Context()) }()
		}
		time.Sleep(time.Second)
		one.Pause()
		one.LoseReplies()
		other.Partition()
		time.Sleep(time.Second)
	})
}

// Outside of a bubble a client works, too, and the test ends with the TTL of a lease that was lost, at the latest.
func TestInRealTime(t *testing.T) {
	c := holdfasttest.New(t)
	lease := acquire(t, c.Mutex("a", holdfast.TTL(5*time.Second)))
	c.Expire("a")
	if err := lease.Err(); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("its lease is %v", err)
	}
	acquire(t, c.Mutex("a"))
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantErr requires that err matches target, or is nil if target is nil.
func wantErr(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: %v; want %v", what, err, target)
	}
}

func errOf[T any](_ T, err error) error { return err }
