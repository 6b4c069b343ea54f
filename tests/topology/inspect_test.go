package topology

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Each lock is listed once, whichever master has it, also after a slot has moved.
func TestInspectorListsAllMastersOfACluster(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		cluster := startCluster(t, bin)
		open := clusterOf(cluster)
		c, in := open.client(t, nil), inspect.New(open.client(t, nil))
		held := map[string]*holdfast.Lease{}
		for i := range 40 {
			name := "listed/" + strconv.Itoa(i)
			held[name] = backend.Acquire(t, c.Mutex(name, holdfast.TTL(time.Hour)))
		}
		for _, when := range []string{"at first", "after a move"} {
			listed := map[string]bool{}
			for s, err := range in.List(t.Context(), "listed/*") {
				if err != nil {
					t.Fatalf("%s: %v", when, err)
				}
				if held[s.Name] == nil || listed[s.Name] || len(s.Holders) != 1 {
					t.Errorf("%s: %+v", when, s)
				}
				listed[s.Name] = true
			}
			expect.Equal(t, when+": locks that are listed", len(listed), len(held))
			slot := slotOf("listed/0")
			cluster.StartMove(slot, otherMaster(cluster, slot)).Finish()
		}
		for _, lease := range held {
			backend.Release(t, lease)
		}
	})
}

// Fault: A master of a Cluster is down while its locks are listed. The locks of the others are listed, and then the error comes.
func TestInspectorListsTheOtherMastersOfACluster(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		open := clusterOf(c)
		holder := open.client(t, nil)
		want := map[string]bool{}
		for i := range 30 {
			lease := backend.Acquire(t, holder.Mutex("listed/"+strconv.Itoa(i), holdfast.TTL(time.Hour)))
			t.Cleanup(func() { _ = lease.Release(context.Background()) })
			want["listed/"+strconv.Itoa(i)] = true
		}
		in := inspect.New(open.client(t, nil))
		for _, err := range in.List(t.Context(), "listed/*") { // its client knows who has which slot
			expect.OK(t, err)
		}
		c.Patience(5 * time.Minute) // no replica takes over
		dead := c.Owner(0)          // the first that is searched
		for name := range want {
			if c.Owner(slotOf(name)) == dead {
				delete(want, name)
			}
		}
		dead.Kill()
		var last error
		for s, err := range in.List(t.Context(), "listed/*") {
			if last != nil {
				t.Errorf("%q, %v comes after the error", s.Name, err)
			}
			if last = err; err == nil && !want[s.Name] {
				t.Errorf("%q is listed", s.Name)
			}
			delete(want, s.Name)
		}
		if len(want) > 0 || !errors.Is(last, holdfast.ErrUnavailable) {
			t.Errorf("%v are not listed; the error is %v", want, last)
		}
	})
}

// A lock with an exact key is found by its name, whichever master has its key, and whoever wrote it: we, Redisson's form, or a
// program that knows only SET.
func TestAPatternThatIsANameFindsExactKeysOfACluster(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		open := clusterOf(c)
		holder, in := open.client(t, nil), inspect.New(open.client(t, nil))
		var leases []*holdfast.Lease
		masters := map[*server.Server]bool{}
		finds := func(key string, kind holdfast.Kind) {
			t.Helper()
			masters[c.Owner(int(keys.Slot(key)))] = true
			n := 0
			for s, err := range in.List(t.Context(), key) {
				if n++; err != nil || s.Name != key || s.Key != key || s.Kind != kind || len(s.Holders) != 1 {
					t.Errorf("%s: %+v, %v", key, s, err)
				}
			}
			expect.Equal(t, key+": are listed", n, 1)
		}
		for i := range 6 {
			own, java, theirs := "own-"+strconv.Itoa(i), "java-"+strconv.Itoa(i), "theirs-"+strconv.Itoa(i)
			leases = append(leases, backend.Acquire(t, holder.MutexKey(own, holdfast.TTL(time.Hour))), backend.Acquire(t, holder.RedissonMutex(java, holdfast.TTL(time.Hour))))
			expect.OK(t, expect.ErrOf(c.Owner(int(keys.Slot(theirs))).Do("SET", theirs, "x", "NX", "PX", "3600000")))
			finds(own, holdfast.KindMutex)
			finds(java, holdfast.KindRedisson)
			finds(theirs, holdfast.KindForeign)
		}
		expect.Equal(t, "masters have locks", len(masters), 3)
		for _, l := range leases {
			backend.Release(t, l)
		}
	})
}

// Locks of all masters are broken: their holders are told, and those that wait have them.
func TestBreakInACluster(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		open := clusterOf(startCluster(t, bin))
		c, other := open.client(t, nil), open.client(t, nil)
		in := inspect.New(open.client(t, &holdfast.Config{Identity: "operator"}))
		for i := range 6 {
			name := fmt.Sprint("broken/", i)
			for kind, lock := range map[string]func(c *holdfast.Client) *holdfast.Lock{
				"mutex": func(c *holdfast.Client) *holdfast.Lock { return c.Mutex(name, holdfast.TTL(time.Hour)) },
				"permits": func(c *holdfast.Client) *holdfast.Lock {
					return c.Semaphore(name, 1, holdfast.TTL(time.Hour)).Permits(1)
				},
			} {
				lease := backend.Acquire(t, lock(c))
				leases := backend.Start(t, lock(other))
				backend.Waiters(t, lock(c), 1)
				seen := backend.Seen(t, in, name, lease.Fence())
				expect.Err(t, fmt.Sprint(kind, " ", name, ": Revoke"), in.Revoke(t.Context(), seen, "test"), nil)
				backend.Told(t, "the holder is asked", lease.Revoked())
				broken, err := in.Break(t.Context(), seen, "test")
				if err != nil {
					t.Fatalf("%s %s: Break: %v", kind, name, err)
				}
				backend.Told(t, "the holder is told of the loss", lease.Done())
				var lost *holdfast.LostError
				if !errors.As(lease.Err(), &lost) || lost.Reason != holdfast.LossBroken || lost.By != "operator" {
					t.Errorf("%s %s: the holder: %v", kind, name, lease.Err())
				}
				next := backend.Receive(t, leases)
				if next.Fence() <= broken.Fence || broken.Fence <= lease.Fence() {
					t.Errorf("%s %s: the fences are %d, %d and %d", kind, name, lease.Fence(), broken.Fence, next.Fence())
				}
				backend.Release(t, next)
			}
		}
		breaks, revocations := 0, 0
		for b, err := range in.History(t.Context()) {
			if err != nil || b.By != "operator" {
				t.Errorf("on record: %+v, %v", b, err)
			}
			if b.Revoked {
				revocations++
			} else {
				breaks++
			}
		}
		if breaks != 12 || revocations != 12 {
			t.Errorf("%d breaks and %d revocations are on record", breaks, revocations)
		}
	})
}
