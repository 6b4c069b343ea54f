package cli

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/signals"
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
		ctx, stop := signals.Context(ctx)
		defer stop()
		return demo.Run(ctx, cfg)
	}
}
