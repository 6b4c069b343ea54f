package cli

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/holdfasttest"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

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
