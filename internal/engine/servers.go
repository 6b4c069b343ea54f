package engine

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/exec"
)

// server is what a client keeps for one server: for the only one or, in a Cluster, for a master. It sends renewals that fall due together
// in one call. Nobody waits for a call, so calls do not wait for each other's answers either.
type server struct {
	c          *Client
	isKnown    bool         // if false, it stands for all masters that are not known, and renewals do not go together
	renewers   exec.Limiter // for renewals that go by themselves; each server's own, so that one that hangs does not delay the others
	reclaimers exec.Limiter // to take back what abandoned attempts have or may get: callers can give up faster than requests time out
	silent     atomic.Bool  // one of the reclaimers' requests went unanswered while the client was closing

	run      func(func()) // calls f in a new goroutine
	mu       sync.Mutex
	due      []*hold
	underway int       // calls that have not ended
	answered time.Time // when the latest call was answered
}

const (
	// maxServers bounds how many servers of a Cluster are remembered, including those that have left it.
	maxServers = 1000
	// maxReclaiming bounds how many attempts are taken back from one server at once.
	maxReclaiming = 64
	// maxBatch bounds the locks in a call, and so how long the call keeps the server from other work: about a third of a millisecond.
	maxBatch = 128
)

// serverOf returns the server that has l.
func (c *Client) serverOf(l *Target) *server {
	node, inCluster := "", c.Server.InCluster()
	if inCluster {
		node = c.Server.Node(l.Keys.Lock)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.servers[node]
	if s == nil {
		s = &server{c: c, isKnown: !inCluster || node != "", run: c.Tasks.Run}
		s.renewers, s.reclaimers = exec.Limiter{Tasks: &c.Tasks, Most: maxRenewing}, exec.Limiter{Tasks: &c.Tasks, Most: maxReclaiming}
		if len(c.servers) >= maxServers || c.servers == nil {
			c.servers = map[string]*server{}
		}
		c.servers[node] = s
	}
	return s
}

// reclaim calls f now, or after earlier functions. f reports whether the server answered. hopeless tells f not to try: a client that closes
// waits for each server only once.
func (s *server) reclaim(f func(hopeless bool) (answered bool)) {
	s.reclaimers.Run(func() {
		if !f(s.silent.Load()) && s.c.IsClosing() {
			s.silent.Store(true)
		}
	})
}

// renew sends the renewal of a hold, together with others that are due.
func (s *server) renew(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = append(s.due, h)
	if len(s.due) == 1 {
		s.run(s.send)
	}
}

// send waits until no more renewals become due, and sends those that are.
func (s *server) send() {
	for before := -1; ; {
		s.mu.Lock()
		if len(s.due) == before {
			break
		}
		before = len(s.due)
		s.mu.Unlock()
		runtime.Gosched()
	}
	defer s.mu.Unlock()
	for len(s.due) > 0 {
		n := min(len(s.due), maxBatch)
		some := s.due[:n:n]
		s.due = s.due[n:]
		s.underway++
		s.run(func() {
			answered := s.c.sendRenewals(some)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.underway--
			if answered {
				s.answered = time.Now()
			}
		})
	}
	s.due = nil
}

// hangs reports whether renewals are under way and none has been answered since that time.
func (s *server) hangs(since time.Time) bool {
	queued := s.renewers.Waiting() > 0
	s.mu.Lock()
	defer s.mu.Unlock()
	return queued || s.underway > 0 && s.answered.Before(since)
}
