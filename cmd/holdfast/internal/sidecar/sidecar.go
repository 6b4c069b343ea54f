// Package sidecar campaigns in an election for another program, which asks over HTTP whether it leads.
package sidecar

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/job"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// Sidecar is a candidate. Its exported fields are set before Run.
type Sidecar struct {
	Election *election.Election
	Server   string   // names the server, without credentials
	Key      string   // of the leader's lock
	Hosts    []string // that are served, besides addresses and localhost
	// Drain is how long, after a signal, the leader denies that it leads before it resigns.
	Drain   time.Duration
	Console *console.Console

	mu     sync.Mutex
	term   *holdfast.Lease // nil unless it leads
	since  time.Time       // when the term began
	status holdfast.Status // as last seen
	seen   time.Time       // when that was; zero if never
}

// ErrServe says that requests could not be served.
var ErrServe = errors.New("cannot serve")

// Run campaigns and serves until ctx ends, or until the campaign fails. It closes the listener.
func (s *Sidecar) Run(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	campaign, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			cancel(fmt.Errorf("%w %s: %w", ErrServe, listener.Addr(), err))
		}
	})
	parts.Go(func() { s.watch(campaign) })
	err := s.Election.Run(campaign, s.lead)
	if served := context.Cause(campaign); ctx.Err() == nil && served != nil {
		err = served
	}
	cancel(nil)
	// Requests are answered at once, so that it does not take long.
	ending, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	if server.Shutdown(ending) != nil {
		_ = server.Close()
	}
	parts.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// lead leads for a term.
func (s *Sidecar) lead(ctx context.Context, term *holdfast.Lease) error {
	s.set(term)
	s.Console.Notef("leading %q, fence %d", s.Election.Name(), term.Fence())
	<-ctx.Done()
	s.set(nil)
	if err := term.Err(); err != nil {
		s.Console.Warnf("%v; campaigning again", err)
		return err
	}
	// It has been told to end. Programs that ask now and then must have noticed before another can lead.
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

// watch notes who leads, and who waits.
func (s *Sidecar) watch(ctx context.Context) {
	for status, err := range s.Election.Watch(ctx) {
		if err != nil {
			return // The campaign fails, too.
		}
		s.mu.Lock()
		s.status, s.seen = status, time.Now()
		s.mu.Unlock()
	}
}

// leading returns the term, if this process leads, and how long it may still believe so.
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
	Fence   uint64 `json:"fence,omitempty"`  // of its term
	TTL     int64  `json:"ttl_ms,omitempty"` // how long it leads even if the server does not answer any more
}

// Status is the answer to /status: also who else leads and waits, as for holdfast elect --leader.
type Status struct {
	Time time.Time `json:"time"`
	Answer
	Key        string              `json:"key"`
	Server     string              `json:"server"`
	Since      time.Time           `json:"since,omitzero"` // when this process began to lead
	Leader     *job.Holder         `json:"leader"`         // null if nobody leads
	Candidates []lockstatus.Waiter `json:"candidates,omitempty"`
	Seen       time.Time           `json:"seen,omitzero"` // when leader and candidates were last heard of
}

// answerTime bounds the time in which a client takes an answer.
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
		// If this process is stopped here until after the term, the answer is not sent.
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
	_, _ = w.Write(text) // The client does not listen any more, or asks too late.
}

// about adds to an answer what else is known.
func (s *Sidecar) about(answer Answer) Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := Status{Time: time.Now(), Answer: answer, Key: s.Key, Server: s.Server, Seen: s.seen}
	all.Candidates = lockstatus.NewWaiters(s.status.Waiters)
	if answer.Leading {
		all.Since = s.since
	}
	if leader, leads := s.status.Holder(); leads {
		all.Leader = job.NewHolder(leader, s.status.Waiting)
	}
	return all
}

// isOurs reports whether requests for this host are answered. A web page that makes its own name lead here, to read what
// this machine says, sends that name; nobody can do so with an address. Browsers always send one of both.
func (s *Sidecar) isOurs(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	return host == "" || host == "localhost" || net.ParseIP(host) != nil ||
		slices.ContainsFunc(s.Hosts, func(allowed string) bool { return strings.EqualFold(allowed, host) })
}
