package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

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
