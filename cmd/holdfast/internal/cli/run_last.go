package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// besideLast are the flags that go with --last: those that say where the record is, and how to print it.
var besideLast = []string{"last", "once", "once-key", "redis", "prefix", "strict", "max-ttl", "json", "quiet", "verbose", "help"}

// checkLast refuses what does not go with --last.
func (o *runOptions) checkLast() (err error) {
	f := o.flags
	f.Visit(func(given *pflag.Flag) {
		if err == nil && !slices.Contains(besideLast, given.Name) {
			err = usageError("--%s has no meaning with --last", given.Name)
		}
	})
	switch {
	case err != nil:
		return err
	case f.ArgsLenAtDash() >= 0 && f.NArg() > f.ArgsLenAtDash():
		return usageError("--last runs no command: leave -- and what follows away")
	case f.NArg() != 1:
		return usageError("there is one NAME, not %d arguments: holdfast run --last NAME", f.NArg())
	case f.Arg(0) == "":
		return usageError("NAME is empty")
	case o.json != "" && o.json != toStderr:
		return usageError("--json of --last goes to standard output: leave =FILE away")
	case f.Changed("once") && o.once < time.Millisecond:
		return usageError("--once %s: want at least 1ms", o.once)
	case f.Changed("once-key") && o.onceKey == "":
		return usageError("--once-key is empty")
	}
	o.name = f.Arg(0)
	if o.once == 0 {
		o.once = time.Millisecond // of no account: any run is looked for
	}
	return nil
}

// record is the latest run of a job, as --json tells it.
type record struct {
	Time   time.Time `json:"time"`
	Name   string    `json:"name"`
	Server string    `json:"server"`
	Key    string    `json:"key,omitempty"` // of --once-key
	Run    *pastRun  `json:"run"`           // null: none is known
}

// last says which run of a job was completed last.
func last(ctx context.Context, o *runOptions, stdout, stderr io.Writer) error {
	r := newRunner(o, nil, stdout, stderr)
	return r.inquire(ctx, func(ctx context.Context, _ *locker) *exitError {
		run, err := r.job(0).Last(ctx)
		counts := run.Current || !o.flags.Changed("once")
		seen := record{Time: time.Now(), Name: r.name, Server: r.report.Server, Key: r.onceKey}
		text := fmt.Sprintf("no completed run of job %q is known\n", r.name)
		switch {
		case err == nil:
			seen.Run = newPastRun(run)
			text = fmt.Sprintf("%s, fence %d, try %d\n", r.completion(run), run.Fence, run.Try)
		case errors.Is(err, holdfast.ErrOnceNone):
			counts = false
		default:
			return r.failure(err)
		}
		if exit := r.answer(text, seen); exit != nil || counts {
			return exit
		}
		return &exitError{exitNone, nil}
	})
}

// completion says when a run was completed, and by whom.
func (r *runner) completion(run holdfast.Completion) string {
	return fmt.Sprintf("job %q was completed at %s by %s (pid %d on %s)", r.name, run.Time.Local().Format(time.DateTime),
		printable.Word(run.Owner, maxShown), run.PID, printable.Word(run.Host, maxShown))
}
