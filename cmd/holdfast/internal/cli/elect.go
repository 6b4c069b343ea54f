package cli

import (
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/job"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

type electFlags struct {
	jobFlags

	again bool
	terms count
	http  string   // the address
	hosts []string // names that are served there, besides addresses and localhost
	drain time.Duration
}

func elect(f *pflag.FlagSet) action {
	o := &electFlags{drain: time.Second}
	f.BoolVar(&o.again, "again", false, "campaign again also after the command has ended by itself")
	f.Var(&o.terms, "terms", "lead at most `N` times (default no limit)")
	f.StringVar(&o.http, "http", "", "run nothing, and say over HTTP at `ADDRESS`, such as 127.0.0.1:4040, whether this process leads")
	f.StringArrayVar(&o.hosts, "http-host", nil, "with --http, also serve the host `NAME`, besides addresses and localhost")
	f.Var((*seconds)(&o.drain), "drain", "with --http, when told to end, say for `DUR` that it does not lead, and then resign")
	o.defineJob(f, "terminate, or kill, which sends no TERM")
	return func(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
		switch {
		case f.Changed("http"):
			return o.answer(ctx, stderr)
		case f.Changed("http-host"), f.Changed("drain"):
			return exitcode.Usagef("--http-host and --drain need --http")
		}
		if err := o.takeCommand(); err != nil {
			return err
		}
		if err := o.checkJob(keeper.Terminate, keeper.Kill); err != nil {
			return err
		}
		return o.run(ctx, job.Streams{In: stdin, Out: stdout, Err: stderr})
	}
}

func (o *electFlags) run(ctx context.Context, streams job.Streams) error {
	r := &job.Run{}
	return o.start(ctx, streams, r, func() *exitcode.Error {
		candidacy := election.New(r.Locks.Mutex(o.name, o.option(), holdfast.Options()))
		return r.InElection(ctx, &o.job, candidacy, job.Terms{Again: o.again, Most: int(o.terms)})
	})
}

// answer campaigns without a command, and answers over HTTP whether this process leads.
func (o *electFlags) answer(ctx context.Context, stderr io.Writer) error {
	f := o.flags
	for _, other := range []string{"json", "again", "terms", "max-runtime", "on-lost", "kill-after", "lost-exit-code", "shell"} {
		if err := chooseOne(f, "http", other); err != nil {
			return err
		}
	}
	if f.NArg() != 1 || f.Arg(0) == "" {
		return exitcode.Usagef("want one NAME and no command: holdfast elect NAME --http ADDRESS")
	}
	address, _, err := listenAddress("http", o.http, "127.0.0.1:4040")
	if err != nil {
		return err
	}
	if err := o.checkHolder(); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return exitcode.Errorf(exitcode.System, "%w; choose another address with --http", err)
	}
	defer listener.Close()
	return o.use(ctx, stderr, func(ctx context.Context, locks *connect.Locks) error {
		if err := o.servers.CheckAdmitted(ctx, o.prefix, admittedTime); err != nil {
			return err
		}
		candidacy := election.New(locks.Mutex(f.Arg(0), o.option(), holdfast.Options()))
		// A server that cannot be reached now is an error. Later, the campaign waits until an outage is over.
		status, err := candidacy.Status(ctx)
		if err != nil {
			return err
		}
		if addr, ok := listener.Addr().(*net.TCPAddr); ok && !addr.IP.IsLoopback() {
			o.console.Warnf("everyone who can reach %s can read who leads", addr)
		}
		o.console.Notef("campaigning for %q; http://%s/leader says whether it leads", f.Arg(0), listener.Addr())
		s := &sidecar{election: candidacy, server: o.servers.Addr(), key: status.Key, hosts: o.hosts, drain: o.drain, console: o.console}
		// Requests are answered until Run returns, while the leader drains, too.
		campaign, endCampaign := context.WithCancelCause(ctx)
		serving, endServing := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() {
			err := serve(serving, listener, s, nil)
			endCampaign(err)
			served <- err
		}()
		err = s.run(campaign)
		endServing()
		return cmp.Or(<-served, ctx.Err(), err)
	})
}

// sidecar campaigns in an election on behalf of another program, which asks over HTTP whether it leads.
type sidecar struct {
	election *election.Election
	server   string        // the server's address, without credentials
	key      string        // of the leader's lock
	hosts    []string      // names that are served, besides addresses and localhost
	drain    time.Duration // how long a leader that is told to end denies that it leads, before it resigns
	console  *console.Console

	mu     sync.Mutex
	term   *holdfast.Lease // nil unless this process leads
	since  time.Time       // when the term began
	status holdfast.Status // of the election, as last seen
	seen   time.Time       // when status was seen; zero if never
}

// run campaigns until ctx ends, and then returns nil, or until the campaign fails.
func (s *sidecar) run(ctx context.Context) error {
	watched, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(watched) })
	defer watching.Wait()
	defer cancel()
	if err := s.election.Run(ctx, s.lead); ctx.Err() == nil {
		return err
	}
	return nil
}

func (s *sidecar) lead(ctx context.Context, term *holdfast.Lease) error {
	s.set(term)
	s.console.Notef("leading %q, fence %d", s.election.Name(), term.Fence())
	<-ctx.Done()
	s.set(nil)
	if err := term.Err(); err != nil {
		s.console.Warnf("%v; campaigning again", err)
		return err
	}
	// The sidecar is told to end. Programs that ask now and then must notice before another candidate leads.
	drained := time.NewTimer(s.drain)
	defer drained.Stop()
	select {
	case <-drained.C:
	case <-term.Done():
	}
	return ctx.Err()
}

func (s *sidecar) set(term *holdfast.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.term, s.since = term, time.Now()
}

func (s *sidecar) watch(ctx context.Context) {
	for status, err := range s.election.Watch(ctx) {
		if err != nil {
			return // the campaign fails, too
		}
		s.mu.Lock()
		s.status, s.seen = status, time.Now()
		s.mu.Unlock()
	}
}

// leading returns the term and what is left of it. If this process does not lead, it returns nil.
func (s *sidecar) leading() (term *holdfast.Lease, left time.Duration) {
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

// sidecarAnswer is the answer to /leader: whether this process leads.
type sidecarAnswer struct {
	Name    string `json:"name"`
	Leading bool   `json:"leading"`
	Fence   uint64 `json:"fence,omitempty"`  // of the term
	TTL     int64  `json:"ttl_ms,omitempty"` // how long this process leads even if the server no longer answers
}

// sidecarStatus is the answer to /status. It adds who leads and who waits.
type sidecarStatus struct {
	Time time.Time `json:"time"`
	sidecarAnswer
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
func (s *sidecar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	answer, code := sidecarAnswer{Name: s.election.Name()}, http.StatusServiceUnavailable
	if term, left := s.leading(); term != nil {
		code = http.StatusOK
		answer.Leading, answer.Fence, answer.TTL = true, term.Fence(), left.Milliseconds()
		// If this process is suspended here until the term has ended, the deadline keeps it from sending the answer.
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

func (s *sidecar) about(answer sidecarAnswer) sidecarStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := sidecarStatus{Time: time.Now(), sidecarAnswer: answer, Key: s.key, Server: s.server, Seen: s.seen}
	all.Candidates = lockstatus.NewWaiters(s.status.Waiters)
	if answer.Leading {
		all.Since = s.since
	}
	if leader, leads := s.status.Holder(); leads {
		all.Leader = lockstatus.NewAwaited(leader, s.status.Waiting)
	}
	return all
}

// isOurs reports whether requests for this host are answered: for an address, localhost, or a name of --http-host. A web page could make
// another name, its own, resolve to this machine (DNS rebinding), and read the answers.
func (s *sidecar) isOurs(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	return host == "" || host == "localhost" || net.ParseIP(host) != nil ||
		slices.ContainsFunc(s.hosts, func(allowed string) bool { return strings.EqualFold(allowed, host) })
}
