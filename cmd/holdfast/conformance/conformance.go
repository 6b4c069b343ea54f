package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/standstill"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

const help = `Usage: go run github.com/holdfast-go/holdfast/cmd/holdfast/conformance@latest [flags] CLIENT [ARGS...]

Judges a client of the protocol (docs/PROTOCOL.md) that you wrote, in any language. It
takes locks beside Holdfast's own client, on one server, and its network fails.

CLIENT is started several times for each scenario, with two more arguments: the HOST:PORT
of a server, and the name of a lock. It says what it implements, and then reads a command a
line and prints an answer a line: see "Judging a client" in docs/PROTOCOL.md, and the
client in examples/python. Its standard error is shown.

Report (-json): ok, passed, skipped, not_judged and verdicts. Each verdict has scenario,
shows and ok. If the client failed, it has problem and dialogue, the end of what was said;
if the scenario was not judged, skipped says why.

Exit codes: 0 all judged scenarios passed, 1 some failed or none was judged,
64 wrong usage, 69 server unavailable, 126 the client cannot be executed,
127 the client was not found, 130 interrupted (INT; also 129, 131, 143).

Scenarios:
`

// run judges a client as these arguments say, and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return console.New(stderr, console.Normal).Exit(judgeClient(ctx, args, stdout, stderr))
}

// kit is what judges a client.
type kit struct {
	command  []string      // the client; the address of a server and a lock's name are added
	server   string        // HOST:PORT
	lasts    time.Duration // how long clients compete for one lock
	answer   time.Duration // how long an answer may take
	messages io.Writer     // what clients print on standard error
}

func judgeClient(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("conformance", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	k := &kit{messages: stderr}
	f.StringVar(&k.server, "server", "", "`HOST:PORT` of a server to use, without a password (default one in this process)")
	only := f.String("only", "", "only these `scenarios`, separated by commas")
	f.DurationVar(&k.lasts, "for", 5*time.Second, "let processes compete for this `time`")
	f.DurationVar(&k.answer, "answer", time.Minute, "an answer may take this `time`; only programs that hang take so long")
	json := f.Bool("json", false, "print only the report, as one JSON object")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, help)
		for _, s := range scenarios {
			fmt.Fprintf(stdout, "  %-17s %s\n", s.name, s.shows)
		}
		fmt.Fprintln(stdout, "\nFlags:")
		f.SetOutput(stdout)
		f.PrintDefaults()
		return nil
	case err != nil:
		return exitcode.Usagef("%w; see conformance -help", err)
	case f.NArg() == 0:
		return exitcode.Usagef("want the client after the flags: conformance [flags] CLIENT [ARGS...]; see conformance -help")
	case k.lasts <= 0:
		return exitcode.Usagef("-for %s: want more than 0", k.lasts)
	case k.answer < 5*time.Second:
		return exitcode.Usagef("-answer %s: want at least 5s", k.answer)
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	k.command = f.Args()
	tell := func(v verdict) { fmt.Fprint(stdout, v.text()) }
	if *json {
		tell = func(verdict) {}
	}
	r, err := k.judge(ctx, chosen, tell)
	if err != nil {
		return err
	}
	text := r.text()
	if *json {
		line, err := output.JSON(r)
		if err != nil {
			return err
		}
		text = string(line)
	}
	if _, err := io.WriteString(stdout, text); err != nil {
		return exitcode.OfOutput(err)
	}
	if !r.OK {
		return &exitcode.Error{Code: exitcode.None}
	}
	return nil
}

// choose returns the scenarios that a comma-separated list names, or all if the list is empty.
func choose(names string) (chosen []scenario, err error) {
	if names == "" {
		return scenarios, nil
	}
	var known []string
	for _, s := range scenarios {
		known = append(known, s.name)
	}
	for name := range strings.SplitSeq(names, ",") {
		i := slices.Index(known, name)
		if i < 0 {
			return nil, exitcode.Usagef("-only %s: the scenarios are %s", name, strings.Join(known, ", "))
		}
		chosen = append(chosen, scenarios[i])
	}
	return chosen, nil
}

// verdict says whether a client passed a scenario.
type verdict struct {
	Scenario string   `json:"scenario"`
	Shows    string   `json:"shows"`
	OK       bool     `json:"ok"`
	Skipped  string   `json:"skipped,omitempty"` // why it was not judged; OK is false then
	Problem  string   `json:"problem,omitempty"`
	Dialogue []string `json:"dialogue,omitempty"` // what was said, if it did not pass
}

// text returns the verdict for people.
func (v verdict) text() string {
	word := "FAILED"
	switch {
	case v.OK:
		word = "ok"
	case v.Skipped != "":
		word = "SKIPPED"
	}
	text := fmt.Sprintf("%-7s  %-17s %s\n", word, v.Scenario, v.Shows)
	if !v.OK {
		for _, line := range append([]string{cmp.Or(v.Skipped, v.Problem)}, v.Dialogue...) {
			text += "         " + line + "\n"
		}
	}
	return text
}

// report has the verdicts of all scenarios. It is OK if at least one was passed and the others were skipped.
type report struct {
	OK        bool      `json:"ok"`
	Passed    int       `json:"passed"`
	Skipped   int       `json:"skipped"`
	Verdicts  []verdict `json:"verdicts"`
	NotJudged []string  `json:"not_judged"` // parts of the protocol, and scenarios, that were not judged
}

// neverJudged are the parts of the protocol that no scenario covers.
var neverJudged = []string{
	"Cluster mode", "Sentinel", "Strict mode", "replicas", "quorums", "exact keys", "Redisson's locks", "tickets", "reassert",
	"many locks in one call", "hand-overs within the process", "locks of an owner", "latches", "barriers", "jobs that run once",
	"elections", "breaks by operators", "servers that are too old", "machines that are suspended",
}

// text returns what is printed after the verdicts.
func (r *report) text() string {
	text := fmt.Sprintf("\n%d of %d scenarios passed", r.Passed, len(r.Verdicts))
	if r.Skipped > 0 {
		text += fmt.Sprintf(", %d SKIPPED: not judged", r.Skipped)
	}
	return text + "\nnot judged: " + strings.Join(r.NotJudged, ", ") + "\n"
}

func (r *report) add(v verdict, feature string) {
	r.Verdicts = append(r.Verdicts, v)
	switch {
	case v.OK:
		r.Passed++
	case v.Skipped != "":
		r.Skipped++
		if !slices.Contains(r.NotJudged, feature) {
			r.NotJudged = append(r.NotJudged, feature)
		}
	}
	r.OK = r.Passed > 0 && r.Passed+r.Skipped == len(r.Verdicts)
}

// atOnce is how many scenarios run concurrently, each with a lock of its own. Most of them spend their time waiting.
const atOnce = 8

// judge runs scenarios, and passes each verdict to tell. It returns an error if it cannot judge, for example because the client or the
// server does not exist.
func (k *kit) judge(ctx context.Context, chosen []scenario, tell func(verdict)) (*report, error) {
	if k.server == "" {
		own, err := holdfasttest.NewServer(&holdfasttest.ServerConfig{Listen: "127.0.0.1:0"})
		if err != nil {
			return nil, err
		}
		defer own.Close()
		k.server = own.Addr()
	}
	// Holdfast's own client would retry for seconds. If nothing listens, most likely the address is wrong.
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", k.server)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", holdfast.ErrUnavailable, err)
	}
	conn.Close()
	ctx, release := terminal.Context(ctx)
	defer release()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := &report{}
	var mu sync.Mutex // guards r
	var all sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, s := range chosen {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			v, err := k.try(ctx, s)
			if err != nil {
				stop(err) // the other verdicts are not needed
			}
			mu.Lock()
			defer mu.Unlock()
			if ctx.Err() == nil {
				r.add(v, s.feature)
				tell(v)
			}
		})
	}
	all.Wait()
	if left := len(scenarios) - len(chosen); left > 0 {
		r.NotJudged = append(r.NotJudged, fmt.Sprintf("%d scenarios that -only leaves out", left))
	}
	r.NotJudged = append(r.NotJudged, neverJudged...)
	return r, context.Cause(ctx)
}

// attempts is the maximum number of runs of a scenario. The scenario runs again if the client failed and this machine stood still
// meanwhile, because then a sound client may fail.
const attempts = 3

// try runs a scenario, and returns an error if there can be no verdict.
func (k *kit) try(ctx context.Context, s scenario) (v verdict, err error) {
	for range attempts {
		watching, stop := context.WithCancel(ctx)
		stood := make(chan time.Duration, 1)
		go func() { stood <- standstill.Until(watching) }()
		v, err = k.tryOnce(ctx, s)
		stop()
		if stillFor := <-stood; err != nil || v.OK || v.Skipped != "" || stillFor == 0 {
			break
		}
	}
	return v, err
}

func (k *kit) tryOnce(ctx context.Context, s scenario) (verdict, error) {
	t, err := k.newTrial(ctx, s)
	if err != nil {
		return verdict{}, err
	}
	problem := caught(func() { s.run(t) })
	if err := t.end(); err != nil {
		return verdict{}, err
	}
	v := verdict{Scenario: s.name, Shows: s.shows, OK: problem == nil}
	var notStarted *exitcode.Error
	var missing missingError
	switch {
	case errors.As(problem, &notStarted):
		return v, problem
	case errors.As(problem, &missing):
		v.Skipped = missing.Error()
	case problem != nil:
		v.Problem, v.Dialogue = problem.Error(), t.said
	}
	return v, nil
}
