package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/conformance"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/screen"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/signals"
)

const conformanceText = `Judges a client of the protocol (docs/PROTOCOL.md) that you wrote, in any language. It
takes locks beside Holdfast's own client, on one server, and its network fails.

CLIENT is started several times for each scenario, with two more arguments: the HOST:PORT
of a server, and the name of a lock. It prints ready, followed by rwmutex if it implements
read-write locks, and by semaphore if it implements semaphores. Scenarios of a kind that it
does not implement are SKIPPED. Then it reads one command a line and prints one answer a
line:

  try TTL_MS      acquire the lock without waiting: granted FENCE, or held
  acquire TTL_MS [WITHIN_MS]
                  wait for the lock: granted FENCE; or held, if WITHIN_MS is over
  try-read, acquire-read, try-write, acquire-write TTL_MS
                  the same for a reader or the writer of a read-write lock of that name
  try-permit, acquire-permit TTL_MS
                  the same for one permit of a semaphore of that name with two permits
  release         released, or lost
  holds           whether the lease is valid, without asking the server: yes or no

Instead of an answer the client may print error and a text, and continue. It renews its
lease until it is told to release it. Its standard error is shown. examples/python has
such a client.

While the network fails, the client still reads commands. It answers holds at once, from
what it knows. Its answer to try or acquire may take as long as its retries, and may be
error. It answers release with lost if the lease is lost or its deadline has passed. At
the end of its input it exits within 5 seconds; it need not release the lock.

Scenarios:
{scenarios}
Report (--json): ok, passed, skipped, not_judged and verdicts. Each verdict has scenario,
  shows and ok. If the client failed, it has problem and dialogue, the end of what was
  said; if the scenario was not judged, skipped says why.

Exit codes: 0 all judged scenarios passed, 1 some failed or none was judged,
64 wrong usage, 69 server unavailable, 127 the client was not found,
130 interrupted (INT; also 129, 131, 143).
`

func conformanceHelp() string { return strings.Replace(conformanceText, "{scenarios}", scenarios(), 1) }

// scenarios lists the scenarios for the help.
func scenarios() string {
	var all strings.Builder
	for _, s := range conformance.Scenarios() {
		fmt.Fprintf(&all, "  %-17s %s\n", s.Scenario, s.Shows)
	}
	return all.String()
}

func judgeClient(f *pflag.FlagSet) action {
	cfg := conformance.Config{For: 5 * time.Second, Answer: time.Minute}
	f.StringVar(&cfg.Server, "server", "", "`HOST:PORT` of a server to use, without a password (default: one in this process)")
	f.StringSliceVar(&cfg.Only, "only", nil, "only these `SCENARIOS`, separated by commas")
	f.Var((*seconds)(&cfg.For), "for", "let processes compete for `DUR`")
	f.Var((*seconds)(&cfg.Answer), "answer", "an answer may take `DUR`; only programs that hang take so long")
	json := f.Bool("json", false, "print only the report, as one JSON object")
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		switch {
		case f.ArgsLenAtDash() != 0 || f.NArg() == 0:
			return exitcode.Usagef("want the client after --: holdfast conformance [flags] -- CLIENT [ARGS...]")
		case cfg.For <= 0 || cfg.For > time.Hour:
			return exitcode.Usagef("--for %s: want more than 0, and at most 1h", cfg.For)
		case cfg.Answer < 5*time.Second:
			return exitcode.Usagef("--answer %s: want at least 5s", cfg.Answer)
		}
		var known []string
		for _, s := range conformance.Scenarios() {
			known = append(known, s.Scenario)
		}
		for _, name := range cfg.Only {
			if !slices.Contains(known, name) {
				return exitcode.Usagef("--only %s: the scenarios are %s", name, strings.Join(known, ", "))
			}
		}
		cfg.Command, cfg.Messages = f.Args(), stderr
		return judge(ctx, cfg, *json, stdout, stderr)
	}
}

func judge(ctx context.Context, cfg conformance.Config, asJSON bool, stdout, stderr io.Writer) error {
	scr := screen.New(stdout)
	if !asJSON {
		cfg.Tell = func(v conformance.Verdict) { tellVerdict(scr, v) }
	}
	ctx, stop := signals.Context(ctx)
	defer stop()
	report, err := conformance.Run(ctx, cfg)
	if err != nil {
		console.New(stderr, console.Normal).Error(err)
		return &exitcode.Error{Code: conformanceCode(err)}
	}
	if asJSON {
		if err := printJSON(stdout, report); err != nil {
			return err
		}
	} else {
		scr.Line("")
		summary := fmt.Sprintf("%d of %d scenarios passed", report.Passed, len(report.Verdicts))
		if report.Skipped > 0 {
			summary += fmt.Sprintf(", %d SKIPPED: not judged", report.Skipped)
		}
		scr.Line(summary)
		scr.Line("not judged: " + strings.Join(report.NotJudged, ", "))
	}
	if !report.OK {
		return &exitcode.Error{Code: exitcode.None}
	}
	return nil
}

func tellVerdict(scr *screen.Screen, v conformance.Verdict) {
	word := scr.Green("ok     ")
	switch {
	case v.Skipped != "":
		word = scr.Yellow("SKIPPED")
	case !v.OK:
		word = scr.Red("FAILED ")
	}
	scr.Line(fmt.Sprintf("%s  %-17s %s", word, v.Scenario, scr.Dim(v.Shows)))
	if v.OK {
		return
	}
	scr.Line("         " + cmp.Or(v.Skipped, v.Problem))
	for _, line := range v.Dialogue {
		scr.Line(scr.Dim("         " + line))
	}
}

func conformanceCode(err error) int {
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, conformance.ErrNotStarted) && errors.Is(err, fs.ErrNotExist):
		return exitcode.NotFound
	case errors.Is(err, conformance.ErrNotStarted):
		return exitcode.NotRunnable
	}
	return exitcode.OfLibrary(err).Code
}
