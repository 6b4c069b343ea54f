package engine

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
)

// A process can be granted a lock again before its first grant has become a lease: if the TTL is short and the process slow,
// or if the server has lost its data. Then the first lease is lost.
func TestAHoldThatIsReplacedBeforeItBegins(t *testing.T) {
	server := &fake{holders: map[string]string{}}
	c, err := New(server, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := c.Mutex("a")
	if err := l.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	granted := func() *hold {
		now := clock.Now()
		h := newHold(l.newAttempt(), now, now, l.set.ttl, 1, 1)
		h.renewAt(now)
		l.noteUnqueued(h)
		return h
	}
	first := granted()
	second := granted()
	if lease := first.firstLease(); !errors.Is(lease.Err(), ErrLost) {
		t.Errorf("the first lease: %v", lease.Err())
	}
	lease := second.firstLease()
	if lease.Err() != nil {
		t.Errorf("the second lease: %v", lease.Err())
	}
	if _, _, err := lease.giveUp(true, hasLeft); err != nil {
		t.Error(err)
	}
	_ = lease.gaveBack(codec.ReleaseReply{Head: codec.Head{Word: codec.Released}}, false, nil)
	if err := c.Close(t.Context()); err != nil { // which waits for both
		t.Error(err)
	}
}
