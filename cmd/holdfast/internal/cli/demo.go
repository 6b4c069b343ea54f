package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
)

// fromEnv is the value of demo's --redis that means what other commands do
// without the flag. The demo does not take HOLDFAST_REDIS unasked: that may be a
// server on which people who just look around do not mean to work.
const fromEnv = "env"

func demoFlags(cfg *demo.Config) *pflag.FlagSet {
	f := newFlags("demo")
	f.StringVar(&cfg.URL, "redis", "", "`URL` of a server to use; env: the one of HOLDFAST_REDIS or REDIS_URL\n(default: a server inside this process)")
	f.IntVar(&cfg.Workers, "workers", 4, fmt.Sprintf("how many processes race: `N` from %d to %d", demo.MinWorkers, demo.MaxWorkers))
	f.Uint64Var(&cfg.Seed, "seed", 0, "`N` decides who wins and who meets with an accident (default: chance)")
	f.BoolVar(&cfg.NoLock, "no-lock", false, "hold the lottery without the lock, and see it go wrong: exits with 1")
	f.BoolVar(&cfg.JSON, "json", false, "print nothing but the summary, as one JSON object")
	return f
}

func demoHelp(w io.Writer) {
	fmt.Fprintf(w, `Usage: holdfast demo [flags]

Shows what the lock does, in about 10 seconds, with processes of its own: they
race to draw 10 winners, each exactly once; then, while all keep a ledger, one
that holds the lock is killed with -9, and another is paused for longer than its
lease and woken. At the end it checks what all of them recorded.

Flags:
%s
On a server of yours its keys begin with holdfast:demo: and a random part, and
are deleted at the end, also after ^C.

Exit codes: 0 when every check holds, 1 when one does not, 64 usage, 69 the
server cannot be reached, 77 it refused the credentials or a command, 78 bad
configuration, 130 interrupted.
`, demoFlags(&demo.Config{}).FlagUsages())
}

func runDemo(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) error {
	cfg := demo.Config{Open: openDemo, Out: stdout}
	flags := demoFlags(&cfg)
	if wantsHelp(args) {
		demoHelp(stdout)
		return nil
	}
	if err := flags.Parse(args); err != nil {
		return usageError("%w; see holdfast help demo", err)
	}
	switch {
	case flags.NArg() > 0:
		return usageError("holdfast demo takes no arguments; see holdfast help demo")
	case cfg.Workers < demo.MinWorkers || cfg.Workers > demo.MaxWorkers:
		return usageError("--workers is %d; from %d to %d is possible", cfg.Workers, demo.MinWorkers, demo.MaxWorkers)
	}
	if !flags.Changed("seed") {
		cfg.Seed = rand.Uint64()
	}
	v := &voice{w: stderr}
	if cfg.URL != "" {
		_, urls := serversNamed(demoURL(cfg.URL))
		server, err := openRedis(demoURL(cfg.URL))
		if err != nil {
			return err
		}
		_ = server.client.Close() // it was not used
		cfg.URL = urls[0]         // which the workers read from a pipe, and need not have in their environment
		v.secrets = server.secrets
		warnOf(v, "and say --redis env", server)
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	if err := demo.Run(ctx, cfg); err != nil {
		v.fail(err)
		return &exitError{demoCode(err), nil}
	}
	return nil
}

// demoWorker is what the demo's processes do.
func demoWorker(_ context.Context, _ []string, stdin io.Reader, stdout, _ io.Writer) error {
	return demo.Work(stdin, stdout, openDemo)
}

// demoURL is what openRedis is to be given.
func demoURL(flag string) []string {
	if flag == fromEnv {
		return nil
	}
	return []string{flag}
}

func openDemo(url string) (redis.UniversalClient, error) {
	server, err := openRedis(demoURL(url))
	if err != nil {
		return nil, err
	}
	return server.client, nil
}

// signaled is why a context ended: a signal came.
type signaled struct{ os.Signal }

func (s signaled) Error() string { return "stopped by a signal: " + s.String() }

// interruptible returns a context that ends, with a signaled as its cause, when
// a signal asks the program to end, or nobody reads its output any more. A second
// signal ends it the hard way.
func interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	for _, sig := range heard() {
		if interrupts(sig) || ours(sig) {
			signal.Notify(signals, sig)
		}
	}
	go func() {
		defer signal.Stop(signals)
		for {
			select {
			case sig := <-signals:
				if ours(sig) && !outputIsGone() {
					continue
				}
				cancel(signaled{sig})
			case <-ctx.Done():
			}
			return
		}
	}()
	return ctx, func() { cancel(nil) }
}

func demoCode(err error) int {
	var sig signaled
	var server *holdfast.ServerError
	switch {
	case errors.As(err, &sig):
		return exitSignal + number(sig.Signal)
	case errors.As(err, &server):
		return failure(err).code
	}
	return 1
}
