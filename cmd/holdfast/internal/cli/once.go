package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/once"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/job"
)

const onceHelp = `Usage: holdfast once [flags] NAME

Says which run of the job NAME was completed last, of those with holdfast run --once, and
of programs that use the library's Once. A run without --once-key is remembered for 30 days
after its DUR; runs with a key are recorded apart, each for its DUR. To run a job once, see
holdfast help run.

  holdfast once nightly
  holdfast once --once 26h nightly || echo "nightly has not run since yesterday"

Flags:
{flags}

The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, redis://127.0.0.1:6379.

JSON: time, name, server, key, and run, which is null or has completed, identity, host, pid,
  fence and try.

Exit codes: 0 there is such a run, 1 there is none, 64 wrong usage, 69 unavailable,
77 refused, 78 wrong configuration, 130 interrupted (INT; also 129, 131, 143).
`

// onceFlags are the flags and arguments of holdfast once.
type onceFlags struct {
	serverFlags
	name   string
	window time.Duration
	key    string
	json   bool
}

// lastRun is what --json prints.
type lastRun struct {
	Time   time.Time    `json:"time"`
	Name   string       `json:"name"`
	Server string       `json:"server"`
	Key    string       `json:"key,omitempty"` // of --once-key
	Run    *job.PastRun `json:"run"`           // null if none is known
}

func onceAction(f *pflag.FlagSet) action {
	o := &onceFlags{}
	f.Var((*seconds)(&o.window), "once", "exit with 0 only if it was completed in the last `DUR`")
	f.StringVar(&o.key, "once-key", "", "only runs with this `KEY`")
	f.BoolVar(&o.json, "json", false, "print it as one line of JSON on standard output")
	o.lacks = "which keeps no record of jobs: name one server"
	o.define(f, onlyOne)
	o.defineStrict("Strict mode, as for holdfast run")
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		o.name = f.Arg(0)
		switch {
		case f.Changed("once") && o.window < time.Millisecond:
			return exitcode.Usagef("--once %s: want at least 1ms", o.window)
		case f.Changed("once-key") && o.key == "":
			return exitcode.Usagef("--once-key is empty")
		}
		if err := o.open(stderr); err != nil {
			return err
		}
		return o.use(ctx, o.config(o.servers, o.prefix), func(ctx context.Context, locks *connect.Locks) error {
			if err := o.checkMaxTTL(o.servers, minTTL); err != nil {
				return err
			}
			return o.tell(ctx, locks.Client(), stdout)
		})
	}
}

// tell prints which run was completed last. It exits with 1 if none is known or, with --once, if none counts now.
func (o *onceFlags) tell(ctx context.Context, client *holdfast.Client, stdout io.Writer) error {
	window := once.Every(max(o.window, time.Millisecond)) // without --once it does not matter: any run is looked for
	if o.key != "" {
		window = once.Slot(o.key, max(o.window, time.Millisecond))
	}
	run, err := once.New(client, o.name, window).Last(ctx)
	counts := run.Current || !o.flags.Changed("once")
	answer := lastRun{Time: time.Now(), Name: o.name, Server: o.servers.Addr(), Key: o.key}
	text := fmt.Sprintf("no completed run of job %q is known\n", o.name)
	switch {
	case err == nil:
		answer.Run = job.NewPastRun(run)
		text = fmt.Sprintf("%s, fence %d, try %d\n", job.DescribeRun(o.name, run), run.Fence, run.Try)
	case errors.Is(err, once.ErrNone):
		counts = false
	default:
		return advised(err, mismatchAdvice("once", err))
	}
	if err := printResult(stdout, o.json, answer, text); err != nil || counts {
		return err
	}
	return &exitcode.Error{Code: exitcode.None}
}
