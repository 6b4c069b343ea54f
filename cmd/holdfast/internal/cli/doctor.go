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
