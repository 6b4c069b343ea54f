package engine

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// granted returns a hold with this fence that has not begun.
func granted(l *Target, fence uint64) *hold {
	now := clock.Now()
	h := newHold(l.newAttempt(), now, 0, l.Set.TTL, fence, 1)
	h.renewAt(now)
	h.queue = &waitQueue{l: l}
	return h
}

// fakeMutex returns a mutex on a fake server, and its client.
func fakeMutex(t *testing.T) (*Target, *Client) {
	c := open(t, &fake{holders: map[string]string{}}, nil)
	l := c.Mutex("a")
	must(t, l.Ready(t.Context()))
	return l, c
}

// If the TTL is short and the process slow, or if the server has lost its data, a process can be granted a lock a second time
// before it knows that the first grant is lost. The first lease is lost then.
func TestAHoldThatIsReplaced(t *testing.T) {
	l, c := fakeMutex(t)
	first := l.keep(granted(l, 1))
	lease := l.keep(granted(l, 2))
	if !errors.Is(first.Err(), lock.ErrLost) {
		t.Errorf("the first lease: %v", first.Err())
	}
	equal(t, "the end of the second lease", lease.Err(), nil)
	if _, _, err := lease.giveUp(true, hasLeft); err != nil {
		t.Error(err)
	}
	_ = lease.gaveBack(codec.Reply{Head: codec.Head{Word: codec.Released}}, false, nil)
	if err := c.Close(t.Context()); err != nil { // which waits for both
		t.Error(err)
	}
}

// While the reply to a grant is on its way, an operator can delete the lock, and the process can be granted it again. Both
// leases are lost.
func TestAGrantIsAnsweredAfterALaterOne(t *testing.T) {
	l, c := fakeMutex(t)
	later := l.keep(granted(l, 2))
	earlier := l.keep(granted(l, 1))
	for name, lease := range map[string]*holdLease{"later": later, "earlier": earlier} {
		var lost *lock.LostError
		if err := lease.Err(); !errors.As(err, &lost) || lost.Reason != lock.LossTaken {
			t.Errorf("the lease of the %s grant: %v", name, err)
		}
	}
	wantErr(t, "Close", c.Close(t.Context()), nil)
}
