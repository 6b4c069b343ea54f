package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/once"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/job"
)

// lastRun is what --json prints.
type lastRun struct {
	Time   time.Time    `json:"time"`
	Name   string       `json:"name"`
	Server string       `json:"server"`
	Key    string       `json:"key,omitempty"` // of --once-key
	Run    *job.PastRun `json:"run"`           // null if no run is known
}

func onceAction(f *pflag.FlagSet) action {
	o := &serverFlags{lacks: "which keeps no record of jobs: name one server", role: "locker"}
	var window time.Duration
	f.Var((*seconds)(&window), "once", "exit with 0 only if it was completed in the last `DUR`")
	key := f.String("once-key", "", "only runs with this `KEY`")
	o.define(f)
	o.defineJSON()
	o.defineStrict()
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		if err := checkOnce(f, window, *key); err != nil {
			return err
		}
		name, every := f.Arg(0), max(window, time.Millisecond) // without --once, runs of any age are looked for
		w := once.Every(every)
		if *key != "" {
			w = once.Slot(*key, every)
		}
		return o.use(ctx, stderr, func(ctx context.Context, locks *connect.Locks) error {
			run, err := once.New(locks.Client(), name, w).Last(ctx)
			answer := lastRun{Time: time.Now(), Name: name, Server: o.servers.Addr(), Key: *key}
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
			if answer.Run == nil || f.Changed("once") && !run.Current {
				return &exitcode.Error{Code: exitcode.None}
			}
			return nil
		})
	}
}

func checkOnce(f *pflag.FlagSet, window time.Duration, key string) error {
	switch {
	case f.Changed("once") && window < time.Millisecond:
		return exitcode.Usagef("--once %s: want at least 1ms", window)
	case f.Changed("once-key") && key == "":
		return exitcode.Usagef("--once-key is empty")
	}
	return nil
}
