// Package sentinel finds out which server is the master, by asking all sentinels at once. One that
// hangs, or has not heard of a failover, does not keep the others from being heard.
package sentinel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Answer is what a sentinel says of a master.
type Answer struct {
	Addr   string
	Epoch  int64    // of its configuration; 0 if it does not say
	Others []string // addresses of other sentinels, if they were asked for
}

// Ask asks the sentinel of an address. It may go on when ctx has ended.
type Ask func(ctx context.Context, sentinel string, others bool) (Answer, error)

// Patience is how long sentinels are waited for, grace how long when a majority has answered already.
const (
	Patience = 500 * time.Millisecond
	grace    = 100 * time.Millisecond
)

// few are the sentinels of which no majority is left when one is bad: they are asked for others.
const few = 3

// Group is the sentinels that watch a master.
type Group struct {
	ask Ask

	mu      sync.Mutex
	members []*member
	lacking bool   // fewer than few were named to us
	round   *round // under way, or nil
}

// round is one time that all are asked, for all who want to know.
type round struct {
	done chan struct{} // closed when it is known what came of it
	addr string
	err  error
}

type member struct {
	addr  string
	named bool // to us, and not by another
	busy  bool // being asked. Guarded by Group.mu
}

// New returns a group of sentinels.
func New(sentinels []string, ask Ask) *Group {
	g := &Group{ask: ask, lacking: len(sentinels) < few}
	for _, addr := range sentinels {
		g.members = append(g.members, &member{addr: addr, named: true})
	}
	return g
}

// reply is what came of asking one.
type reply struct {
	of *member
	Answer
	err error
}

// Master returns the address of the master that most sentinels name. Where no majority of them does, of those that
// answer, it is what the one with the latest configuration names.
func (g *Group) Master(ctx context.Context) (string, error) {
	g.mu.Lock()
	r := g.round
	if r == nil {
		r = &round{done: make(chan struct{})}
		g.round = r
		go func() {
			r.addr, r.err = g.master()
			g.mu.Lock()
			g.round = nil
			g.mu.Unlock()
			close(r.done)
		}()
	}
	g.mu.Unlock()
	select {
	case <-r.done:
		return r.addr, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (g *Group) master() (string, error) {
	replies, asked, all := g.begin()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	var got []reply
	var failed []error
	for len(got)+len(failed) < asked {
		select {
		case r := <-replies:
			if r.err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", r.of.addr, r.err))
				continue
			}
			got = append(got, r)
			if len(got) == all/2+1 {
				timer.Reset(grace)
			}
			continue
		case <-timer.C:
			failed = append(failed, errSilent)
		}
		break
	}
	if len(got) == 0 {
		return "", fmt.Errorf("no sentinel names the master: %w", cmp.Or(errors.Join(failed...), errSilent))
	}
	return elect(got, all), nil
}

var errSilent = fmt.Errorf("not all answer within %s", Patience)

// begin asks all that are not being asked already. It returns how many those are, and how many there are.
func (g *Group) begin() (replies chan reply, asked, all int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	replies = make(chan reply, len(g.members))
	for _, m := range g.members {
		if m.busy {
			continue
		}
		m.busy = true
		asked++
		go func() {
			// Longer than it is waited for: who is slow is connected to by the next time.
			ctx, cancel := context.WithTimeout(context.Background(), 4*Patience)
			defer cancel()
			answer, err := g.ask(ctx, m.addr, g.lacking)
			g.mu.Lock()
			m.busy = false
			if err == nil && g.lacking {
				g.learn(m, answer.Others)
			}
			g.mu.Unlock()
			replies <- reply{m, answer, err}
		}()
	}
	return replies, asked, len(g.members)
}

// learn adds sentinels that another names. Only those that were named to us are believed in this.
// Called under the lock.
func (g *Group) learn(from *member, others []string) {
	if !from.named {
		return
	}
	for _, addr := range others {
		known := func(m *member) bool { return m.addr == addr }
		if len(g.members) < maxMembers && !slices.ContainsFunc(g.members, known) {
			g.members = append(g.members, &member{addr: addr})
		}
	}
}

// maxMembers bounds how many sentinels are asked.
const maxMembers = 9

// elect chooses among what sentinels name.
func elect(got []reply, all int) string {
	votes, epochs := map[string]int{}, map[string]int64{}
	for _, r := range got {
		votes[r.Addr]++
		epochs[r.Addr] = max(epochs[r.Addr], r.Epoch)
	}
	best := slices.MaxFunc(got, func(a, b reply) int {
		major := func(r reply) int { return min(votes[r.Addr]/(all/2+1), 1) }
		return cmp.Or(
			cmp.Compare(major(a), major(b)),
			cmp.Compare(epochs[a.Addr], epochs[b.Addr]),
			cmp.Compare(votes[a.Addr], votes[b.Addr]),
			cmp.Compare(b.Addr, a.Addr))
	})
	return best.Addr
}
