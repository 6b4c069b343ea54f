package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/bench"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/signals"
)

// benchFlags are the flags of holdfast bench.
type benchFlags struct {
	serverFlags
	runtime time.Duration
	levels  []int
	leases  int
	json    bool
}

const benchHelp = `Measures what locks cost on your server, beside the two bare commands of the usual
lock (SET NX PX, and a script that compares and deletes) through the same client:

  free       goroutines lock and unlock names of their own: cycles/s, latency, CPU
  contended  4 clients with 8 goroutines each compete for one name: time from the
             call of Release to the next holder's first step, longest wait,
             fairness, overlaps
  held       thousands of leases are held and renewed: lost leases, CPU, heap

In the first two, the two ways take turns, round by round. The report has medians over
the rounds, and ratios of the two ways in the same round. Load from elsewhere affects
both ways, so compare by the ratios. The bare commands have no fence, no renewal and no
queue, and do not notice a loss: they are a lower bound, not an alternative.

The bench loads the server as much as it can, so other users of the server wait: do not
run it where that matters. It writes only locks with a TTL of 10 s whose names begin
with bench: and a random part, and deletes their keys, even after ^C (a second ^C ends
it at once). If it is killed, some keys remain for a minute. It uses the prefix's fence
counters, as every lock does, and leaves them.

?pool_size=N in its URL makes go-redis use more than 10 connections per processor.
The user needs the rights that docs/SECURITY.md lists for a locker, and INFO for the
server's CPU, which is not reported for a Cluster.

Report (--json): server, software, mode, keys, started, took_ms, ttl_ms, processors,
  go, go_redis, free (a list), contended, held, left_out, faults, error, exit_code;
  null means not measured.

Exit codes:
    0  measured                        69  server unavailable
    1  two held at once, or leases     77  credentials or a command refused
       were lost                        78  wrong configuration
   64  wrong usage                    130  interrupted (INT; also 129, 131, 143)
`

func runBench(f *pflag.FlagSet) action {
	o := &benchFlags{runtime: time.Minute}
	o.lacks = "but holdfast bench measures one server at a time: name one with --redis"
	o.define(f)
	f.Var((*seconds)(&o.runtime), "for", "take about `DUR` in all")
	f.IntSliceVar(&o.levels, "goroutines", []int{1, 8, 64, 512}, "`LIST` of the numbers of goroutines in free")
	f.IntVar(&o.leases, "leases", 5000, "hold `N` leases; 0 leaves out held")
	f.BoolVar(&o.json, "json", false, "print only the report, as one JSON object")
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		if err := o.check(); err != nil {
			return err
		}
		return o.measure(ctx, stdout, stderr)
	}
}

func (o *benchFlags) check() error {
	slices.Sort(o.levels)
	o.levels = slices.Compact(o.levels)
	switch n := len(o.levels); {
	case n == 0 || n > bench.MaxLevels || o.levels[0] < 1 || o.levels[n-1] > bench.MaxLevel:
		return exitcode.Usagef("--goroutines: want up to %d numbers from 1 to %d, separated by commas; see holdfast help bench", bench.MaxLevels, bench.MaxLevel)
	case o.runtime < bench.MinFor || o.runtime > bench.MaxFor:
		return exitcode.Configf("--for %s: want %s to %s", o.runtime, bench.MinFor, bench.MaxFor)
	case o.leases < 0 || o.leases > bench.MaxLeases:
		return exitcode.Configf("--leases %d: want 0 to %d", o.leases, bench.MaxLeases)
	}
	return nil
}

func (o *benchFlags) measure(ctx context.Context, stdout, stderr io.Writer) error {
	progress := console.NewProgress(stderr)
	if err := o.open(progress); err != nil {
		return err
	}
	server, c := o.servers.All[0], o.console
	server.Close() // the bench opens clients of its own
	c.Notef("loading %s for about %s: its other users will have to wait; ^C ends it", server.Addr, o.runtime)
	ctx, stop := signals.Context(ctx)
	defer stop()
	report, err := bench.Run(ctx, bench.Config{
		Open: func() (redis.UniversalClient, error) {
			s, err := connect.OpenOne(o.redis)
			if err != nil {
				return nil, err
			}
			return s.Client(), nil
		},
		Addr:     server.Addr,
		Mode:     string(server.Mode),
		Prefix:   o.prefix,
		Logger:   c.Logger(),
		For:      o.runtime,
		Levels:   o.levels,
		Leases:   o.leases,
		Progress: progress.Show,
	})
	progress.Show("")
	code := 0
	var fault *bench.FaultError
	switch {
	case errors.As(err, &fault):
		code = 1
	case err != nil:
		code = codeOf(err)
	}
	if report != nil {
		if report.ExitCode = code; err != nil {
			report.Error = err.Error()
		}
		if err := o.write(report, stdout, c); err != nil {
			return err
		}
	}
	if err != nil {
		c.Error(err)
		return &exitcode.Error{Code: code}
	}
	return nil
}

func (o *benchFlags) write(report *bench.Report, stdout io.Writer, c *console.Console) error {
	var text bytes.Buffer
	if err := report.Write(&text); err != nil {
		return err
	}
	line, err := output.JSON(report)
	if err != nil {
		return err
	}
	if o.json {
		return printText(stdout, c.Redact(string(line)))
	}
	return printText(stdout, c.Redact(text.String()))
}
