package compatibility

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/tests/compatibility/hf1"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// nodes are the servers of a quorum.
type nodes []site

func (n nodes) library(tb testing.TB) (processes []*process) {
	tb.Helper()
	for _, s := range n {
		processes = append(processes, library(tb, s))
	}
	return processes
}

func (n nodes) recorded(tb testing.TB) (clients []*hf1.Client) {
	tb.Helper()
	for _, s := range n {
		clients = append(clients, recorded(tb, s, hf1.Options{Node: true}))
	}
	return clients
}

// round returns attempts at the lock with that name at all nodes, whose tokens have one beginning.
func round(clients []*hf1.Client, name string) (votes []*hf1.Attempt) {
	begin := hf1.NewToken()[:18]
	for _, c := range clients {
		a := c.Mutex(name).New(term)
		a.Token = begin + a.Token[18:]
		votes = append(votes, a)
	}
	return votes
}

// fenced stores the fence of a round that all nodes have granted, and returns it.
func fenced(votes []*hf1.Attempt) int64 {
	var fences []int64
	for _, a := range votes {
		fences = append(fences, a.Fence)
	}
	slices.Sort(fences)
	f := fences[len(fences)/2]
	for _, a := range votes {
		if a.Fence < f {
			a.Fenced(f).Want("fenced")
		}
	}
	return f
}

// won acquires the lock at all nodes. The library's release may still be on its way to some.
func won(tb testing.TB, clients []*hf1.Client, name string) (votes []*hf1.Attempt) {
	tb.Helper()
	backend.Eventually(tb, "all nodes vote for the recorded client", func() bool {
		votes = round(clients, name)
		granted := 0
		for _, a := range votes {
			if a.Vote("", 0).Word == "granted" {
				granted++
			}
		}
		if granted < len(votes) {
			for _, a := range votes {
				a.Release()
			}
		}
		return granted == len(votes)
	})
	return votes
}

// The nodes of a quorum vote for one of the two sides, and their fences rise.
func TestAQuorumOfBoth(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("SKIPPED: part of make test-all")
	}
	for _, bin := range server.Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			machine.UndisturbedTest(t, func(t testing.TB) {
				var n nodes
				for range 3 {
					n = append(n, site{Backend: backend.Real(t, bin), strict: true})
				}
				if err := admitAll(n.library(t)...); err != nil {
					t.Fatalf("Init: %v", err)
				}
				shareAQuorum(t, n)
				for i := range n {
					n[i].prefix = "another:"
				}
				clients := n.recorded(t)
				for _, c := range clients {
					c.Init("").Want("ready")
				}
				// The library is the first to find them behind.
				quorum("a job", n.library(t)...).unadmitted()
				raise(t, n, clients)
				shareAQuorum(t, n)
			})
		})
	}
}

// standsForm is the entry of a new node that is behind.
var standsForm = regexp.MustCompile(`^[0-9a-f]{40}/[0-9a-f]{40}\?\d{16,}$`)

// raise raises the fence counters of new nodes with the recorded client.
func raise(t testing.TB, n nodes, clients []*hf1.Client) {
	highest, stands := int64(0), make([]string, len(clients))
	for i, c := range clients {
		stands[i] = n[i].Redis(t).Get(t.Context(), n[i].prefix+"caughtup").Val()
		if !standsForm.MatchString(stands[i]) {
			t.Errorf("a node that is behind has %q", stands[i])
		}
		r := c.Mutex("any").Counter().Want("behind")
		same(t, "how a node stands", r.Text("STANDS"), stands[i])
		highest = max(highest, r.Int("COUNTER"), r.Now)
	}
	for i, c := range clients {
		c.Mutex("any").Raise(highest, stands[i]).Want("raised")
	}
}

func shareAQuorum(t testing.TB, n nodes) {
	clients := n.recorded(t)
	ours := quorum("a job", n.library(t)...)

	// The recorded client has the lock.
	votes := won(t, clients, "a job")
	first := fenced(votes)
	same(t, "the holder", ours.refused().owner, "old")
	same(t, "the holder", ours.holder().owner, "old")
	for _, a := range votes {
		a.Renew().Want("renewed")
	}
	w := ours.wait()
	other := round(clients, "a job")
	for _, a := range other {
		backend.Eventually(t, "the library's ticket is at each node", func() bool { return ahead(a, "") == 1 })
	}
	for _, a := range votes {
		a.Release().Want("released")
	}
	lease := w.granted()
	rising(t, first, lease.fence())

	// The library has the lock.
	same(t, "nodes that know the library's fence", count(clients, func(c *hf1.Client) bool {
		return c.Mutex("any").Counter().Want("counter").Int("COUNTER") >= lease.fence()
	}) >= 2, true)
	held := majority(t, clients, "a job")
	if len(held) < 2 {
		t.Errorf("the nodes %v have tokens of one round", held)
	}

	// The recorded client's ticket is earlier than the library's next one.
	ticket := fmt.Sprintf("%016d%012d", clients[0].Now(), 1)
	votes = round(clients, "a job")
	for _, i := range held {
		a := votes[i]
		backend.Eventually(t, "the recorded client's ticket is the first at each node", func() bool { return ahead(a, ticket) == 0 })
	}
	next := quorum("a job", n.library(t)...)
	w = next.wait()
	other = round(clients, "a job")
	for _, i := range held {
		a := other[i]
		backend.Eventually(t, "both tickets are at each node", func() bool { return ahead(a, "") == 2 })
	}
	lease.release()
	for _, a := range votes {
		backend.Eventually(t, "the library gives each node back", func() bool { return a.Vote(ticket, 60_000).Word == "granted" })
	}
	rising(t, lease.fence(), fenced(votes))
	same(t, "the holder", next.refused().owner, "old")
	for i, a := range votes {
		if r := a.Lock.TakeBackTicket(ticket); slices.Contains(held, i) {
			r.Want("left") // elsewhere the first vote may have been granted
		}
		a.Release().Want("released")
	}
	lease = w.granted()

	// A vote for several locks does not take one that the library holds.
	for _, i := range majority(t, clients, "a job") {
		both := []*hf1.Attempt{clients[i].Mutex("a job").New(term), clients[i].Mutex("another").New(term)}
		wantLeft(t, "taken", hf1.VoteBatch(both...), 1)
		both[1].Release().Want("released")
	}
	lease.release()

	// The library gets two nodes, and stores the fence on the one whose counter is lower.
	votes = won(t, clients, "a job")
	last := fenced(votes)
	rising(t, lease.fence(), last)
	for range 5 {
		votes[0].Release().Want("released")
		votes[0] = round(clients[:1], "a job")[0]
		votes[0].Vote("", 0).Want("granted")
	}
	votes[0].Release().Want("released")
	votes[1].Release().Want("released")
	lease = quorum("a job", n.library(t)...).acquire()
	rising(t, last, lease.fence())
	for _, c := range clients[:2] {
		if known := c.Mutex("any").Counter().Want("counter").Int("COUNTER"); known < lease.fence() {
			t.Errorf("a node knows the fence %d; the lease has %d", known, lease.fence())
		}
	}
	lease.release()
	votes[2].Release().Want("released")
}

// ahead returns how many earlier tickets a node has, or -1 if it granted the lock, which ahead gives back.
func ahead(a *hf1.Attempt, ticket string) int64 {
	r := a.Vote(ticket, 60_000)
	if r.Word == "granted" {
		a.Release().Want("released")
		return -1
	}
	return r.Int("AHEAD")
}

// majority returns the nodes that have a token of the library's latest round. Another node may still have one
// of an earlier round, which is being given back.
func majority(tb testing.TB, clients []*hf1.Client, name string) (most []int) {
	tb.Helper()
	rounds := map[string][]int{}
	for i, c := range clients {
		for _, h := range c.Mutex(name).Stored() {
			same(tb, "the holder at a node", h.Info.Owner, "new")
			rounds[h.Token[:18]] = append(rounds[h.Token[:18]], i)
		}
	}
	for _, nodes := range rounds {
		if len(nodes) > len(most) {
			most = nodes
		}
	}
	return most
}

func count[T any](all []T, f func(T) bool) (n int) {
	for _, v := range all {
		if f(v) {
			n++
		}
	}
	return n
}
