// Package sentinel finds the master by asking all sentinels at once. A sentinel that hangs or has missed a failover
// cannot hide what the others say.
package sentinel

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// Timeout is how long Master waits for the sentinels. After a majority has answered, it waits only for grace.
const (
	Timeout = 500 * time.Millisecond
	grace   = 100 * time.Millisecond
)

// minConfigured is the least number of sentinels of which a majority is left if one fails. If fewer are configured,
// they are asked for others.
const minConfigured = 3

// Group is the group of sentinels that watch one master.
type Group struct {
	name     string                                                            // the master's
	to       func(addr string) resp.Sender                                     // what sends commands to the sentinel at an address
	askOne   func(ctx context.Context, m *member, others bool) (Answer, error) // Group.ask
	discover bool                                                              // fewer than minConfigured sentinels are configured

	mu      sync.Mutex
	members []*member
}

// New returns the group of the sentinels at these addresses that watch the master of that name. to returns what sends commands to a
// sentinel.
func New(master string, sentinels []string, to func(addr string) resp.Sender) *Group {
	g := &Group{name: master, to: to, discover: len(sentinels) < minConfigured}
	g.askOne = g.ask
	for _, addr := range sentinels {
		g.members = append(g.members, &member{addr: addr, configured: true})
	}
	return g
}

// reply is one sentinel's reply.
type reply struct {
	from *member
	Answer
	err error
}

// Master asks the sentinels, and returns the address of the master that a majority of them names. If there is no majority, the sentinel with
// the latest configuration decides, of those that answer. A sentinel that has not answered an earlier call yet is not asked again.
func (g *Group) Master(ctx context.Context) (string, error) {
	replies, asked, size := g.begin()
	timer := time.NewTimer(Timeout)
	defer timer.Stop()
	var got, failed []reply
	for len(got)+len(failed) < asked {
		select {
		case r := <-replies:
			if r.err != nil {
				failed = append(failed, r)
				continue
			}
			got = append(got, r)
			if len(got) == size/2+1 {
				timer.Reset(grace)
			}
			continue
		case <-timer.C:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		break
	}
	if len(got) == 0 {
		return "", &noMaster{failed, len(failed) < size}
	}
	return elect(got, size), nil
}

// begin asks all sentinels that are not being asked already. It returns how many those are, and the size of the group.
func (g *Group) begin() (replies chan reply, asked, size int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	replies = make(chan reply, len(g.members))
	for _, m := range g.members {
		if m.asking {
			continue
		}
		m.asking = true
		asked++
		go func() {
			// Longer than the round, so that a sentinel that is slow to connect to can answer in the next one.
			ctx, cancel := context.WithTimeout(context.Background(), 4*Timeout)
			defer cancel()
			answer, err := g.askOne(ctx, m, g.discover)
			g.mu.Lock()
			m.asking, m.mistake = false, ""
			if IsMistake(err) {
				m.mistake = err.Error()
			}
			if err == nil && g.discover {
				g.add(m, answer.Others)
			}
			g.mu.Unlock()
			replies <- reply{m, answer, err}
		}()
	}
	return replies, asked, len(g.members)
}

// add adds the sentinels that a configured one names. The caller holds mu.
func (g *Group) add(from *member, others []string) {
	if !from.configured {
		return
	}
	for _, addr := range others {
		known := func(m *member) bool { return m.addr == addr }
		if len(g.members) < maxMembers && !slices.ContainsFunc(g.members, known) {
			g.members = append(g.members, &member{addr: addr})
		}
	}
}

// maxMembers bounds the size of a group.
const maxMembers = 9

// elect returns the master named by a majority of a group of that size or, failing that, by the latest configuration.
func elect(got []reply, size int) string {
	votes, epochs := map[string]int{}, map[string]int64{}
	for _, r := range got {
		votes[r.Addr]++
		epochs[r.Addr] = max(epochs[r.Addr], r.Epoch)
	}
	best := slices.MaxFunc(got, func(a, b reply) int {
		majority := func(r reply) int { return min(votes[r.Addr]/(size/2+1), 1) }
		return cmp.Or(
			cmp.Compare(majority(a), majority(b)),
			cmp.Compare(epochs[a.Addr], epochs[b.Addr]),
			cmp.Compare(votes[a.Addr], votes[b.Addr]),
			cmp.Compare(b.Addr, a.Addr))
	})
	return best.Addr
}
