package engine

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
)

// grantedPast returns a hold that the server has granted past the wait queue, with this fence.
func grantedPast(l *target, fence uint64) *hold {
	now := clock.Now()
	h := newHold(l.newAttempt(), now, now, l.set.ttl, fence, 1)
	h.renewAt(now)
	l.noteUnqueued(h)
	return h
}

// mutexOfAFake returns a mutex on a server that answers nothing, and its client.
func mutexOfAFake(t *testing.T) (*target, *Client) {
	c, err := New(&fake{holders: map[string]string{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := c.Mutex("a")
	if err := l.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l, c
}

// A process can be granted a lock again before its first grant has become a lease: if the TTL is short and the process slow,
// or if the server has lost its data. Then the first lease is lost.
func TestAHoldThatIsReplacedBeforeItBegins(t *testing.T) {
	l, c := mutexOfAFake(t)
	first := grantedPast(l, 1)
	second := grantedPast(l, 2)
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

// The reply to a grant can be so late that the lock has been deleted, and granted to the process again. Neither lease is
// believed: the later grant is given back, and the earlier one is none.
func TestAGrantThatIsHeardOfAfterALaterOne(t *testing.T) {
	for way, take := range map[string]func(l *target, h *hold) *holdLease{
		"past the queue": func(l *target, h *hold) *holdLease { l.noteUnqueued(h); return h.firstLease() },
		"by the queue": func(l *target, h *hold) *holdLease {
			wq := l.queue()
			wq.mu.Lock()
			defer wq.mu.Unlock()
			return wq.keep(h)
		},
	} {
		t.Run(way, func(t *testing.T) {
			l, c := mutexOfAFake(t)
			later := grantedPast(l, 2).firstLease()
			now := clock.Now()
			h := newHold(l.newAttempt(), now, now, l.set.ttl, 1, 1)
			h.renewAt(now)
			earlier := take(l, h)
			for name, lease := range map[string]*holdLease{"later": later, "earlier": earlier} {
				var lost *LostError
				if err := lease.Err(); !errors.As(err, &lost) || lost.Reason != LossTaken {
					t.Errorf("the lease of the %s grant: %v", name, err)
				}
			}
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
