// Package conformance judges clients of the protocol that others wrote. It runs a client beside Holdfast's own on one server,
// with a network between that it can break, and says what the client does that docs/PROTOCOL.md does not allow.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/standstill"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// Config says what to judge.
type Config struct {
	Command  []string      // the client; the address of a server and a lock's name are added
	Server   string        // HOST:PORT; "" for one in this process
	For      time.Duration // how long clients compete for one lock
	Only     []string      // scenarios; empty for all
	Answer   time.Duration // how long an answer may take
	Messages io.Writer     // what clients print on standard error
	// Tell, if not nil, is called with each verdict, in the order of the scenarios.
	Tell func(Verdict)
}

// Verdict says whether a client passed a scenario.
type Verdict struct {
	Scenario string   `json:"scenario"`
	Shows    string   `json:"shows"`
	OK       bool     `json:"ok"`
	Skipped  string   `json:"skipped,omitempty"` // why it was not judged; OK is false then
	Problem  string   `json:"problem,omitempty"`
	Dialogue []string `json:"dialogue,omitempty"` // what was said, if it did not pass
}

// Report has the verdicts of all scenarios. It is OK if some were passed and the others were skipped.
type Report struct {
	OK        bool      `json:"ok"`
	Passed    int       `json:"passed"`
	Skipped   int       `json:"skipped"`
	Verdicts  []Verdict `json:"verdicts"`
	NotJudged []string  `json:"not_judged"` // parts of the protocol, and scenarios, that were not judged
}

// neverJudged are the parts of the protocol that no scenario covers.
var neverJudged = []string{
	"Cluster mode", "Sentinel", "Strict mode", "replicas", "quorums", "exact keys", "Redisson's locks", "tickets", "reassert",
	"many locks in one call", "hand-overs within the process", "locks of an owner", "latches", "barriers", "jobs that run once",
	"elections", "breaks by operators", "servers that are too old", "machines that are suspended",
}

// Scenarios returns what there is to pass: verdicts that have not been given.
func Scenarios() (all []Verdict) {
	for _, s := range scenarios {
		all = append(all, Verdict{Scenario: s.name, Shows: s.shows})
	}
	return all
}

// Run judges a client. It returns an error if that was not possible: there is no such program, say, or no server.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	server := cfg.Server
	if server != "" {
		// Holdfast's own client would retry for seconds. If nothing listens, the address is more likely wrong than the server restarting.
		conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", server)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", holdfast.ErrUnavailable, err)
		}
		conn.Close()
	} else {
		own, err := holdfasttest.NewServer(&holdfasttest.ServerConfig{Listen: "127.0.0.1:0"})
		if err != nil {
			return nil, err
		}
		defer own.Close()
		server = own.Addr()
	}
	var chosen []scenario
	for _, s := range scenarios {
		if len(cfg.Only) == 0 || slices.Contains(cfg.Only, s.name) {
			chosen = append(chosen, s)
		}
	}
	running, stop := context.WithCancel(ctx)
	verdicts := make([]Verdict, len(chosen))
	done := make([]chan struct{}, len(chosen))
	failures := make([]error, len(chosen))
	var all sync.WaitGroup
	// Most scenarios wait for most of their time: several run side by side, each with a lock of its own.
	slots := make(chan struct{}, atOnce)
	for i, s := range chosen {
		done[i] = make(chan struct{})
		all.Go(func() {
			defer close(done[i])
			slots <- struct{}{}
			defer func() { <-slots }()
			verdicts[i], failures[i] = try(running, cfg, server, s)
		})
	}
	defer all.Wait()
	defer stop() // without a report, the other verdicts are not needed
	r := &Report{}
	failed := 0
	for i := range chosen {
		<-done[i]
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		if failures[i] != nil {
			return nil, failures[i]
		}
		v := verdicts[i]
		switch {
		case v.OK:
			r.Passed++
		case v.Skipped != "":
			r.Skipped++
			if feature := chosen[i].feature; !slices.Contains(r.NotJudged, feature) {
				r.NotJudged = append(r.NotJudged, feature)
			}
		default:
			failed++
		}
		r.Verdicts = append(r.Verdicts, v)
		if cfg.Tell != nil {
			cfg.Tell(v)
		}
	}
	r.OK = failed == 0 && r.Passed > 0
	if left := len(scenarios) - len(chosen); left > 0 {
		r.NotJudged = append(r.NotJudged, fmt.Sprintf("%d scenarios that --only leaves out", left))
	}
	r.NotJudged = append(r.NotJudged, neverJudged...)
	return r, nil
}

// atOnce is how many scenarios run side by side.
const atOnce = 8

// attempts is the maximum number of runs of a scenario. It runs again if the client failed while this machine stood still, because
// then a sound client may fail.
const attempts = 3

// try runs a scenario. It returns an error if there can be no verdict.
func try(ctx context.Context, cfg Config, server string, s scenario) (v Verdict, err error) {
	for range attempts {
		watching, stop := context.WithCancel(ctx)
		stood := make(chan time.Duration, 1)
		go func() { stood <- standstill.Until(watching) }()
		v, err = tryOnce(ctx, cfg, server, s)
		stop()
		if stillFor := <-stood; err != nil || v.OK || v.Skipped != "" || stillFor == 0 {
			break
		}
	}
	return v, err
}

func tryOnce(ctx context.Context, cfg Config, server string, s scenario) (Verdict, error) {
	t, err := newTrial(ctx, cfg, server, s)
	if err != nil {
		return Verdict{}, err
	}
	problem := s.run(t)
	if err := t.end(); err != nil {
		return Verdict{}, err
	}
	v := Verdict{Scenario: s.name, Shows: s.shows, OK: problem == nil}
	if missing := (*missingError)(nil); errors.As(problem, &missing) {
		v.Skipped = missing.Error()
	} else if problem != nil {
		v.Problem = problem.Error()
		v.Dialogue = t.dialogue()
	}
	return v, t.broken
}

// problemf says what a client did wrong.
func problemf(format string, args ...any) error { return fmt.Errorf(format, args...) }
