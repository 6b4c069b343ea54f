package cli

import (
	"cmp"
	"context"
	"io"
	"net"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/job"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/sidecar"
)

type electFlags struct {
	jobFlags

	again bool
	terms count
	http  string   // the address
	hosts []string // names that are served there, besides addresses and localhost
	drain time.Duration
}

func elect(f *pflag.FlagSet) action {
	o := &electFlags{drain: time.Second}
	f.BoolVar(&o.again, "again", false, "campaign again also after the command has ended by itself")
	f.Var(&o.terms, "terms", "lead at most `N` times (default no limit)")
	f.StringVar(&o.http, "http", "", "run nothing, and say over HTTP at `ADDRESS`, such as 127.0.0.1:4040, whether this process leads")
	f.StringArrayVar(&o.hosts, "http-host", nil, "with --http, also serve the host `NAME`, besides addresses and localhost")
	f.Var((*seconds)(&o.drain), "drain", "with --http, when told to end, say for `DUR` that it does not lead, and then resign")
	o.defineJob(f, "terminate, or kill, which sends no TERM")
	return func(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
		switch {
		case f.Changed("http"):
			return o.answer(ctx, stderr)
		case f.Changed("http-host"), f.Changed("drain"):
			return exitcode.Usagef("--http-host and --drain need --http")
		}
		if err := o.takeCommand(); err != nil {
			return err
		}
		if err := o.checkJob(keeper.Terminate, keeper.Kill); err != nil {
			return err
		}
		return o.run(ctx, job.Streams{In: stdin, Out: stdout, Err: stderr})
	}
}

func (o *electFlags) run(ctx context.Context, streams job.Streams) error {
	r := &job.Run{}
	return o.start(ctx, streams, r, func() *exitcode.Error {
		candidacy := election.New(r.Locks.Mutex(o.name, o.option(), holdfast.Options()))
		return r.InElection(ctx, &o.job, candidacy, job.Terms{Again: o.again, Most: int(o.terms)})
	})
}

// answer campaigns without a command, and answers over HTTP whether this process leads.
func (o *electFlags) answer(ctx context.Context, stderr io.Writer) error {
	f := o.flags
	for _, other := range []string{"json", "again", "terms", "max-runtime", "on-lost", "kill-after", "lost-exit-code", "shell"} {
		if err := chooseOne(f, "http", other); err != nil {
			return err
		}
	}
	if f.NArg() != 1 || f.Arg(0) == "" {
		return exitcode.Usagef("want one NAME and no command: holdfast elect NAME --http ADDRESS")
	}
	address, _, err := listenAddress("http", o.http, "127.0.0.1:4040")
	if err != nil {
		return err
	}
	if err := o.checkHolder(); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return exitcode.Errorf(exitcode.System, "%w; choose another address with --http", err)
	}
	defer listener.Close()
	return o.use(ctx, stderr, func(ctx context.Context, locks *connect.Locks) error {
		if err := o.servers.CheckAdmitted(ctx, o.prefix, admittedTime); err != nil {
			return err
		}
		candidacy := election.New(locks.Mutex(f.Arg(0), o.option(), holdfast.Options()))
		// A server that cannot be reached now is an error. Later, the campaign waits until an outage is over.
		if _, err := candidacy.Status(ctx); err != nil {
			return err
		}
		if addr, ok := listener.Addr().(*net.TCPAddr); ok && !addr.IP.IsLoopback() {
			o.console.Warnf("everyone who can reach %s can read who leads", addr)
		}
		o.console.Notef("campaigning for %q; http://%s/leader says whether it leads", f.Arg(0), listener.Addr())
		s := &sidecar.Sidecar{
			Election: candidacy, Server: o.servers.Addr(), Key: o.keyOf(f.Arg(0)), Hosts: o.hosts, Drain: o.drain, Console: o.console,
		}
		// Requests are answered until Run returns, while the leader drains, too.
		campaign, endCampaign := context.WithCancelCause(ctx)
		serving, endServing := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() {
			err := serve(serving, listener, s, nil)
			endCampaign(err)
			served <- err
		}()
		err := s.Run(campaign)
		endServing()
		return cmp.Or(<-served, ctx.Err(), err)
	})
}
