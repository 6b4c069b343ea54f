package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
)

// bid is what one call does to get a lock of a quorum, round by round.
type bid struct {
	q     *Quorum
	l     *quorumLock
	onEnd func() // called when its lease is over; or nil
	terms        // of the next round

	// Of the latest round:
	said  bool // a majority of the nodes did, of the lock
	ahead int  // how many wait before it
}

// terms are those on which nodes are asked in one round.
type terms struct {
	ticket  *ticket       // nil at first
	timeout time.Duration // how long a node is waited for
}

// ticket is the place among those who wait for a lock.
type ticket struct {
	place    codec.Ticket
	carriers []sync.WaitGroup // by node, the votes under way that bring it there
}

// holdersTicket is that of who holds the lock already, on a majority of other nodes.
var holdersTicket = ticket{place: codec.FirstTicket}

// shown is what a node is shown: the ticket, and for how long to keep it.
func (t *terms) shown() (place codec.Ticket, keep time.Duration) {
	if t.ticket == nil {
		return codec.NoTicket, 0
	}
	return t.ticket.place, ticketTime + min(t.timeout, ticketTime)
}

// ticketTime is for how long after its latest round a bid keeps its place, and as long as it waits for a node, but
// at most twice that: several times the longest pause between rounds.
const ticketTime = time.Second

// The pauses between rounds: the first, and the longest while a majority names a holder; of who is the next, or
// while nobody holds the lock, no longer than brisk. Each is up to a half longer or shorter.
const (
	shortPause = 5 * time.Millisecond
	briskPause = 50 * time.Millisecond
	longPause  = 200 * time.Millisecond
)

// contend takes the lock: round by round until ctx ends, or limit has come, if it waits. Otherwise until a majority of nodes
// names another holder, or RetryTimeout is over. Without a majority that answers, both try for RetryTimeout.
//
// Of contenders none of whom gets a majority all give back what they got. From then on they have tickets, which
// nodes remember, and a node grants the lock only to the earliest that it knows: once all know that one, it has it.
func (q *Quorum) contend(ctx context.Context, l *quorumLock, waits bool, limit time.Time, onEnd func()) (*multiLease, error) {
	b := &bid{q: q, l: l, onEnd: onEnd, terms: terms{timeout: q.timeout(l)}}
	end := time.Now().Add(l.c.cfg.RetryTimeout)
	var unheard *QuorumError // of the latest rounds, if no majority answered
	for pause := shortPause; ; pause *= 2 {
		lease, err := b.try(ctx)
		if lease != nil {
			b.withdraw()
			return lease, nil
		}
		held := errors.Is(err, ErrHeld)
		if ctx.Err() != nil && !(held && isOver(limit)) {
			b.withdraw()
			return nil, unheard.endedBy(ctx)
		}
		answered := held || b.said || q.quarantined(err)
		if answered {
			unheard = nil
			if waits {
				end = time.Now().Add(l.c.cfg.RetryTimeout)
			}
		} else if errors.As(err, &unheard) {
			b.timeout = q.longer(l, b.timeout)
		}
		if !held && !q.curable(err) || answered && !b.said && !waits || held && !waits || isOver(limit) || time.Now().After(end) {
			b.withdraw()
			return nil, err
		}
		if b.said && b.ticket == nil {
			b.ticket = &ticket{place: q.newTicket(), carriers: make([]sync.WaitGroup, len(q.clients))}
		}
		longest := longPause
		if b.said && (!held || b.ahead == 0) {
			longest = briskPause
		}
		pause = min(pause, longest)
		rest := jitter(pause, 50)
		if !limit.IsZero() {
			rest = min(rest, time.Until(limit))
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
			b.withdraw()
			return nil, unheard.endedBy(ctx)
		}
	}
}

// timeout is how long a node is waited for at first: as NodeTimeout says, or several times as long as the slowest node
// takes to answer, so that there is time for a new connection, and for a script that the node does not know.
func (q *Quorum) timeout(l *quorumLock) time.Duration {
	base := l.set.wait()
	if l.set.nodeTimeout > 0 {
		return base
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	slowest := time.Duration(0)
	for i := range q.nodes {
		slowest = max(slowest, q.nodes[i].trip)
	}
	return max(base, min(6*slowest, longestTimeout(l)))
}

// longer is how long a node is waited for after a round for which that was too short.
func (q *Quorum) longer(l *quorumLock, timeout time.Duration) time.Duration {
	if l.set.nodeTimeout > 0 {
		return timeout
	}
	return max(timeout, min(2*timeout, longestTimeout(l)))
}

// longestTimeout bounds how long a node is waited for without a NodeTimeout.
func longestTimeout(l *quorumLock) time.Duration { return min(l.set.ttl/4, l.c.cfg.CommandTimeout) }

// observe notes how long a node took to answer. What is far longer than before is most likely no round trip.
func (q *Quorum) observe(i int, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := &q.nodes[i]
	if n.trip == 0 {
		n.trip = d
		return
	}
	n.trip += (min(d, 4*n.trip) - n.trip) / 4
}

// newTicket returns a ticket of now, by the median of the nodes' clocks: those of processes may differ by more,
// and whoever's is slow would always come first.
func (q *Quorum) newTicket() codec.Ticket {
	var clocks []int64
	for _, c := range q.clients {
		if c.server.Info() != nil {
			clocks = append(clocks, c.server.Time(0))
		}
	}
	slices.Sort(clocks)
	now := int64(0)
	if len(clocks) > 0 {
		now = clocks[len(clocks)/2]
	}
	// Of the same length, and digits only, so that all nodes order them in the same way.
	return codec.Ticket(fmt.Sprintf("%016d%012d", now, rand.Int64N(1e12)))
}

// withdraw takes the bid's ticket back.
func (b *bid) withdraw() {
	if b.ticket == nil {
		return
	}
	for i, c := range b.q.clients {
		p := b.l.parts[i]
		c.tasks.Run(func() {
			b.ticket.carriers[i].Wait()
			// A node that is not reached keeps it for a second or two.
			_, _ = askNode(context.Background(), b.q, i, b.timeout, request{op: exec.OpRelease, lock: p},
				&codec.Release{Lock: p.nodeRef(), Token: p.newAttempt().token(), Member: b.ticket.place.Member()})
		})
	}
}

// try takes the lock if a majority of nodes gives it, in a round; in two, if nodes had to be told the fences of the
// others before.
func (b *bid) try(ctx context.Context) (*multiLease, error) {
	q := b.q
	b.said = false
	if err := q.ready(ctx, b.l); err != nil {
		return nil, err
	}
	lease, votes, err := b.round(ctx)
	b.note(votes)
	var behind []vote
	for _, v := range votes {
		if v.behind != "" {
			behind = append(behind, v)
		}
	}
	switch {
	case len(behind) == 0:
	case err == nil:
		if q.repairing.CompareAndSwap(false, true) { // many may have met the same nodes
			q.clients[behind[0].node].tasks.Run(func() {
				defer q.repairing.Store(false)
				_ = q.repair(context.Background(), b.l, behind)
			})
		}
	case !errors.Is(err, ErrHeld):
		if err = q.repair(ctx, b.l, behind); err == nil {
			lease, votes, err = b.round(ctx)
			b.note(votes)
		}
	}
	if lease == nil && ctx.Err() != nil {
		return nil, ctx.Err() // of which nodes that did not answer say nothing
	}
	return lease, err
}

// look notes what the nodes said of the lock.
func (b *bid) note(votes []vote) {
	n := 0
	b.ahead = 0
	for _, v := range votes {
		if v.said {
			n++
			b.ahead = max(b.ahead, v.ahead)
		}
	}
	b.said = n >= b.q.need
}
