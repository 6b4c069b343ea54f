package engine

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A lock that comes too late is given back as what it is: one with an exact key leaves gaps for programs that know no queue.
func TestALateGrantIsOfItsKind(t *testing.T) {
	space, err := keys.NewSpace("p:")
	must(t, err)
	c := &Client{Keyspace: lock.Keyspace{Space: space}}
	for grant, want := range map[wire.Grant]*kind.Kind{
		{Lock: "p:{a}"}:                    &kind.Mutex,
		{Lock: "a"}:                        &kind.Keyed,
		{Lock: "{a}b"}:                     &kind.Keyed,
		{Lock: "a", Kind: kind.RLock.Name}: &kind.RLock,
		{Lock: "p:{a}", Kind: kind.Semaphore.Name}: &kind.Semaphore,
	} {
		l := c.stray(&grant)
		if l.Set.Kind != want || l.Keys.Lock != grant.Lock {
			t.Errorf("%+v is a %q with the flags %q and the keys %+v", grant, l.Set.Kind.Name, l.Set.Kind.Flags, l.Keys)
		}
	}
}

// Fault: A server loses its latest data, and hands a lock to a waiter that has had it since then. The client gives the lock back.
func TestALockIsGivenBackThatIsHandedToAnEarlierWaiter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &fake{holders: map[string]string{}}
		c := open(t, server, nil)
		l := c.Mutex("a")
		server.holders[l.Keys.Lock] = "another"
		time.AfterFunc(time.Second, func() { server.remove(l.Keys.Lock) })
		lease := take(t, l)
		token := lease.(*holdLease).g.attempt.Token()
		must(t, lease.Release(t.Context()))
		for range 50_000 { // other waits
			other := l.newAttempt()
			other.inbox = make(chan wire.Message)
			other.forget(false)
		}
		server.holders[l.Keys.Lock] = token
		c.notified(fmt.Sprintf("hf2 grant %s %d 1500 1 %s", token, time.Now().UnixMicro(), l.Keys.Lock))
		synctest.Wait()
		equal(t, "the holder", server.holders[l.Keys.Lock], "")
		must(t, c.Close(t.Context()))
	})
}
