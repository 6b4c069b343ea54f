package engine

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A lock that comes too late is given back as what it is: one with an exact key leaves gaps for programs that know no queue.
func TestALateGrantIsOfItsKind(t *testing.T) {
	space, err := keys.NewSpace("p:")
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{space: space}
	for grant, want := range map[wire.Grant]*kind{
		{Lock: "p:{a}"}:                       &mutex,
		{Lock: "a"}:                           &keyed,
		{Lock: "{a}b"}:                        &keyed,
		{Lock: "a", Kind: redisson.name}:      &redisson,
		{Lock: "p:{a}", Kind: semaphore.name}: &semaphore,
	} {
		l := c.stray(&grant)
		if l.set.kind != want || l.keys.Lock != grant.Lock {
			t.Errorf("%+v is a %q with the flags %q and the keys %+v", grant, l.set.kind.name, l.set.kind.flags, l.keys)
		}
	}
}
