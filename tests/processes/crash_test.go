//go:build unix

package processes

import (
	"errors"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// inTime requires that what began at begun has taken no longer than limit, plus a second, plus twice the time
// for which this process was held up, since others may have been, too.
func inTime(t *testing.T, what string, begun time.Time, limit time.Duration) {
	t.Helper()
	took := time.Since(begun)
	if allowed := time.Second + 2*machine.HeldUp(begun); took > limit+allowed {
		t.Errorf("%s took %s, not %s\n%s", what, took, limit, machine.Report(begun))
	}
}

// Fault: The holder's process is paused past its deadline. The next is served within TTL + 1 s; the first call of Err
// after the pause says that the lease is lost, and its release is refused.
func TestPausedHolder(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		const ttl = time.Second
		paused, next := newWorker(t, b.Server.Addr()), newWorker(t, b.Server.Addr())
		paused.send("acquire a " + ttl.String())
		first := paused.fence()
		paused.pause()
		begun := time.Now()
		next.send("acquire a 1m")
		expect.Rises(t, first, next.fence())
		inTime(t, "serving the next", begun, ttl)
		// The server has granted the lock to another process, so the deadline is past.
		paused.send("err") // it reads this as soon as it goes on
		paused.signal(syscall.SIGCONT)
		paused.answer("lost")
		paused.send("release")
		paused.answer("error")
		next.send("err")
		next.answer("held")
	})
}

// Fault: The holder's process is killed. The next is served within TTL + 1 s.
func TestKilledHolder(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		holder, waiter := newWorker(t, b.Server.Addr()), newWorker(t, b.Server.Addr())
		ttl := 1500 * time.Millisecond
		if soak.Long() {
			ttl = 30 * time.Second
		}
		holder.send("acquire a " + ttl.String())
		first := holder.fence()
		waiter.send("acquire a 15s")
		waitForWaiters(t, b, 1)
		holder.Kill()
		begun := time.Now()
		expect.Rises(t, first, waiter.fence())
		t.Logf("from kill -9 of the holder of a %s lock: %s", ttl, time.Since(begun))
		inTime(t, "serving the next", begun, ttl)
	})
}

// Fault: A process of an owner is killed. What it had acquired ends with its TTL, at any depth, but nothing that the
// owner has elsewhere.
func TestKilledOwners(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		const ttl = 1500 * time.Millisecond
		outer, inner, stranger := newWorker(t, b.Server.Addr()), newWorker(t, b.Server.Addr()), newWorker(t, b.Server.Addr())
		outer.send("acquire a " + ttl.String() + " me")
		first := outer.fence()
		inner.send("acquire a 1m me")
		inner.fence()
		inner.send("acquire a 30s me")
		inner.fence()
		stranger.send("acquire a 1m you")
		mine := b.Client(t, nil).OwnerMutex("a", "me")
		backend.Waiters(t, mine, 1)
		outer.Kill()
		backend.Eventually(t, "only the living process's leases are left", func() bool {
			all, err := backend.HoldersOf(t.Context(), mine)
			return err == nil && len(all) == 2 && all[0].Identity == "me"
		})
		inner.send("release") // the last that it acquired
		inner.answer("released")
		expect.Of(b.Client(t, nil).ReleaseOwner(t.Context(), "a", "me")).Is(t, "ReleaseOwner", 0)
		expect.Rises(t, first, stranger.fence())
	})
}

func waitForWaiters(t *testing.T, b *backend.Backend, n int) {
	t.Helper()
	backend.Waiters(t, b.Client(t, nil).Mutex("a"), n)
}

// Heads that are dead are in TestACrowdThatDies.
//
// Fault: The first in the queue is paused with the grant in its socket. It delays the others by the claim, does not believe that it
// holds the lock when it wakes, and gets its turn.
func TestPausedHead(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		addr := b.Server.Addr()
		holder, head, next := newWorker(t, addr), newWorker(t, addr), newWorker(t, addr)
		holder.send("acquire a 5m")
		holder.answer("granted")
		head.send("acquire a 5m")
		waitForWaiters(t, b, 1)
		next.send("acquire a 5m")
		waitForWaiters(t, b, 2)
		claim := claimOfHead(t, b)
		head.pause()
		begun := time.Now()
		holder.send("release")
		holder.answer("released")
		// The head is handed the lock for the claim, not for the TTL.
		h, err := backend.HolderOf(t.Context(), b.Client(t, nil).Mutex("a"))
		if err != nil && !errors.Is(err, holdfast.ErrNotHeld) {
			t.Fatal(err)
		}
		if h.PID == head.pid() && h.TTL > claim {
			t.Errorf("a paused head has the lock for %s; its claim was for %s", h.TTL, claim)
		}
		second := next.fence()
		t.Logf("from the release past a paused head, which has a claim of %s: %s", claim, time.Since(begun))
		inTime(t, "serving the next", begun, claim)
		// When it wakes, it does not believe that it holds the lock, but it gets its turn.
		head.signal(syscall.SIGCONT)
		time.Sleep(300 * time.Millisecond) // by then it would have said so
		next.send("err")
		next.answer("held")
		select {
		case got := <-head.Lines:
			t.Errorf("the woken head says %q", got)
		default:
		}
		next.send("release")
		next.answer("released")
		expect.Rises(t, second, head.fence())
	})
}

// claimOfHead returns how long the first in the queue is handed the lock for.
func claimOfHead(t *testing.T, b *backend.Backend) time.Duration {
	t.Helper()
	first, err := b.Redis(t).ZRange(t.Context(), "holdfast:{a}:q", 0, 0).Result()
	if err != nil || len(first) != 1 {
		t.Fatalf("the queue: %q, %v", first, err)
	}
	fields := strings.Split(first[0], "\n") // TOKEN, CLAIM in ms, with @BY if it has promised to look, ...
	claim, _, _ := strings.Cut(fields[1], "@")
	ms, err := strconv.Atoi(claim)
	if err != nil || ms <= 0 || ms > 60_000 {
		t.Fatalf("the first in the queue is %q", first[0])
	}
	return time.Duration(ms) * time.Millisecond
}
