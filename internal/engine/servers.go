package engine

import (
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/exec"
)

// servers is what a client keeps for each server: for the only one or, in a Cluster, for each master.
type servers struct {
	one     server // the only server, outside Cluster mode
	unknown server // for locks of a Cluster whose server is unknown; their renewals do not go in batches

	mu    sync.Mutex
	nodes map[string]*server // the masters of a Cluster, by the driver's names for them
}

// server is what a client keeps for one server.
type server struct {
	renewals   renewals
	renewers   exec.Limiter // for renewals that do not go in a batch; each server's own, so that one that hangs does not delay the others
	reclaimers reclaimers
}

// maxServers bounds how many servers of a Cluster are remembered, including those that have left it.
const maxServers = 1000

func (s *server) init(c *Client) {
	s.renewals.c, s.renewals.run = c, c.Tasks.Run
	s.renewers = exec.Limiter{Tasks: &c.Tasks, Most: maxRenewing}
	s.reclaimers.init(c)
}

// serverOf returns the server that has l.
func (c *Client) serverOf(l *Target) *server {
	all := &c.servers
	if !c.Server.InCluster() {
		return &all.one
	}
	node := c.Server.Node(l.Keys.Lock)
	if node == "" {
		return &all.unknown
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	s := all.nodes[node]
	if s == nil {
		s = &server{}
		s.init(c)
		if len(all.nodes) >= maxServers || all.nodes == nil {
			all.nodes = map[string]*server{}
		}
		all.nodes[node] = s
	}
	return s
}

// renewals sends renewals that fall due together in one call. Nobody waits for a call, so calls do not wait for each other's answers
// either.
type renewals struct {
	c   *Client
	run func(func()) // calls f in a new goroutine

	mu       sync.Mutex
	due      []*hold
	underway int       // calls that have not ended
	answered time.Time // when the latest call was answered
}

// maxBatch bounds the locks in a call, and so how long the call keeps the server from other work: about a third of a millisecond.
const maxBatch = 128

// add sends the renewal of a hold, together with others that are due.
func (r *renewals) add(h *hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = append(r.due, h)
	if len(r.due) == 1 {
		r.run(r.send)
	}
}

// send waits until no more renewals become due, and sends those that are.
func (r *renewals) send() {
	for before := -1; ; {
		r.mu.Lock()
		if len(r.due) == before {
			break
		}
		before = len(r.due)
		r.mu.Unlock()
		runtime.Gosched()
	}
	defer r.mu.Unlock()
	for len(r.due) > 0 {
		n := min(len(r.due), maxBatch)
		some := r.due[:n:n]
		r.due = r.due[n:]
		r.underway++
		r.run(func() {
			answered := r.c.sendRenewals(some)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.underway--
			if answered {
				r.answered = time.Now()
			}
		})
	}
	r.due = nil
}

// hang reports whether calls are under way and none has been answered since that time.
func (r *renewals) hang(since time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.underway > 0 && r.answered.Before(since)
}
