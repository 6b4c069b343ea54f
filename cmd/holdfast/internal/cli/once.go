package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

// newOnceFlags are the flags of holdfast once, a part of those of holdfast run.
func newOnceFlags() *runFlags {
	o := &runFlags{jobFlags: jobFlags{serverFlags: newServerFlags("once"), maxTTL: defaultStrictTTL}}
	f := o.flags
	f.BoolVar(&o.last, "last", false, "say which run was completed last, which is all that this command does")
	f.Var((*seconds)(&o.once), "once", "exit with 0 only if it was completed in the last `DUR`")
	f.StringVar(&o.onceKey, "once-key", "", "only runs with this `KEY`")
	f.Bool("json", false, "print it as one line of JSON on standard output")
	o.define("`URL` of the server, as for holdfast run; only one, a Cluster, or a master\nbehind Sentinel")
	f.BoolVar(&o.strict, "strict", false, "Strict mode, as for holdfast run")
	f.Var((*seconds)(&o.maxTTL), "max-ttl", "with --strict, the longest lease `DUR` of any program that uses the server")
	return o
}

func onceHelp(w io.Writer) {
	fmt.Fprintf(w, `Usage: holdfast once [flags] --last NAME

Says which run of the job NAME was completed last, of those with holdfast run --once, and
of programs that use the library's Once. holdfast run --last NAME is the same; to run a
job once, see holdfast help run.

  holdfast once --last nightly
  holdfast once --last --once 26h nightly || echo "nightly has not run since yesterday"

Flags:
%s
The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, %s.

JSON: time, name, server, key, and run, which is null or has completed, owner, host, pid,
  fence and try.

Exit codes: 0 there is such a run, %d there is none, %d wrong usage, %d unavailable,
%d refused, %d wrong configuration, %d interrupted (INT; also 129, 131, 143).
`, newOnceFlags().flags.FlagUsages(), connect.Default, exitcode.None, exitcode.Usage, exitcode.Unavailable, exitcode.Denied, exitcode.Config,
		exitcode.Signal+2)
}

func once(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) error {
	o := newOnceFlags()
	if err := parse(o.flags, args); err != nil {
		return err
	}
	if !o.last {
		return exitcode.Usagef("want holdfast once --last NAME; to run a job once, holdfast run --once DUR NAME -- CMD")
	}
	if o.flags.Changed("json") {
		o.json = "-"
	}
	o.job.TTL = min(15*time.Second, o.maxTTL)
	if err := o.checkLast(); err != nil {
		return err
	}
	return last(ctx, o, stdout, stderr)
}
