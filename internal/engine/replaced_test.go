package engine

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/internal/clock"
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
