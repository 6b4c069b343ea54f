// Package sidecar campaigns in an election on behalf of another program, which asks over HTTP whether it leads.
package sidecar

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// Sidecar is a candidate, and the handler of requests. Its exported fields are set before Run.
type Sidecar struct {
	Election *election.Election
	Server   string        // the server's address, without credentials
	Key      string        // of the leader's lock
	Hosts    []string      // names that are served, besides addresses and localhost
	Drain    time.Duration // how long a leader that is told to end denies that it leads, before it resigns
	Console  *console.Console

	mu     sync.Mutex
	term   *holdfast.Lease // nil unless this process leads
	since  time.Time       // when the term began
	status holdfast.Status // of the election, as last seen
	seen   time.Time       // when status was seen; zero if never
}

// Run campaigns until ctx ends, and then returns nil, or until the campaign fails.
func (s *Sidecar) Run(ctx context.Context) error {
	watched, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(watched) })
	defer watching.Wait()
	defer cancel()
	if err := s.Election.Run(ctx, s.lead); ctx.Err() == nil {
		return err
	}
	return nil
}

func (s *Sidecar) lead(ctx context.Context, term *holdfast.Lease) error {
	s.set(term)
	s.Console.Notef("leading %q, fence %d", s.Election.Name(), term.Fence())
	<-ctx.Done()
	s.set(nil)
	if err := term.Err(); err != nil {
		s.Console.Warnf("%v; campaigning again", err)
		return err
	}
	// ctx ended because the sidecar is told to end. Programs that ask now and then must notice before another candidate leads.
	drained := time.NewTimer(s.Drain)
	defer drained.Stop()
	select {
	case <-drained.C:
	case <-term.Done():
	}
	return ctx.Err()
}

func (s *Sidecar) set(term *holdfast.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.term, s.since = term, time.Now()
}

func (s *Sidecar) watch(ctx context.Context) {
	for status, err := range s.Election.Watch(ctx) {
		if err != nil {
			return // the campaign fails, too
		}
		s.mu.Lock()
		s.status, s.seen = status, time.Now()
		s.mu.Unlock()
	}
}

// leading returns the term and what is left of it. If this process does not lead, it returns nil.
func (s *Sidecar) leading() (term *holdfast.Lease, left time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term == nil || s.term.Err() != nil {
		return nil, 0
	}
	if left = time.Until(s.term.Deadline()); left <= 0 {
		return nil, 0
	}
	return s.term, left
}

// Answer is the answer to /leader: whether this process leads.
type Answer struct {
	Name    string `json:"name"`
	Leading bool   `json:"leading"`
	Fence   uint64 `json:"fence,omitempty"`  // of the term
	TTL     int64  `json:"ttl_ms,omitempty"` // how long this process leads even if the server no longer answers
}

// Status is the answer to /status. It adds who leads and who waits.
type Status struct {
	Time time.Time `json:"time"`
	Answer
	Key        string               `json:"key"`
	Server     string               `json:"server"`
	Since      time.Time            `json:"since,omitzero"` // when this process began to lead
	Leader     *lockstatus.Process  `json:"leader"`         // null if nobody leads
	Candidates []lockstatus.Process `json:"candidates,omitempty"`
	Seen       time.Time            `json:"seen,omitzero"` // when the server said who leads and who waits
}

// answerTime bounds how long a client takes to read an answer.
const answerTime = 10 * time.Second

// ServeHTTP answers /leader with 200 if this process leads, and otherwise 503; and /status.
func (s *Sidecar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTime)) // not possible in tests
	switch {
	case !s.isOurs(r.Host):
		http.Error(w, "this host name is not served: see --http-host of holdfast elect", http.StatusMisdirectedRequest)
		return
	case r.URL.Path != "/leader" && r.URL.Path != "/status":
		http.Error(w, "ask for /leader or /status", http.StatusNotFound)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD are served", http.StatusMethodNotAllowed)
		return
	}
	answer, code := Answer{Name: s.Election.Name()}, http.StatusServiceUnavailable
	if term, left := s.leading(); term != nil {
		code = http.StatusOK
		answer.Leading, answer.Fence, answer.TTL = true, term.Fence(), left.Milliseconds()
		// If this process is suspended here until after the term, the answer is not sent.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(min(left, answerTime)))
	}
	var body any = answer
	if r.URL.Path == "/status" {
		body, code = s.about(answer), http.StatusOK
	}
	text, err := output.JSON(body)
	if err != nil {
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	h.Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text) // fails if the client has gone, or after the write deadline
}

func (s *Sidecar) about(answer Answer) Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := Status{Time: time.Now(), Answer: answer, Key: s.Key, Server: s.Server, Seen: s.seen}
	all.Candidates = lockstatus.NewWaiters(s.status.Waiters)
	if answer.Leading {
		all.Since = s.since
	}
	if leader, leads := s.status.Holder(); leads {
		all.Leader = lockstatus.NewAwaited(leader, s.status.Waiting)
	}
	return all
}

// isOurs reports whether requests for this host are answered. A web page may make its own host name resolve to this machine, in order
// to read the answers, but then the browser sends that name; nobody can do the same with an address.
func (s *Sidecar) isOurs(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	return host == "" || host == "localhost" || net.ParseIP(host) != nil ||
		slices.ContainsFunc(s.Hosts, func(allowed string) bool { return strings.EqualFold(allowed, host) })
}
