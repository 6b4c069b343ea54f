package cli

import (
	"context"
	"io"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/job"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
)

// electFlags are the flags and arguments of holdfast elect.
type electFlags struct {
	jobFlags

	again  bool
	terms  count
	leader bool
	watch  bool

	http      string // the address
	httpHosts []string
	drain     time.Duration
}

func newElectFlags() *electFlags {
	o := &electFlags{jobFlags: jobFlags{serverFlags: newServerFlags("elect")}, drain: time.Second}
	f := o.flags
	f.BoolVar(&o.leader, "leader", false, "say who leads, and run nothing")
	f.BoolVar(&o.watch, "watch", false, "say who leads, now and after every change, and run nothing")
	f.BoolVar(&o.again, "again", false, "campaign again also after the command has ended by itself")
	f.Var(&o.terms, "terms", "lead at most `N` times (default: no limit)")
	f.StringVar(&o.http, "http", "", "run nothing, and say over HTTP at `ADDRESS`, such as 127.0.0.1:4040, whether this\nprocess leads")
	f.StringArrayVar(&o.httpHosts, "http-host", nil, "with --http, also serve the host `NAME`, besides addresses and localhost; may be\nrepeated")
	f.Var((*seconds)(&o.drain), "drain", "with --http, when told to end, say for `DUR` that it does not lead, and then resign")
	o.defineJob("`ACTION` if the term is lost: terminate, or kill, which sends no TERM")
	return o
}

func parseElect(args []string) (*electFlags, error) {
	o := newElectFlags()
	if err := parse(o.flags, args); err != nil || o.help {
		return o, err
	}
	switch {
	case o.flags.Changed("http"):
		return o, o.checkHTTP()
	case o.flags.Changed("http-host"), o.flags.Changed("drain"):
		return o, exitcode.Usagef("--http-host and --drain need --http")
	case o.leader || o.watch:
		return o, o.checkLeader()
	}
	if err := o.takeCommand(); err != nil {
		return o, err
	}
	if err := o.checkJob(keeper.Terminate, keeper.Kill); err != nil {
		return o, err
	}
	return o, o.checkTimes()
}

func elect(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	o, err := parseElect(args)
	switch {
	case o.help:
		electHelp(stdout)
		return nil
	case err != nil:
		return err
	case o.http != "":
		return o.serve(ctx, stdout, stderr)
	case o.leader, o.watch:
		return leader(ctx, o, stdout, stderr)
	}
	r := &job.Run{Name: o.name, Prefix: o.prefix, Streams: job.Streams{In: stdin, Out: stdout, Err: stderr}, Advice: o.advice}
	return job.Main(r, o.level(), o.json, func() *exitcode.Error {
		closeAll, err := o.openFor(r, o.checkStrict)
		if err != nil {
			return exitcode.As(err)
		}
		defer closeAll()
		if exit := o.job.Prepare(); exit != nil {
			return exit
		}
		election := r.Locks.Election(o.name, o.option())
		if exit := r.CheckAdmitted(ctx, o.prefix, 0); exit != nil {
			return exit
		}
		return r.InElection(ctx, &o.job, election, job.Terms{Again: o.again, Most: int(o.terms)})
	})
}
