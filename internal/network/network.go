// Package network is a network between clients and a server that does to what they send what networks do: it delays it,
// holds it back, loses it, and breaks connections. It is for tests.
package network

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Network carries connections. Its zero value only copies.
type Network struct {
	requestDelay atomic.Int64 // nanoseconds
	replyDelay   atomic.Int64
	swallow      atomic.Bool

	part Gate

	mu     sync.Mutex
	links  map[*Link]struct{}
	closed bool
}

// DelayRequests makes requests that are sent from now on reach the server after d; zero ends that. As in a network, a
// delayed request still arrives if its client has gone; only Cut loses it.
func (n *Network) DelayRequests(d time.Duration) { n.requestDelay.Store(int64(d)) }

// DelayReplies makes replies that are sent from now on reach the client after d; zero ends that.
func (n *Network) DelayReplies(d time.Duration) { n.replyDelay.Store(int64(d)) }

// SwallowReplies discards, while on, everything that the server sends. A connection that has lost a reply receives no later ones
// either, since TCP delivers nothing after a gap.
func (n *Network) SwallowReplies(on bool) { n.swallow.Store(on) }

// Partition holds everything back, in both directions, until heal. Then what was sent meanwhile arrives, as it does over
// TCP, unless the one that it was for has gone.
func (n *Network) Partition() (heal func()) { return n.part.Shut() }

// Wait waits while there is a partition, or until ctx ends, whose error it returns then.
func (n *Network) Wait(ctx context.Context) error {
	if !n.part.Pass(ctx.Done()) {
		return ctx.Err()
	}
	return nil
}

// Cut cuts all connections. Whatever is on its way is lost.
func (n *Network) Cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for l := range n.links {
		l.Cut()
	}
}

// Close cuts all connections, also those that are still to come.
func (n *Network) Close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.Cut()
}

// add notes a link.
func (n *Network) add(l *Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.links == nil {
		n.links = map[*Link]struct{}{}
	}
	n.links[l] = struct{}{}
	if n.closed {
		l.Cut()
	}
}

func (n *Network) remove(l *Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.links, l)
}
