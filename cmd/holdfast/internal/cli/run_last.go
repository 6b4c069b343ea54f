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

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/job"
)

// lastFlags are the flags that can be used with --last: they say where the record is, and how to print it.
var lastFlags = []string{"last", "once", "once-key", "redis", "prefix", "strict", "max-ttl", "json", "quiet", "verbose", "help"}

// checkLast refuses what cannot be used with --last.
func (o *runFlags) checkLast() (err error) {
	f := o.flags
	f.Visit(func(given *pflag.Flag) {
		if err == nil && !slices.Contains(lastFlags, given.Name) {
			err = exitcode.Usagef("--%s cannot be used with --last", given.Name)
		}
	})
	if err == nil {
		err = o.takeNameToAsk("--last", "holdfast "+f.Name()+" --last NAME")
	}
	switch {
	case err != nil:
		return err
	case f.Changed("once") && o.once < time.Millisecond:
		return exitcode.Usagef("--once %s: want at least 1ms", o.once)
	case f.Changed("once-key") && o.onceKey == "":
		return exitcode.Usagef("--once-key is empty")
	}
	if o.once == 0 {
		o.once = time.Millisecond // does not matter: any run is looked for
	}
	return nil
}

// lastRun is the answer to --last.
type lastRun struct {
	Time   time.Time    `json:"time"`
	Name   string       `json:"name"`
	Server string       `json:"server"`
	Key    string       `json:"key,omitempty"` // of --once-key
	Run    *job.PastRun `json:"run"`           // null if none is known
}

// last answers --last: which run was completed last. It exits with 1 if none is known or, with --once, if none counts
// now.
func last(ctx context.Context, o *runFlags, stdout, stderr io.Writer) error {
	q := newQuestion(&o.jobFlags, stdout, stderr)
	closeAll, err := o.openFor(q.Run, o.checkServers)
	if err != nil {
		return err
	}
	defer closeAll()
	return q.ask(ctx, func(ctx context.Context) *exitcode.Error {
		run, err := o.onceJob(q.Locks, holdfast.Options()).Last(ctx)
		counts := run.Current || !o.flags.Changed("once")
		answer := lastRun{Time: time.Now(), Name: o.name, Server: q.Servers.Addr(), Key: o.onceKey}
		text := fmt.Sprintf("no completed run of job %q is known\n", o.name)
		switch {
		case err == nil:
			answer.Run = job.NewPastRun(run)
			text = fmt.Sprintf("%s, fence %d, try %d\n", job.DescribeRun(o.name, run), run.Fence, run.Try)
		case errors.Is(err, holdfast.ErrOnceNone):
			counts = false
		default:
			return q.Failure(err)
		}
		if exit := q.answer(text, answer); exit != nil || counts {
			return exit
		}
		return &exitcode.Error{Code: exitcode.None}
	})
}
