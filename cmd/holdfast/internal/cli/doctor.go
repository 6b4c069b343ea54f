package cli

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/signals"
)

const doctorHelp = `Examines a server, or all servers of a Cluster or behind sentinels, or the nodes of a
quorum (--redis for each), and says what about them endangers locks: what it saw, what
that means for locks, and what to do. It takes locks on a throwaway name, and leaves
nothing behind but the fence counter. What this user may not ask is reported as not
checked.

Checks, by their ids in --json:
  version        is the server's version known, and supported
  trial          acquire, renew, release and hand over a lock on a throwaway name
  replication    is it a master; can a failover lose locks; min-replicas-to-write
  topology       are all slots served (Cluster); do sentinels have a quorum (Sentinel)
  failover       does the TTL outlast a failover (Sentinel, Cluster)
  identity       do all connections lead to the same server
  quorum         several servers: how many, separate, admitted, not in quarantine, near
  eviction       can the server delete locks when its memory is full
  persistence    what does a restart forget; do saves fail
  clock          does its clock jump, differ between servers
  pubsub         does a notification arrive; does the server know its subscribers
  acl            may this user send all commands that locks need
  latency        round trip; acquire and release, compared with the TTL
  native         commands that compare: DELEX, DELIFEQ, SET IFEQ

Exit codes of its own:
    0  nothing worse than a note
    1  warnings: locks work, but a fault can break their promise
    2  problems: locks do not work, or do not hold
    3  none of these, but a check was impossible without which the server is not
       known to be safe: ask as a user that may send INFO and CONFIG GET
`

func examine(f *pflag.FlagSet) action {
	o, ttl, watch := &serverFlags{}, 15*time.Second, time.Second
	o.define(f)
	f.Var((*seconds)(&ttl), "ttl", "lease time `DUR` that the server must be good for")
	f.Var((*seconds)(&watch), "clock", "watch the server's clock for `DUR`")
	o.defineJSON()
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		if err := checkTTL(ttl); err != nil {
			return err
		}
		if watch > time.Hour {
			return exitcode.Configf("--clock %s: want at most 1h", watch)
		}
		if err := o.open(console.New(stderr, o.level)); err != nil {
			return err
		}
		defer o.servers.Close()
		ctx, stop := signals.Context(ctx)
		defer stop()
		var servers []doctor.Config
		for _, one := range o.servers.All {
			servers = append(servers, doctor.Config{
				Client: one.Client, Addr: one.Addr, Sentinel: one.Sentinel, Prefix: o.prefix, TTL: ttl, Watch: watch,
			})
		}
		found, err := doctor.Examine(ctx, servers)
		if err != nil {
			exit := exitcode.OfLibrary(err)
			if errors.Is(err, holdfast.ErrInvalid) {
				exit.Code = exitcode.Config // the prefix is invalid: no lock is named
			}
			exit.Err = o.servers.Explain(err)
			return &exitcode.Error{Code: o.console.Exit(exit)}
		}
		found.Redact(o.console.Redact)
		if err := printResult(stdout, o.json, found, found.Text(console.HasStyles(stdout))); err != nil {
			return err
		}
		return &exitcode.Error{Code: found.ExitCode}
	}
}
