package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"

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

func elect(f *pflag.FlagSet) action {
	o := &electFlags{drain: time.Second}
	f.BoolVar(&o.leader, "leader", false, "say who leads, and run nothing")
	f.BoolVar(&o.watch, "watch", false, "say who leads, now and after every change, and run nothing")
	f.BoolVar(&o.again, "again", false, "campaign again also after the command has ended by itself")
	f.Var(&o.terms, "terms", "lead at most `N` times (default: no limit)")
	f.StringVar(&o.http, "http", "", "run nothing, and say over HTTP at `ADDRESS`, such as 127.0.0.1:4040, whether this\nprocess leads")
	f.StringArrayVar(&o.httpHosts, "http-host", nil, "with --http, also serve the host `NAME`, besides addresses and localhost; may be\nrepeated")
	f.Var((*seconds)(&o.drain), "drain", "with --http, when told to end, say for `DUR` that it does not lead, and then resign")
	o.defineJob(f, "`ACTION` if the term is lost: terminate, or kill, which sends no TERM")
	return func(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
		if err := o.check(); err != nil {
			return err
		}
		switch {
		case o.http != "":
			return o.serve(ctx, stdout, stderr)
		case o.leader, o.watch:
			return o.tellLeader(ctx, stdout, stderr)
		}
		return o.run(ctx, job.Streams{In: stdin, Out: stdout, Err: stderr})
	}
}

func (o *electFlags) check() error {
	switch {
	case o.flags.Changed("http"):
		return o.checkHTTP()
	case o.flags.Changed("http-host"), o.flags.Changed("drain"):
		return exitcode.Usagef("--http-host and --drain need --http")
	case o.leader || o.watch:
		return o.checkLeader()
	}
	if err := o.takeCommand(); err != nil {
		return err
	}
	if err := o.checkJob(keeper.Terminate, keeper.Kill); err != nil {
		return err
	}
	return o.checkTimes()
}

func (o *electFlags) run(ctx context.Context, streams job.Streams) error {
	r := &job.Run{Name: o.name, Prefix: o.prefix, Streams: streams, Advice: o.advice}
	return job.Main(r, o.level(), o.json, func() *exitcode.Error {
		closeAll, err := o.openFor(r, o.checkStrict)
		if err != nil {
			return exitcode.As(err)
		}
		defer closeAll()
		if exit := o.job.Prepare(); exit != nil {
			return exit
		}
		candidacy := election.New(r.Locks.Mutex(o.name, o.option(), holdfast.Options()))
		if exit := r.CheckAdmitted(ctx, o.prefix, 0); exit != nil {
			return exit
		}
		return r.InElection(ctx, &o.job, candidacy, job.Terms{Again: o.again, Most: int(o.terms)})
	})
}
