package voting

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// ballot is one round of votes. A vote by a node's own commands needs no goroutine: whichever goroutine reads the answer counts the vote.
type ballot struct {
	q     *Quorum
	l     *mutex
	round string
	terms
	begun time.Time
	timer *time.Timer   // the node timeout; once a majority has granted, the grace for the others
	news  chan struct{} // has an item when there may be enough votes

	free []vote // by nodes' own commands; not changed once all nodes have been asked

	mu      sync.Mutex
	votes   []vote
	open    int  // missing votes
	granted int  // votes that granted
	said    int  // votes that granted, or said that others have or want the lock
	inGrace bool // the timer measures the grace
	over    bool // the grace has ended, or nobody waits for a majority any more
}

// poll asks all nodes for the lock.
func (b *bid) poll(ctx context.Context) *ballot {
	q, l := b.q, b.l
	n := len(q.clients)
	p := &ballot{
		q: q, l: l, round: engine.NewRound(), terms: b.terms, begun: time.Now(), timer: time.NewTimer(b.timeout), news: make(chan struct{}, 1),
		votes: make([]vote, 0, n), open: n,
	}
	for i := range q.clients {
		p.ask(ctx, i)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.inGrace { // asking may have taken long, if the process was stopped
		p.timer.Reset(p.timeout)
	}
	return p
}

// ask asks one node for its vote.
func (p *ballot) ask(ctx context.Context, i int) {
	v := p.q.newVote(p.l, i, p.round)
	if v.err != nil {
		p.count(v)
		return
	}
	if p.q.askFree(ctx, p.l, v, p.terms, p.count) {
		p.free = append(p.free, v)
		return
	}
	over := func() {}
	if p.ticket != nil {
		p.ticket.carriers[v.node].Add(1)
		over = p.ticket.carriers[v.node].Done
	}
	p.q.clients[v.node].Tasks.Run(func() {
		v := p.q.askByScript(ctx, p.l, v, p.terms)
		// mutants: ticket-overtaken
		if v.unsettled {
			v.a.WhenSettled(over)
		} else {
			over()
		}
		p.count(v)
	})
}

// count adds a vote.
func (p *ballot) count(v vote) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	p.votes = append(p.votes, v)
	if v.a.IsGranted() {
		p.granted++
	}
	if v.said {
		p.said++
	}
	if v.a.IsGranted() && p.granted == p.q.need && !p.over {
		p.inGrace = true
		p.timer.Reset(p.l.first().Set.SlowNodeGrace(p.begun))
	}
	if p.isEnough() {
		select {
		case p.news <- struct{}{}:
		default:
		}
	}
}

// enough reports whether the outcome of the round is clear.
func (p *ballot) enough() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isEnough()
}

// isEnough is enough for callers that hold p.mu. Once a majority has granted, the other nodes have as long again to answer. Once no
// majority is possible, the round ends when the reason is known: a majority names the same holder, has answered without naming one, or does
// not answer.
func (p *ballot) isEnough() bool {
	need := p.q.need
	if p.over || p.open == 0 {
		return true
	}
	if p.granted+p.open >= need {
		return false
	}
	_, most := foremost(p.votes)
	return most >= need || p.said >= need && most+p.open < need || p.said+p.open < need
}

// wait waits for news. It returns false if ctx has ended.
func (p *ballot) wait(ctx context.Context) bool {
	select {
	case <-p.news:
		return true
	case <-p.timer.C:
		p.mu.Lock()
		p.over = p.inGrace
		late := !p.over
		p.mu.Unlock()
		if late {
			p.leave()
		}
		return true
	case <-ctx.Done():
		return false
	}
}

// leave gives up the votes by nodes' own commands that are still missing.
func (p *ballot) leave() {
	for _, v := range p.free {
		if left, err := v.a.Leave(); left {
			p.count(p.q.unanswered(p.l, v, err, 0))
		}
	}
}

// end ends the round. It returns the votes so far, and how many are missing.
func (p *ballot) end() ([]vote, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	if p.open == 0 {
		p.timer.Stop()
	}
	return slices.Clip(p.votes), p.open
}

// await waits for the missing votes, and returns all votes but the first n.
func (p *ballot) await(n int) []vote {
	p.timer.Reset(time.Until(p.begun.Add(p.timeout)))
	defer p.timer.Stop()
	for {
		p.mu.Lock()
		votes, open := p.votes[n:], p.open
		p.mu.Unlock()
		if open == 0 {
			return votes
		}
		select {
		case <-p.news:
		case <-p.timer.C: // votes by script end on their own
			// mutants: vote-late
			p.leave()
		}
	}
}
