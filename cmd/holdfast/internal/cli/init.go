package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/job"
)

// initFlags are the flags of holdfast init.
type initFlags struct {
	serverFlags
	maxTTL time.Duration
	force  bool
}

func newInitFlags() *initFlags {
	o := &initFlags{serverFlags: newServerFlags("init"), maxTTL: defaultStrictTTL}
	o.define(oneOrMore)
	o.flags.Var((*seconds)(&o.maxTTL), "max-ttl", "the longest lease `DUR` of any program that uses the server: Config.MaxTTL")
	o.flags.BoolVar(&o.force, "force", false, "end a quarantine: only when all earlier leases have expired")
	return o
}

func initHelp(w io.Writer) {
	fmt.Fprintf(w, `Usage: holdfast init [flags]

Admits a new server to Strict mode (Config.Strict, holdfast run --strict), so that it
grants locks at once instead of after a quarantine. Run it once, by hand. Do not run it
whenever the server starts: a server that has lost its data looks like a new one.

With --redis for each of several servers, or a list in HOLDFAST_REDIS, it admits the
nodes of a quorum. All of them must be running.

A server that is already known and has restarted is in quarantine for --max-ttl: until
then, locks that it may have lost can still be held. --force ends the quarantine.

Flags:
%s
The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, %s.

Exit codes: 0 ready, %d in quarantine, %d wrong usage, %d unavailable, %d refused,
%d the server cannot be used in Strict mode.
`, newInitFlags().flags.FlagUsages(), connect.Default, exitcode.Busy, exitcode.Usage, exitcode.Unavailable, exitcode.Denied, exitcode.Config)
}

func initServers(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) error {
	o := newInitFlags()
	if err := parseOnlyFlags(o.flags, args); err != nil {
		return err
	}
	s, c, err := o.open(stderr)
	if err != nil {
		return err
	}
	defer s.Close()
	cfg := strictConfig(o.maxTTL, o.prefix)
	cfg.Logger = c.Logger()
	locks, err := s.Locks(cfg, 0)
	if err != nil {
		return err
	}
	defer locks.Close(connect.CloseTime)
	if s.AreQuorum() {
		if err := s.CheckDistinct(ctx); err != nil {
			return err
		}
	}
	if err := locks.Admit(ctx, o.force); err != nil {
		return initFailed(c, s.Addr(), err)
	}
	if s.AreQuorum() {
		_, err = fmt.Fprintf(stdout, "%s are ready: a quorum of %d nodes, %d of which must agree\n",
			strings.ReplaceAll(s.Addr(), ",", ", "), len(s.All), len(s.All)/2+1)
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s is ready for Strict mode\n", s.Addr())
	return err
}

// initFailed says why the server at addr, or which nodes of a quorum, were not admitted, and returns how to exit.
func initFailed(c *console.Console, addr string, err error) error {
	var quorum *holdfast.QuorumError
	if !errors.As(err, &quorum) {
		if text := inQuarantine(addr, err); text != "" {
			c.Error(errors.New(text))
			return &exitcode.Error{Code: exitcode.Busy}
		}
		c.Error(err)
		return &exitcode.Error{Code: exitcode.OfLibrary(err).Code}
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
