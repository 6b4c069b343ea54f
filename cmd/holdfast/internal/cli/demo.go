package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/signals"
)

// fromEnvironment, as the value of --redis, means what other commands do without that flag. The demo does not use
// HOLDFAST_REDIS unless it is told to: people who only look around may not want to work on that server.
const fromEnvironment = "env"

const demoHelp = `Shows in about 10 seconds what the lock does, with processes of its own. They compete to
draw 10 winners, each exactly once. Then all of them keep a ledger, while one that holds
the lock is killed with -9, and another is paused for longer than its lease and woken.
At the end, the demo checks what all of them recorded.

On a server of yours, its keys begin with holdfast:demo: and a random part, and are
deleted at the end, even after ^C.

Exit codes: 0 every check passed, 1 a check failed, 64 wrong usage, 69 server
unavailable, 73 FILE cannot be written, 77 credentials or a command refused, 78 wrong
configuration, 130 interrupted.
`

func runDemo(f *pflag.FlagSet) action {
	cfg := demo.Config{Open: openDemo}
	f.StringVar(&cfg.URL, "redis", "", "`URL` of a server to use; env: the one of HOLDFAST_REDIS or REDIS_URL\n(default: a server in this process)")
	f.IntVar(&cfg.Workers, "workers", 4, fmt.Sprintf("how many processes compete: `N` from %d to %d", demo.MinWorkers, demo.MaxWorkers))
	f.Uint64Var(&cfg.Seed, "seed", 0, "`N` decides who wins and who has an accident (default: random)")
	f.BoolVar(&cfg.NoLock, "no-lock", false, "draw the lottery without the lock, and see it go wrong: exits with 1")
	f.BoolVar(&cfg.JSON, "json", false, "print only the summary, as one JSON object")
	record := f.String("record", "", "draw what the processes recorded into `FILE`: an SVG that plays\na hand-over, the crash and the pause")
	recordScreen := f.String("record-screen", "", "record what the demo shows into `FILE`: an SVG that plays it")
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		cfg.Out = stdout
		if cfg.Workers < demo.MinWorkers || cfg.Workers > demo.MaxWorkers {
			return exitcode.Usagef("--workers %d: want %d to %d", cfg.Workers, demo.MinWorkers, demo.MaxWorkers)
		}
		if !f.Changed("seed") {
			cfg.Seed = rand.Uint64()
		}
		return playDemo(ctx, cfg, *record, *recordScreen, stderr)
	}
}

// playDemo runs the demo, and writes what it records into these files, if they are named.
func playDemo(ctx context.Context, cfg demo.Config, record, recordScreen string, stderr io.Writer) error {
	var picture, screen bytes.Buffer
	if recordScreen != "" {
		cfg.Screen = &screen
	}
	if record != "" {
		if cfg.NoLock {
			return exitcode.Usagef("--record draws the lock: leave out --no-lock")
		}
		cfg.Picture = &picture
	}
	c := console.New(stderr, console.Normal)
	if cfg.URL != "" {
		_, urls, err := connect.Named(demoServer(cfg.URL))
		if err != nil {
			return err
		}
		server, err := connect.OpenOne(demoServer(cfg.URL))
		if err != nil {
			return err
		}
		server.Close()    // the demo opens clients of its own
		cfg.URL = urls[0] // the workers read it from a pipe, and do not need it in their environment
		c.Hide(server.Secrets()...)
		warnOf(c, "and use --redis env", server)
	}
	ctx, stop := signals.Context(ctx)
	defer stop()
	err := demo.Run(ctx, cfg)
	for file, svg := range map[string]*bytes.Buffer{record: &picture, recordScreen: &screen} {
		if svg.Len() > 0 { // also if a check failed
			if err := output.ReplaceFile(file, svg.Bytes()); err != nil {
				return &exitcode.Error{Code: exitcode.CannotCreate, Err: err}
			}
		}
	}
	if err != nil {
		c.Error(err)
		return &exitcode.Error{Code: demoCode(err)}
	}
	return nil
}

// demoServer returns the flags that name the server of --redis for package connect.
func demoServer(flag string) []string {
	if flag == fromEnvironment {
		return nil
	}
	return []string{flag}
}

func openDemo(url string) (redis.UniversalClient, error) {
	server, err := connect.OpenOne(demoServer(url))
	if err != nil {
		return nil, err
	}
	return server.Client(), nil
}

func demoCode(err error) int {
	var sig signals.Error
	var server *holdfast.ServerError
	if errors.As(err, &sig) || errors.As(err, &server) {
		return exitcode.OfLibrary(err).Code
	}
	return 1
}
