package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
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
			return exitcode.Usagef("--clock %s: want at most 1h", watch)
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

func runDemo(f *pflag.FlagSet) action {
	cfg := demo.Config{}
	f.IntVar(&cfg.Workers, "workers", 4, fmt.Sprintf("how many processes compete: `N` from %d to %d", demo.MinWorkers, demo.MaxWorkers))
	f.Uint64Var(&cfg.Seed, "seed", 0, "`N` decides who wins and who has an accident (default: random)")
	f.BoolVar(&cfg.NoLock, "no-lock", false, "draw the lottery without the lock, and see it go wrong: exits with 1")
	f.BoolVar(&cfg.JSON, "json", false, "print only the summary, as one JSON object")
	f.StringVar(&cfg.Picture, "record", "", "draw what the processes recorded into `FILE`: an SVG that plays\na hand-over, the crash and the pause")
	return func(ctx context.Context, _ io.Reader, stdout, _ io.Writer) error {
		cfg.Out = stdout
		if cfg.Workers < demo.MinWorkers || cfg.Workers > demo.MaxWorkers {
			return exitcode.Usagef("--workers %d: want %d to %d", cfg.Workers, demo.MinWorkers, demo.MaxWorkers)
		}
		if cfg.Picture != "" && cfg.NoLock {
			return exitcode.Usagef("--record draws the lock: leave out --no-lock")
		}
		if !f.Changed("seed") {
			cfg.Seed = rand.Uint64()
		}
		ctx, stop := terminal.Context(ctx)
		defer stop()
		return demo.Run(ctx, cfg)
	}
}

func dev(f *pflag.FlagSet) action {
	const example = "127.0.0.1:6379"
	listen := f.String("listen", example, "loopback `ADDRESS` to listen on; port 0 takes a free one")
	return func(ctx context.Context, _ io.Reader, stdout, _ io.Writer) error {
		addr, ip, err := listenAddress("listen", *listen, example)
		if err != nil {
			return err
		}
		if !ip.IsLoopback() {
			return exitcode.Usagef("--listen %s: want a loopback address, such as %s, because the server has no passwords", addr, example)
		}
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		server, err := holdfasttest.NewServer(&holdfasttest.ServerConfig{Listen: addr})
		if err != nil {
			return exitcode.Errorf(exitcode.System, "%w; choose another address with --listen", err)
		}
		defer server.Close()
		if err := printText(stdout, fmt.Sprintf(`holdfast dev: an embedded server, for development only: it stores nothing on disk.
listening on %s; ^C ends it.

    export HOLDFAST_REDIS=redis://%[1]s
    holdfast run -v hello -- echo hello

`, server.Addr())); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
}
