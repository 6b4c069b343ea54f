package exec

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// Anchor ties a server's clock to ours.
type Anchor struct {
	Sent   clock.Instant // when a request was sent
	Server int64         // the time in its reply, µs
}

// serverClocks are the clocks of the servers of a client, by Cluster slot. Outside Cluster mode there is only
// that of slot 0.
type serverClocks struct {
	mu      sync.Mutex
	anchors map[uint16]Anchor
}

// Time returns what the clock of the server that has a slot shows now, in µs. It is late by at most a round trip, and
// early by as long as this machine was suspended since the latest answer. If no server has answered yet, it returns 0.
func (s *Server) Time(slot uint16) int64 {
	s.clocks.mu.Lock()
	anchor, ok := s.clocks.anchors[slot]
	if !ok {
		anchor, ok = s.clocks.anchors[0]
	}
	s.clocks.mu.Unlock()
	if !ok {
		return 0
	}
	return anchor.Server + clock.Mono().Sub(anchor.Sent.Mono).Microseconds()
}

// heard notes the time in the answer to a request that was sent then, unless a later request was answered before.
func (c *serverClocks) heard(slot uint16, sent clock.Instant, server int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.anchors[slot]; !ok || sent.Mono > old.Sent.Mono {
		c.anchors[slot] = Anchor{sent, server}
	}
}

// RoundTrip is a running mean of how long the server takes to answer.
type RoundTrip struct{ ns atomic.Int64 }

func (r *RoundTrip) observe(d time.Duration) {
	old := r.ns.Load()
	if old == 0 {
		r.ns.Store(int64(d))
		return
	}
	r.ns.Store(old + (int64(d)-old)/8)
}

// Mean returns the mean, or 0 before the first answer.
func (r *RoundTrip) Mean() time.Duration { return time.Duration(r.ns.Load()) }
