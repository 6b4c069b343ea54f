package voting

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/exec"
)

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
