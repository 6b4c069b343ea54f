package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

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
		ctx, stop := terminal.Context(ctx)
		defer stop()
		var servers []doctor.Config
		for _, one := range o.servers.All {
			servers = append(servers, doctor.Config{Server: one, Prefix: o.prefix, TTL: ttl, Watch: watch})
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
			admit := locks.Inspector().Admit
			if *force {
				admit = locks.Inspector().ForceAdmit
			}
			switch err := admit(ctx); {
			case errors.Is(err, holdfast.ErrQuarantine):
				return exitcode.Errorf(exitcode.Busy, "%w; until then, lost locks can still be held; --force ends that", err)
			case err != nil && s.AreQuorum():
				return fmt.Errorf("%w; all nodes must be running to be admitted; a quorum that is in use needs no init", err)
			case err != nil:
				return err
			}
			if s.AreQuorum() {
				return printText(stdout, fmt.Sprintf("%s are ready: a quorum of %d nodes, %d of which must agree\n",
					strings.ReplaceAll(s.Addr(), ",", ", "), len(s.All), len(s.All)/2+1))
			}
			return printText(stdout, s.Addr()+" is ready for Strict mode\n")
		})
	}
}
