package sidecar

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/job"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// Leading is the answer to /leader: whether this process leads.
type Leading struct {
	Name    string `json:"name"`
	Leading bool   `json:"leading"`
	Fence   uint64 `json:"fence,omitempty"`  // of its term
	TTL     int64  `json:"ttl_ms,omitempty"` // how long it leads even if the server does not answer any more
}

// Status is the answer to /status.
type Status struct {
	Time time.Time `json:"time"`
	Leading
	Key    string      `json:"key"`
	Server string      `json:"server"`
	Since  *time.Time  `json:"since,omitempty"` // when this process began to lead
	Leader *job.Holder `json:"leader"`          // null if nobody leads
	// Candidates are the first of the waiting candidates, in order.
	Candidates []lockstatus.Waiter `json:"candidates,omitempty"`
	Seen       *time.Time          `json:"seen"` // when leader and candidates were last heard of
}

// answerTime bounds the time in which a client takes an answer.
const answerTime = 10 * time.Second

// ServeHTTP answers a request.
func (s *Sidecar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTime)) // not possible in tests
	switch {
	case !s.isOurs(r.Host):
		http.Error(w, "this host name is not served: see --http-host of holdfast elect", http.StatusMisdirectedRequest)
	case r.URL.Path != "/leader" && r.URL.Path != "/status":
		http.Error(w, "ask for /leader or /status", http.StatusNotFound)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD are served", http.StatusMethodNotAllowed)
	case r.URL.Path == "/leader":
		s.serveLeader(w)
	default:
		s.serveStatus(w)
	}
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

// serveLeader answers 200 if this process leads, and otherwise 503.
func (s *Sidecar) serveLeader(w http.ResponseWriter) {
	answer := Leading{Name: s.Election.Name()}
	code := http.StatusServiceUnavailable
	if term, left := s.leading(); term != nil {
		code = http.StatusOK
		answer.Leading, answer.Fence, answer.TTL = true, term.Fence(), left.Milliseconds()
		// If this process is stopped here until after the term, the answer is not sent.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(min(left, answerTime)))
	}
	write(w, code, answer)
}

func (s *Sidecar) serveStatus(w http.ResponseWriter) {
	answer := Status{Time: time.Now(), Leading: Leading{Name: s.Election.Name()}, Key: s.Key, Server: s.Server}
	term, left := s.leading()
	s.mu.Lock()
	if term != nil {
		since := s.since
		answer.Leading.Leading, answer.Fence, answer.TTL, answer.Since = true, term.Fence(), left.Milliseconds(), &since
	}
	status, seen := s.status, s.seen
	s.mu.Unlock()
	if leader, leads := status.Holder(); leads {
		answer.Leader = job.NewHolder(leader, status.Waiting)
	}
	if !seen.IsZero() {
		answer.Candidates, answer.Seen = lockstatus.NewWaiters(status.Waiters), &seen
	}
	write(w, http.StatusOK, answer)
}

func write(w http.ResponseWriter, code int, answer any) {
	text, err := output.JSON(answer)
	if err != nil {
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text) // The client does not listen any more, or asks too late.
}
