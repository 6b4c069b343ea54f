package faults

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/backend"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/server"
	"github.com/holdfast-go/holdfast/tests/soak"
)

// losses returns how often a test is to make a server lose its data.
func losses() int {
	if soak.Long() {
		return 50
	}
	return 2
}

// succession is a lock with its holder and a waiter, who comes after it when the server
// has lost the lock.
type succession struct {
	resource resource
	holder   *holdfast.Lease
	next     chan *holdfast.Lease // nil when there is an error
	overlap  bool                 // the holder was not told yet; set before next is sent
}

// successions begins so many, on locks that no other has.
func successions(t *testing.T, holders, waiters *holdfast.Client, ttl time.Duration, n int) []*succession {
	t.Helper()
	var all []*succession
	for i := range n {
		name := strconv.Itoa(i)
		s := &succession{holder: backend.Acquire(t, holders.Mutex(name, holdfast.TTL(ttl))), next: make(chan *holdfast.Lease, 1)}
		s.resource.write(s.holder.Token())
		go func() {
			lease, err := waiters.Mutex(name).Acquire(t.Context())
			if err == nil {
				s.overlap = s.resource.succeed(t, s.holder, lease)
			} else if t.Context().Err() == nil {
				t.Errorf("Acquire: %v", err)
			}
			s.next <- lease
		}()
		backend.Waiters(t, holders.Mutex(name), 1)
		all = append(all, s)
	}
	return all
}

// settle has every waiter take over, and every holder told, by a renewal if the server
// was back soon enough. It returns how many held their lock at the same time, and adds
// the fences to those that have been seen.
func settle(t *testing.T, all []*succession, outage, ttl time.Duration, seen map[uint64]bool) (overlaps int) {
	t.Helper()
	for _, s := range all {
		next := backend.Receive(t, s.next)
		if s.overlap {
			overlaps++
		}
		select {
		case <-s.holder.Context().Done():
		case <-time.After(ttl):
			t.Fatalf("the holder is not told")
		}
		var lost *holdfast.LostError
		if !errors.As(s.holder.Err(), &lost) || outage < ttl/4 && lost.Reason != holdfast.LossTaken {
			t.Errorf("the lease ended, %s after the server: %v", outage, s.holder.Err())
		}
		for _, fence := range []uint64{s.holder.Token(), next.Token()} {
			if seen[fence] {
				t.Errorf("fence %d was issued twice", fence)
			}
			seen[fence] = true
		}
		backend.Release(t, next)
	}
	return overlaps
}

// Row 7, without Strict mode: the server is killed and comes back without its data.
func TestRestartWithoutData(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		const ttl = 4 * time.Second
		const locks = 5
		holders, waiters := b.Client(t, nil), b.Client(t, nil)
		seen := map[uint64]bool{}
		overlaps := 0
		for range losses() {
			all := successions(t, holders, waiters, ttl, locks)
			begun := time.Now()
			b.Server.Kill()
			b.Server.Restart()
			overlaps += settle(t, all, time.Since(begun), ttl, seen)
		}
		t.Logf("%d restarts without data, %d locks each: %d overlaps; every late write was refused", losses(), locks, overlaps)
		cleaned(t, b)
	})
}

// Row 8, without Strict mode: the server comes back with what it had some time before:
// locks that were released since are held again, later ones are gone, and the fence
// counter is what it was.
func TestRestartFromAnOlderAOF(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		const ttl = 4 * time.Second
		const locks = 5
		early, holders, waiters := b.Client(t, nil), b.Client(t, nil), b.Client(t, nil)
		aof := filepath.Join(b.Server.Dir(), "appendonlydir")
		seen := map[uint64]bool{}
		overlaps := 0
		for range losses() {
			old := backend.Acquire(t, early.Mutex("0", holdfast.TTL(ttl)))
			other := backend.Acquire(t, early.Mutex("old", holdfast.TTL(time.Minute)))
			copied := filepath.Join(t.TempDir(), "aof")
			if err := os.CopyFS(copied, os.DirFS(aof)); err != nil {
				t.Fatal(err)
			}
			backend.Release(t, other)
			backend.Release(t, old)
			all := successions(t, holders, waiters, ttl, locks)
			counter := b.Redis(t).Get(t.Context(), "holdfast:fence").Val()

			begun := time.Now()
			b.Server.Kill()
			if err := errors.Join(os.RemoveAll(aof), os.CopyFS(aof, os.DirFS(copied))); err != nil {
				t.Fatal(err)
			}
			b.Server.Restart()
			outage := time.Since(begun)
			if h, err := early.Mutex("old").Holder(t.Context()); err != nil || h.Fence != other.Token() {
				t.Fatalf("the old lock is not back: %+v, %v; the counter was %s", h, err, counter)
			}
			// Whose lock that was knows that it has released it.
			if err := old.Err(); err != holdfast.ErrReleased {
				t.Errorf("the lease that was released: %v", err)
			}
			if seen[old.Token()] {
				t.Errorf("fence %d was issued twice", old.Token())
			}
			overlaps += settle(t, all, outage, ttl, seen)
			b.Redis(t).Del(t.Context(), "holdfast:{old}") // by force; it would end with its TTL
		}
		t.Logf("%d restarts from an older AOF, %d locks each: %d overlaps; every late write was refused", losses(), locks, overlaps)
		cleaned(t, b)
	}, server.Conf("appendonly", "yes"), server.Conf("appendfsync", "always"))
}

// follower dials the server that is the master now, as by a name that moves.
type follower struct{ master atomic.Pointer[server.Server] }

func (f *follower) options(o *redis.Options) {
	o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", f.master.Load().Addr())
	}
}

// Row 9, without Strict mode: the master dies, and the replica that follows it has
// missed the locks.
func TestFailoverToAReplicaThatMissedTheLock(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		const ttl = 4 * time.Second
		const locks = 5
		var f follower
		f.master.Store(b.Server)
		holders, waiters := b.Client(t, nil, f.options), b.Client(t, nil, f.options)
		seen := map[uint64]bool{}
		overlaps := 0
		for range losses() {
			master := f.master.Load()
			link := proxy.New(t, master.Addr())
			_, port, _ := net.SplitHostPort(link.Addr())
			replica := server.StartReplica(t, b.Server.Binary(), master, server.Conf("replicaof", "127.0.0.1 "+port))
			lease := backend.Acquire(t, holders.Mutex("replicated", holdfast.TTL(time.Minute)))
			backend.Eventually(t, "the replica has a lock", func() bool {
				return do(t, replica, "EXISTS", "holdfast:{replicated}") == int64(1)
			})
			link.SwallowReplies(true)
			all := successions(t, holders, waiters, ttl, locks)
			if n := do(t, replica, "EXISTS", "holdfast:{0}", "holdfast:{0}:q"); n != int64(0) {
				t.Fatalf("the replica has %d of lock and queue", n)
			}

			begun := time.Now()
			master.Kill()
			do(t, replica, "REPLICAOF", "NO", "ONE")
			f.master.Store(replica)
			overlaps += settle(t, all, time.Since(begun), ttl, seen)
			if err := lease.Err(); err != nil {
				t.Errorf("the lock that the replica had: %v", err)
			}
			backend.Release(t, lease)
		}
		t.Logf("%d failovers to a replica that missed %d locks: %d overlaps; every late write was refused", losses(), locks, overlaps)
		cleaned(t, &backend.Backend{Name: b.Name, Server: f.master.Load()})
	})
}

// Row 10: the replica is the master now, and the old one can still be reached. It has
// no replica left and refuses writes.
func TestAnOldMasterRefusesWrites(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		const ttl = 3 * time.Second
		replica := server.StartReplica(t, b.Server.Binary(), b.Server)
		do(t, b.Server, "CONFIG", "SET", "min-replicas-to-write", "1")
		var r resource
		lease := backend.Acquire(t, b.Client(t, nil).Mutex("a", holdfast.TTL(ttl)))
		r.write(lease.Token())
		waiter := b.Client(t, nil)
		waiting, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error, 1)
		go func() {
			_, err := waiter.Mutex("a").Acquire(waiting)
			gaveUp <- err
		}()
		backend.Waiters(t, waiter.Mutex("a"), 1)
		do(t, b.Server, "WAIT", 1, 5000)
		do(t, replica, "REPLICAOF", "NO", "ONE")
		backend.Eventually(t, "the master has lost its replica", func() bool {
			return b.Server.Info("replication")["connected_slaves"] == "0"
		})

		refused, before := time.Now(), b.Server.CommandStats()["evalsha"]
		newcomer := b.Client(t, nil)
		for what, acquire := range map[string]func(context.Context) (*holdfast.Lease, error){
			"Acquire": newcomer.Mutex("b").Acquire, "TryAcquire": newcomer.Mutex("b").TryAcquire,
		} {
			if _, err := acquire(t.Context()); !errors.Is(err, holdfast.ErrWritesRefused) || errors.Is(err, holdfast.ErrHeld) {
				t.Errorf("%s: %v", what, err)
			}
		}
		// On the new master the lock stands until its TTL is over: nobody renews it there.
		moved := &backend.Backend{Name: b.Name, Server: replica}
		next := backend.Acquire(t, moved.Client(t, nil).Mutex("a"))
		overlap := r.succeed(t, lease, next)
		<-lease.Context().Done()
		var lost *holdfast.LostError
		if !errors.As(lease.Err(), &lost) || lost.Reason != holdfast.LossUnreachable || !errors.Is(lost, holdfast.ErrWritesRefused) {
			t.Errorf("the lease ended: %v", lease.Err())
		}

		// The holder, the waiter and the late release go on asking, but not all the time.
		select {
		case err := <-gaveUp:
			t.Fatalf("the waiter gave up: %v", err)
		case <-time.After(time.Second):
		}
		scripts, took := b.Server.CommandStats()["evalsha"]-before, time.Since(refused)
		t.Logf("overlap: %v; a holder, a waiter and a late release cost %d scripts in %s", overlap, scripts, took.Round(time.Millisecond))
		if bound := int64(30 * (took + time.Second).Seconds()); scripts > bound {
			t.Errorf("%d scripts; at most %d were expected", scripts, bound)
		}
		cancel()
		if err := <-gaveUp; err != context.Canceled {
			t.Errorf("the waiter: %v", err)
		}
		backend.Release(t, next)
		cleaned(t, moved)
	})
}
