package voting

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/schedule"
)

// bid is one call's attempt to acquire a lock of a quorum, round by round.
type bid struct {
	q     *Quorum
	l     *mutex
	terms // for the next round

	// Of the latest round.
	said  bool // a majority of the nodes said who has the lock, or granted it
	ahead int  // how many contenders are ahead
}

// The pauses between rounds. shortPause is the first. longPause is the longest while a majority names a holder; briskPause is the longest
// for the next in line, and while nobody holds the lock. Each pause varies by up to half.
const (
	shortPause = 5 * time.Millisecond
	briskPause = 50 * time.Millisecond
	longPause  = 200 * time.Millisecond
)

// acquire acquires the lock, and waits while others have it.
func (q *Quorum) acquire(ctx context.Context, l *mutex, end time.Time) (engine.Lease, error) {
	key := l.key()
	switch err := q.take(ctx, key, end, func() { l.first().Waits(ctx, 0, nil) }); err {
	case nil:
	case engine.ErrTimeUp:
		return nil, err
	default: // ctx's
		return nil, engine.EndedWhileHeld(ctx, &lock.HeldError{Name: l.name})
	}
	lease, err := q.contend(ctx, l, true, end)
	if err != nil {
		q.pass(key)
		return nil, err
	}
	lease.pass = sync.OnceFunc(func() { q.pass(key) })
	lease.WhenOver(func(err error) {
		if err != lock.ErrReleased {
			lease.pass()
		}
	})
	return lease, nil
}

// contend acquires the lock round by round. A caller that waits goes on until ctx ends or limit passes. A caller that does not goes on
// until a majority of nodes names a holder, or RetryTimeout has passed. While no majority answers, both try for RetryTimeout.
//
// When no contender gets a majority, all give back what they got. From then on they have tickets, which nodes remember. A node grants the
// lock only to the earliest ticket it knows, so the lock goes to that contender once all nodes know its ticket.
func (q *Quorum) contend(ctx context.Context, l *mutex, waits bool, limit time.Time) (*lease, error) {
	b := &bid{q: q, l: l, terms: terms{timeout: q.timeout(l)}}
	defer b.withdraw()
	end := time.Now().Add(l.c.Config.RetryTimeout)
	var why *Error // of the latest rounds, if no majority answered or quarantines keep a majority from granting
	var last error // of the latest round
	for pause := shortPause; ; pause *= 2 {
		lease, err := b.try(ctx)
		if lease != nil {
			return lease, nil
		}
		held := errors.Is(err, lock.ErrHeld)
		if ctx.Err() != nil && !(held && engine.IsOver(limit)) {
			return nil, endedBy(ctx, why, last)
		}
		last = err
		resting := q.quarantined(err)
		answered := held || b.said || resting
		if why = nil; !answered || resting {
			errors.As(err, &why)
		}
		if answered && waits {
			end = time.Now().Add(l.c.Config.RetryTimeout)
		} else if !answered && why != nil {
			b.timeout = q.longer(l, b.timeout)
		}
		if !held && !q.curable(err) || answered && !b.said && !waits || held && !waits || engine.IsOver(limit) || time.Now().After(end) {
			return nil, err
		}
		if waits && resting {
			for _, n := range why.Nodes {
				if i := slices.IndexFunc(q.clients, func(c *engine.Client) bool { return c.Server.Addr() == n.Server }); errors.Is(n.Err, exec.ErrQuarantine) {
					q.clients[i].WarnOfQuarantine(n.Err.Error())
				}
			}
		}
		if waits && answered {
			l.first().Waits(ctx, b.ahead, err)
		}
		if b.said && b.ticket == nil {
			b.ticket = &ticket{place: q.newTicket(), carriers: make([]sync.WaitGroup, len(q.clients))}
		}
		longest := longPause
		if b.said && (!held || b.ahead == 0) {
			longest = briskPause
		}
		pause = min(pause, longest)
		rest := schedule.Jitter(pause, 50)
		if !limit.IsZero() {
			rest = min(rest, time.Until(limit))
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
			return nil, endedBy(ctx, why, last)
		}
	}
}

// try acquires the lock if a majority grants it in one round, or in a second one after repair has told nodes the others' fences.
func (b *bid) try(ctx context.Context) (*lease, error) {
	q := b.q
	b.said = false
	if err := q.ready(ctx, b.l); err != nil {
		return nil, err
	}
	lease, votes, err := b.round(ctx)
	b.note(votes)
	behind := marks{}
	for _, v := range votes {
		if v.behind != "" {
			behind[v.node] = v.behind
		}
	}
	switch {
	case len(behind) == 0:
	case err == nil:
		if q.repairing.CompareAndSwap(false, true) { // another bid may have met the same nodes
			b.l.c.Tasks.Run(func() {
				defer q.repairing.Store(false)
				_ = q.repair(context.Background(), b.l, behind)
			})
		}
	case !errors.Is(err, lock.ErrHeld):
		if err = q.repair(ctx, b.l, behind); err == nil {
			lease, votes, err = b.round(ctx)
			b.note(votes)
		}
	}
	if lease == nil && ctx.Err() != nil {
		return nil, ctx.Err() // errors of nodes that did not answer in time add nothing
	}
	return lease, err
}

// note notes what the nodes said about the lock.
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

// ticket is a contender's place among those who wait for a lock.
type ticket struct {
	place    codec.Ticket
	carriers []sync.WaitGroup // by node, the votes that may still bring the ticket there
}

// holdersTicket is the ticket of a process that already holds the lock on a majority of nodes.
var holdersTicket = ticket{place: codec.FirstTicket}

// terms say how nodes are asked in one round.
type terms struct {
	ticket  *ticket       // nil in the first rounds
	timeout time.Duration // how long to wait for a node
}

// shown returns what a node is told: the ticket's place, and how long to keep it.
func (t *terms) shown() (place codec.Ticket, keep time.Duration) {
	if t.ticket == nil {
		return codec.NoTicket, 0
	}
	return t.ticket.place, ticketTime + min(t.timeout, ticketTime)
}

// ticketTime is how long nodes remember a bid's place after its latest round. The time that the bid waits for a node, but at most
// ticketTime, is added. ticketTime is several times the longest pause between rounds.
const ticketTime = time.Second

// newTicket returns a ticket for the present time, by the median of the nodes' clocks. The clocks of processes may differ by more, and a
// process whose clock is slow would always come first.
func (q *Quorum) newTicket() codec.Ticket {
	var clocks []int64
	for _, c := range q.clients {
		if c.Server.Info() != nil {
			clocks = append(clocks, c.Server.Time(0))
		}
	}
	slices.Sort(clocks)
	now := int64(0)
	if len(clocks) > 0 {
		now = clocks[len(clocks)/2]
	}
	// All tickets have the same length and only digits, so that all nodes order them alike.
	return codec.Ticket(fmt.Sprintf("%016d%012d", now, rand.Int64N(1e12)))
}

// withdraw removes the bid's ticket from each node, once no vote can bring it there any more. A vote whose answer the bid did not await may
// arrive after later requests; once the vote has been given back, the node refuses it.
func (b *bid) withdraw() {
	if b.ticket == nil {
		return
	}
	for i, c := range b.q.clients {
		c.Tasks.Run(func() {
			b.ticket.carriers[i].Wait()
			// A node that cannot be reached forgets the ticket after a second or two.
			p := b.l.parts[i]
			_, _, _ = askNode(context.Background(), b.l, i, b.timeout, exec.OpRelease,
				&codec.Release{Lock: p.NodeRef(), Token: p.Attempt(engine.NewRound()).Token(), Member: b.ticket.place.Member()})
		})
	}
}

// take waits until it is the caller's turn to contend for a lock: one goroutine of this process does so at a time, in the order in which
// they come. If it has to wait, it calls onWait first.
func (q *Quorum) take(ctx context.Context, key string, end time.Time, onWait func()) error {
	q.mu.Lock()
	waiting, isTaken := q.turns[key]
	if !isTaken {
		q.turns[key] = nil
		q.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	q.turns[key] = append(waiting, turn)
	q.mu.Unlock()
	onWait()
	limit, stop := engine.TimeUp(end)
	defer stop()
	err := engine.ErrTimeUp
	select {
	case <-turn:
		return nil
	case <-limit:
	case <-ctx.Done():
		if !engine.IsOver(end) {
			err = ctx.Err()
		}
	}
	q.mu.Lock()
	i := slices.Index(q.turns[key], turn)
	if i >= 0 {
		q.turns[key] = slices.Delete(q.turns[key], i, i+1)
	}
	q.mu.Unlock()
	if i < 0 { // its turn has come just now
		q.pass(key)
	}
	return err
}

// pass ends the caller's turn.
func (q *Quorum) pass(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := q.turns[key]
	if len(waiting) == 0 {
		delete(q.turns, key)
		return
	}
	q.turns[key] = waiting[1:]
	close(waiting[0])
}
