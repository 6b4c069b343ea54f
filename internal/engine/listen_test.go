package engine

import (
	"testing"

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
