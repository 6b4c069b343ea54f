package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/quorum"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/job"
)

const initHelp = `Usage: holdfast init [flags]

Admits a new server to Strict mode (Config.Strict, holdfast run --strict), so that it
grants locks at once instead of after a quarantine. Run it once, by hand. Do not run it
whenever the server starts: a server that has lost its data looks like a new one.

With --redis for each of several servers, or a list in HOLDFAST_REDIS, it admits the
nodes of a quorum. All of them must be running.

A server that is already known and has restarted is in quarantine for --max-ttl: until
then, locks that it may have lost can still be held. --force ends the quarantine.

Flags:
{flags}

The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, redis://127.0.0.1:6379.

Exit codes: 0 ready, 75 in quarantine, 64 wrong usage, 69 unavailable, 77 refused,
78 the server cannot be used in Strict mode.
`

func initServers(f *pflag.FlagSet) action {
	o := &serverFlags{}
	o.define(f, oneOrMore)
	o.strict = true
	f.Var((*seconds)(&o.maxTTL), "max-ttl", "the longest lease `DUR` of any program that uses the server: Config.MaxTTL")
	force := f.Bool("force", false, "end a quarantine: only when all earlier leases have expired")
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		if err := o.open(stderr); err != nil {
			return err
		}
		s := o.servers
		return o.use(ctx, o.config(s, o.prefix), func(ctx context.Context, locks *connect.Locks) error {
			if s.AreQuorum() {
				if err := s.CheckDistinct(ctx); err != nil {
					return err
				}
			}
			if err := locks.Admit(ctx, *force); err != nil {
				return initFailed(o.console, s.Addr(), err)
			}
			if s.AreQuorum() {
				return printText(stdout, fmt.Sprintf("%s are ready: a quorum of %d nodes, %d of which must agree\n",
					strings.ReplaceAll(s.Addr(), ",", ", "), len(s.All), len(s.All)/2+1))
			}
			return printText(stdout, s.Addr()+" is ready for Strict mode\n")
		})
	}
}

// initFailed says why the server at addr, or which nodes of a quorum, were not admitted, and returns how to exit.
func initFailed(c *console.Console, addr string, err error) error {
	var quorum *quorum.Error
	if !errors.As(err, &quorum) {
		if text := inQuarantine(addr, err); text != "" {
			c.Error(errors.New(text))
			return &exitcode.Error{Code: exitcode.Busy}
		}
		return err
	}
	waiting := 0
	for _, n := range quorum.Nodes {
		if text := inQuarantine("node "+n.Server, n.Err); text != "" {
			waiting++
			c.Error(errors.New(text))
			continue
		}
		c.Error(fmt.Errorf("node %s: %s", n.Server, job.NodeReason(n.Err)))
	}
	if waiting == len(quorum.Nodes) {
		return &exitcode.Error{Code: exitcode.Busy}
	}
	c.Error(errors.New("all nodes must be running to be admitted; a quorum that is in use needs no init"))
	return &exitcode.Error{Code: exitcode.OfLibrary(err).Code}
}

// inQuarantine says that a server is in quarantine. It returns "" if that is not the error.
func inQuarantine(server string, err error) string {
	var quarantined *holdfast.ServerError
	if !errors.Is(err, holdfast.ErrQuarantine) || !errors.As(err, &quarantined) {
		return ""
	}
	return fmt.Sprintf("%s is in quarantine for another %s: it may have lost locks that are still held; --force ends that", server, quarantined.RetryAfter)
}
