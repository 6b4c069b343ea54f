package topology

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: A Cluster's slot moves for as long as it likes, while locks in it are held and waited for. No lease is lost
// and nothing overlaps; waiters are handed the lock, and retries are bounded.
func TestLocksInASlotOnTheMove(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		all := names(8)
		t.Run("mutex", func(t *testing.T) { locksInASlotOnTheMove(t, c, all[:4], false, (*holdfast.Client).Mutex) })
		// Its key is the bare name, which is in the mutex's slot.
		t.Run("Redisson's", func(t *testing.T) { locksInASlotOnTheMove(t, c, all[4:], true, (*holdfast.Client).RedissonMutex) })
	})
}

type lockOf = func(c *holdfast.Client, name string, opts ...holdfast.MutexOption) *holdfast.Lock

func locksInASlotOnTheMove(t *testing.T, c *server.Cluster, names []string, shared bool, lock lockOf) {
	open := clusterOf(c)
	waited := func(name string) backend.Pair {
		return backend.Alike(func(c *holdfast.Client) *holdfast.Lock { return lock(c, name, holdfast.TTL(term)) })
	}
	startMove := func(name string) *server.Move { return c.StartMove(slotOf(name), otherMaster(c, slotOf(name))) }

	// Neither lock has a queue, so that key counts as another node's.
	t.Run("released before the key moves, and after", func(t *testing.T) {
		name := names[0]
		l := lock(open.client(t, nil), name, holdfast.TTL(term))
		for _, moved := range []bool{false, true} {
			lease := backend.Acquire(t, l)
			m := startMove(name)
			if moved {
				m.Keys(10)
			}
			before := rejected(c)
			expect.Err(t, fmt.Sprintf("Release, keys moved %v", moved), lease.Release(t.Context()), nil)
			expect.AtMost(t, "refused commands of a release", rejected(c)-before, 10)
			m.Finish()
		}
	})

	// The script that hands the lock over empties the queue, which then does not exist.
	t.Run("handed over before its keys move", func(t *testing.T) {
		name := names[1]
		q := newQueueOf(t, open, waited(name))
		m := startMove(name)
		if !shared {
			q.passes("the beginning of a move")
			m.Finish()
			return
		}
		// The lock stays free for a moment, so that other programs can acquire it; a free lock in such a slot cannot be acquired.
		time.Sleep(100 * time.Millisecond) // longer than a chain of hand-overs
		backend.Release(t, q.lease)
		m.Finish()
		next := backend.Receive(t, q.next)
		expect.Rises(t, q.lease.Fence(), next.Fence())
		backend.Release(t, next)
	})

	// The keys' new node has the waiters' subscriptions only once the slot is its own. From then on they are in its queue.
	t.Run("waited for while its keys are elsewhere", func(t *testing.T) {
		name := names[2]
		q := newQueueOf(t, open, waited(name))
		m := startMove(name)
		for len(m.Keys(10)) > 0 {
		}
		var said bytes.Buffer // by one logger; read when its client is closed
		polling := open.client(t, &holdfast.Config{Logger: slog.New(slog.NewTextHandler(&said, nil))})
		late := backend.Start(t, lock(polling, name, holdfast.TTL(term)))
		time.Sleep(time.Second) // time enough to show that it hears nothing
		m.Finish()
		backend.Waiters(t, q.l, 2)
		backend.Release(t, q.lease)
		// The waiter that subscribes to the new owner first is served first.
		for range 2 {
			backend.Release(t, soon(t, "a waiter is not served", q.next, late))
		}
		expect.Err(t, "Close", polling.Close(t.Context()), nil)
		if said.Len() > 0 { // a failure that passes is no reason to suspect a proxy
			t.Errorf("it was said: %s", &said)
		}
	})

	t.Run("asked for", func(t *testing.T) {
		name := names[3]
		client := open.client(t, nil)
		m := startMove(name)
		before, begun := rejected(c), time.Now()
		lease, err := lock(client, name).Acquire(t.Context())
		took, n := time.Since(begun), rejected(c)-before
		// The caller is told in time, after a few tries, what the server cannot do.
		if err == nil {
			t.Errorf("acquired, with a queue that may be elsewhere: %v", lease)
		} else if kind := kindOf(err); kind != holdfast.ErrUnavailable {
			t.Errorf("Acquire: %v", err)
		}
		t.Logf("%d refused commands in %s", n, took.Round(time.Millisecond))
		expect.AtMost(t, "refused commands of an acquire in a slot on the move", n, 60)
		m.Finish()
		backend.Release(t, backend.Acquire(t, lock(client, name)))
	})
}

// Fault: A client's view of the Cluster is out of date, and names a node that has become a replica, which accepts
// subscriptions. The client does not subscribe there.
func TestWaitersDoNotSubscribeToReplicas(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		open := clusterOf(c)
		const name = "a"
		client := open.client(t, nil)
		l := client.Mutex(name, holdfast.TTL(term))
		backend.Release(t, backend.Acquire(t, l)) // it knows the masters
		lease := backend.Acquire(t, open.client(t, nil).Mutex(name, holdfast.TTL(term)))
		master := c.Owner(slotOf(name))
		c.Failover(c.ReplicaOf(master))
		c.Owner(slotOf(name), master)
		next := backend.Start(t, l)
		backend.Waiters(t, l, 1)
		// If it were not heard, it would leave the queue, and poll.
		owner := c.Owner(slotOf(name))
		before, begun := owner.CommandStats()["evalsha"], time.Now()
		time.Sleep(time.Second)
		n := owner.CommandStats()["evalsha"] - before
		if took := time.Since(begun); n > 3*int64(took/time.Second) {
			t.Errorf("a waiter has sent %d scripts in %s", n, took)
		}
		backend.Waiters(t, l, 1)
		backend.Release(t, lease)
		backend.Release(t, backend.Receive(t, next))
	})
}

// Fault: A slot moves with leases that replicas, or disks, must confirm. They are renewed and confirmed on the node that has their keys.
func TestConfirmedLeasesOutliveASlotOnTheMove(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		confirmed := map[string]holdfast.Durability{"by replicas": holdfast.Durability{Replicas: 1, Timeout: 5 * time.Second}}
		if bin.AtLeast(7, 2) {
			for _, s := range c.Masters() {
				for _, set := range [][]any{{"CONFIG", "SET", "appendonly", "yes"}, {"CONFIG", "SET", "appendfsync", "always"}} {
					expect.OK(t, expect.ErrOf(s.Do(set...)))
				}
			}
			confirmed["by the master's disk"] = holdfast.Durability{Fsync: true}
		}
		client := clusterOf(c).client(t, &holdfast.Config{CommandTimeout: 10 * time.Second, RetryTimeout: 10 * time.Second})
		for what, opt := range confirmed {
			name := "confirmed " + what
			locks := map[string]*holdfast.Lock{
				"mutex":     client.Mutex("{"+name+"}/m", holdfast.TTL(time.Minute), opt),
				"semaphore": client.Semaphore("{"+name+"}/s", 2, holdfast.TTL(time.Minute), opt).Permits(1),
			}
			leases := map[string]*holdfast.Lease{}
			for kind, l := range locks {
				leases[kind] = backend.Acquire(t, l)
			}
			slot := slotOf("{" + name + "}")
			m := c.StartMove(slot, otherMaster(c, slot))
			for len(m.Keys(10)) > 0 {
			}
			for kind, l := range leases {
				before := l.Deadline()
				if err := l.Extend(t.Context(), time.Hour); err != nil || l.Deadline().Sub(before) < 30*time.Minute {
					t.Errorf("Extend of a %s, confirmed %s: %v; the deadline moved by %s", kind, what, err, l.Deadline().Sub(before))
				}
			}
			m.Finish()
			for kind, l := range leases {
				backend.Release(t, l)
				backend.Release(t, backend.Acquire(t, locks[kind]))
			}
		}
	})
}

// Fault: A job's lock and record are on different nodes of a Cluster for longer than RetryTimeout while it is
// completed. It counts once its slot has moved, and is not done again.
func TestAJobIsDoneWhileItsSlotIsOnTheMove(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		const retry = time.Second
		open := clusterOf(c)
		job := func() *once.Job {
			cfg := &holdfast.Config{CommandTimeout: 6 * time.Second, RetryTimeout: retry}
			return once.New(open.client(t, cfg), "job", once.Slot("x{y}:z", time.Hour), holdfast.TTL(time.Minute))
		}
		working, moved := make(chan struct{}), make(chan struct{})
		type result struct {
			run once.Completion
			err error
		}
		done := make(chan result, 1)
		here := job()
		go func() {
			run, err := here.Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
				close(working)
				<-moved
				return "fine", nil
			})
			done <- result{run, err}
		}()
		select {
		case <-working:
		case r := <-done:
			t.Fatalf("Do: %+v, %v", r.run, r.err)
		}
		slot := slotOf("job")
		m := c.StartMove(slot, otherMaster(c, slot))
		m.Key("holdfast:{job}")
		before := rejected(c)
		close(moved)
		select {
		case r := <-done:
			t.Errorf("Do, after %d refused scripts: %+v, %v", rejected(c)-before, r.run, r.err)
			done <- r
		case <-time.After(3 * retry):
		}
		m.Finish()
		r := <-done
		if r.err != nil || !r.run.Here {
			t.Errorf("Do: %+v, %v", r.run, r.err)
		}
		if n := rejected(c) - before; n == 0 {
			t.Error("no script was refused: nothing was tested")
		}
		expect.Of(backend.IsDone(t.Context(), job())).Is(t, "the job is done", true)
	})
}
