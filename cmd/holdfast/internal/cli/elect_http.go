package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/sidecar"
)

// checkHTTP refuses what cannot be used with --http, and completes its address: without a host it is loopback.
func (o *electFlags) checkHTTP() error {
	if o.leader || o.watch {
		return exitcode.Usagef("--http cannot be used with --leader or --watch: ask /leader or /status")
	}
	if err := o.takeNameToAsk("--http", "holdfast elect NAME --http HOST:PORT",
		"again", "terms", "max-runtime", "on-lost", "kill-after", "lost-exit-code", "shell", "json"); err != nil {
		return err
	}
	address, _, err := listenAddress("http", o.http, "127.0.0.1:4040")
	if err != nil {
		return err
	}
	o.http = address
	if err := checkTTL(o.job.TTL); err != nil {
		return err
	}
	if o.quiet && o.verbose {
		return exitcode.Usagef("--quiet and --verbose: choose one")
	}
	return checkMeta(o.meta)
}

// serve campaigns without a command, and says over HTTP whether it leads.
func (o *electFlags) serve(ctx context.Context, stdout, stderr io.Writer) error {
	q := newQuestion(&o.jobFlags, stdout, stderr)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.http)
	if err != nil {
		return &exitcode.Error{Code: exitcode.System, Err: fmt.Errorf("%w; choose another address with --http", err)}
	}
	defer listener.Close()
	closeAll, err := o.openFor(q.Run, o.checkStrict)
	if err != nil {
		return err
	}
	defer closeAll()
	candidacy := election.New(q.Locks.Mutex(o.name, o.option(), holdfast.Options()))
	if exit := q.CheckAdmitted(ctx, o.prefix, 0); exit != nil {
		return exit
	}
	return q.ask(ctx, func(ctx context.Context) *exitcode.Error {
		// A server that cannot be reached now is an error; later, it is an outage to be waited out.
		if _, err := candidacy.Status(ctx); err != nil {
			return q.Failure(err)
		}
		if addr, ok := listener.Addr().(*net.TCPAddr); ok && !addr.IP.IsLoopback() {
			q.Console.Warnf("everyone who can reach %s can read who leads", addr)
		}
		q.Console.Notef("campaigning for %q; http://%s/leader says whether it leads", o.name, listener.Addr())
		s := &sidecar.Sidecar{
			Election: candidacy, Server: q.Servers.Addr(), Key: o.keyOf(o.name), Hosts: o.httpHosts, Drain: o.drain, Console: q.Console,
		}
		err := s.Run(ctx, listener)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, sidecar.ErrServe):
			return &exitcode.Error{Code: exitcode.System, Err: err}
		}
		return q.Failure(err)
	})
}
