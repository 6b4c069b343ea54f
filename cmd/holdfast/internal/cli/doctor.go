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

// doctorFlags are the flags of holdfast doctor.
type doctorFlags struct {
	serverFlags
	lease time.Duration
	watch time.Duration
}

func examine(f *pflag.FlagSet) action {
	o := &doctorFlags{lease: 15 * time.Second, watch: time.Second}
	o.define(f)
	f.Var((*seconds)(&o.lease), "ttl", "lease time `DUR` that the server must be good for")
	f.Var((*seconds)(&o.watch), "clock", "watch the server's clock for `DUR`")
	o.defineJSON()
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		if err := checkTTL(o.lease); err != nil {
			return err
		}
		if o.watch > time.Hour {
			return exitcode.Configf("--clock %s: want at most 1h", o.watch)
		}
		if err := o.open(stderr); err != nil {
			return err
		}
		defer o.servers.Close()
		ctx, stop := signals.Context(ctx)
		defer stop()
		found, err := o.examine(ctx)
		if err != nil {
			o.console.Error(o.servers.Explain(err))
			return &exitcode.Error{Code: codeOf(err)}
		}
		found.Redact(o.console.Redact)
		if err := printResult(stdout, o.json, found, found.Text(console.HasStyles(stdout))); err != nil || found.ExitCode == 0 {
			return err
		}
		return &exitcode.Error{Code: found.ExitCode}
	}
}

func (o *doctorFlags) examine(ctx context.Context) (*doctor.Report, error) {
	var nodes []doctor.Config
	for _, one := range o.servers.All {
		nodes = append(nodes, doctor.Config{
			Client: one.Client(), Addr: one.Addr, Sentinel: one.Sentinel, Prefix: o.prefix, TTL: o.lease, Watch: o.watch,
		})
	}
	if o.servers.AreQuorum() {
		return doctor.ExamineQuorum(ctx, nodes)
	}
	return doctor.Examine(ctx, nodes[0])
}

// codeOf is the exit code after an error of a command that names no lock: what is invalid then is the prefix.
func codeOf(err error) int {
	if errors.Is(err, holdfast.ErrInvalid) {
		return exitcode.Config
	}
	return exitcode.OfLibrary(err).Code
}
