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
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/job"
)

const initHelp = `Admits a new server to Strict mode (Config.Strict, holdfast run --strict), so that it
grants locks at once instead of after a quarantine. Run it once, by hand. Do not run it
whenever the server starts: a server that has lost its data looks like a new one.

With --redis for each of several servers, or a list in HOLDFAST_REDIS, it admits the
nodes of a quorum. All of them must be running.

A server that is already known and has restarted is in quarantine for --max-ttl: until
then, locks that it may have lost can still be held, and the exit code is 75. --force ends
the quarantine.
`

func initServers(f *pflag.FlagSet) action {
	o := &serverFlags{strict: true}
	o.define(f)
	f.Var((*seconds)(&o.maxTTL), "max-ttl", "the longest lease `DUR` of any program that uses the server: Config.MaxTTL")
	force := f.Bool("force", false, "end a quarantine: only when all earlier leases have expired")
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		return o.use(ctx, stderr, func(ctx context.Context, locks *connect.Locks) error {
			s := o.servers
			if s.AreQuorum() {
				if err := s.CheckDistinct(ctx); err != nil {
					return err
				}
			}
			if err := locks.Admit(ctx, *force); err != nil {
				return o.notAdmitted(err)
			}
			if s.AreQuorum() {
				return printText(stdout, fmt.Sprintf("%s are ready: a quorum of %d nodes, %d of which must agree\n",
					strings.ReplaceAll(s.Addr(), ",", ", "), len(s.All), len(s.All)/2+1))
			}
			return printText(stdout, s.Addr()+" is ready for Strict mode\n")
		})
	}
}

// notAdmitted says why the server, or which nodes of a quorum, were not admitted, and returns how to exit.
func (o *serverFlags) notAdmitted(err error) error {
	var nodes *quorum.Error
	if !errors.As(err, &nodes) {
		if text := inQuarantine(o.servers.Addr(), err); text != "" {
			return &exitcode.Error{Code: exitcode.Busy, Err: errors.New(text)}
		}
		return err
	}
	code := exitcode.Busy
	for _, n := range nodes.Nodes {
		text := inQuarantine("node "+n.Server, n.Err)
		if text == "" {
			code = exitcode.OfLibrary(err).Code
			text = fmt.Sprintf("node %s: %s", n.Server, job.NodeReason(n.Err))
		}
		o.console.Error(errors.New(text))
	}
	if code == exitcode.Busy {
		return &exitcode.Error{Code: code}
	}
	return &exitcode.Error{Code: code, Err: errors.New("all nodes must be running to be admitted; a quorum that is in use needs no init")}
}

// inQuarantine says that a server is in quarantine. It returns "" if that is not the error.
func inQuarantine(server string, err error) string {
	var quarantined *holdfast.ServerError
	if !errors.Is(err, holdfast.ErrQuarantine) || !errors.As(err, &quarantined) {
		return ""
	}
	return fmt.Sprintf("%s is in quarantine for another %s: it may have lost locks that are still held; --force ends that", server, quarantined.RetryAfter)
}
