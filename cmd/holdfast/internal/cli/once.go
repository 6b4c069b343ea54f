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

const onceHelp = `Says which run of the job NAME was completed last, of those with holdfast run --once, and
of programs that use the library's Once. If there is none, the exit code is 1. A run without
--once-key is remembered for 30 days after its DUR; runs with a key are recorded apart, each
for its DUR. To run a job once, see holdfast help run.

  holdfast once nightly
  holdfast once --once 26h nightly || echo "nightly has not run since yesterday"
`

// onceFlags are the flags of holdfast once.
type onceFlags struct {
	serverFlags
	window time.Duration
	key    string
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
	o.lacks, o.role = "which keeps no record of jobs: name one server", "locker"
	f.Var((*seconds)(&o.window), "once", "exit with 0 only if it was completed in the last `DUR`")
	f.StringVar(&o.key, "once-key", "", "only runs with this `KEY`")
	o.define(f)
	o.defineJSON()
	o.defineStrict()
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		if err := checkOnce(f, o.window, o.key); err != nil {
			return err
		}
		return o.use(ctx, stderr, func(ctx context.Context, locks *connect.Locks) error { return o.tell(ctx, locks.Client(), stdout) })
	}
}

// checkOnce refuses values of --once and --once-key that mean nothing.
func checkOnce(f *pflag.FlagSet, window time.Duration, key string) error {
	switch {
	case f.Changed("once") && window < time.Millisecond:
		return exitcode.Usagef("--once %s: want at least 1ms", window)
	case f.Changed("once-key") && key == "":
		return exitcode.Usagef("--once-key is empty")
	}
	return nil
}

// tell prints which run was completed last. It exits with 1 if none is known or, with --once, if none counts now.
func (o *onceFlags) tell(ctx context.Context, client *holdfast.Client, stdout io.Writer) error {
	name := o.flags.Arg(0)
	window := once.Every(max(o.window, time.Millisecond)) // without --once it does not matter: any run is looked for
	if o.key != "" {
		window = once.Slot(o.key, max(o.window, time.Millisecond))
	}
	run, err := once.New(client, name, window).Last(ctx)
	answer := lastRun{Time: time.Now(), Name: name, Server: o.servers.Addr(), Key: o.key}
	text := fmt.Sprintf("no completed run of job %q is known\n", name)
	switch {
	case err == nil:
		answer.Run = job.NewPastRun(run)
		text = fmt.Sprintf("%s, fence %d, try %d\n", job.DescribeRun(name, run), run.Fence, run.Try)
	case !errors.Is(err, once.ErrNone):
		return err
	}
	if err := printResult(stdout, o.json, answer, text); err != nil {
		return err
	}
	if answer.Run == nil || o.flags.Changed("once") && !run.Current {
		return &exitcode.Error{Code: exitcode.None}
	}
	return nil
}
