package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

const help = `Usage: go run github.com/holdfast-go/holdfast/cmd/holdfast/bench@latest [flags] [URL]

Measures what locks cost on your server, beside the two bare commands of the usual lock
(SET NX PX, and a script that compares and deletes) through the same client:

  free       1, 8, 64 and 512 goroutines lock and unlock names of their own
  contended  4 clients with 8 goroutines each compete for one name
  held       thousands of leases are held and renewed

The bare commands have no fence, no renewal and no queue, and do not notice a loss: they
are a lower bound, not an alternative.

The bench loads the server as much as it can, so other users of the server wait: do not
run it where that matters. It writes only locks with a TTL of 10 s whose names begin
with bench: and a random part, and deletes their keys, even after ^C (a second ^C ends
it at once). If it is killed, some keys remain for a minute. It uses the prefix's fence
counters, as every lock does, and leaves them.

The server is the first of URL, HOLDFAST_REDIS, REDIS_URL, redis://127.0.0.1:6379. URLs
are as for holdfast run; ?pool_size=N makes go-redis use more than 10 connections per
processor. The user needs the rights that docs/SECURITY.md lists for a locker, and INFO
for the server's CPU, which is not reported for a Cluster.

Exit codes: 0 measured, 1 two held a lock at once or leases were lost, 64 wrong usage,
69 server unavailable, 77 credentials or a command refused, 78 wrong configuration,
130 interrupted (INT; also 129, 131, 143).

Flags:
`

// run runs the bench with these arguments, and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	b := &bench{progress: newProgress(stderr)}
	b.console = console.New(b.progress, console.Normal)
	return b.console.Exit(b.main(ctx, args, stdout))
}

// Bounds of the flags.
const (
	minTime, maxTime = time.Second, 10 * time.Minute
	maxLeases        = 100_000
)

func (b *bench) main(ctx context.Context, args []string, stdout io.Writer) error {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&b.prefix, "prefix", cmp.Or(os.Getenv("HOLDFAST_PREFIX"), "holdfast:"), "`text` that keys begin with; env: HOLDFAST_PREFIX")
	f.DurationVar(&b.time, "for", time.Minute, "take about this `time` in all, such as 90s")
	f.IntVar(&b.leases, "leases", 5000, "hold `n` leases; 0 leaves out held")
	json := f.Bool("json", false, "print only the report, as one JSON object; a figure that it lacks was not measured")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, help)
		f.SetOutput(stdout)
		f.PrintDefaults()
		return nil
	case err != nil:
		return exitcode.Usagef("%w; see bench -help", err)
	case f.NArg() > 1:
		return exitcode.Usagef("want one URL after the flags, not %d arguments; see bench -help", f.NArg())
	case b.time < minTime || b.time > maxTime:
		return exitcode.Configf("-for %s: want %s to %s", b.time, minTime, maxTime)
	case b.leases < 0 || b.leases > maxLeases:
		return exitcode.Configf("-leases %d: want 0 to %d", b.leases, maxLeases)
	}
	source, urls := "the command line", f.Args()
	if len(urls) == 0 {
		var err error
		if source, urls, err = connect.Named(nil); err != nil {
			return err
		}
		if len(urls) > 1 {
			return exitcode.Configf("%s names %d servers; name one", source, len(urls))
		}
	}
	var servers [contendedClients]*connect.Server // the same server, with connections of its own for each client
	for i := range servers {
		var err error
		if servers[i], err = connect.Open(source, urls[0]); err != nil {
			return err
		}
	}
	server := servers[0]
	(&connect.Servers{All: servers[:1]}).Introduce(b.console)
	b.console.Notef("loading %s for about %s: its other users will have to wait; ^C ends it", server.Addr, b.time)
	ctx, stop := terminal.Context(ctx)
	defer stop()
	r, err := b.measure(ctx, servers[:])
	b.progress.show("")
	if r == nil {
		return err
	}
	if err != nil {
		r.ExitCode, r.Error = exitcode.Of(err).Code, err.Error()
	}
	text := r.text()
	if *json {
		line, err := output.JSON(r)
		if err != nil {
			return err
		}
		text = string(line)
	}
	if _, err := io.WriteString(stdout, b.console.Redact(text)); err != nil {
		return exitcode.OfOutput(err)
	}
	return err
}

// measure runs all experiments. It returns a nil report if it could not begin, otherwise what was measured up to the end or an error.
// When it returns, it holds no lock and has deleted its keys, unless the server is unavailable.
func (b *bench) measure(ctx context.Context, servers []*connect.Server) (*report, error) {
	software, err := b.connect(ctx, servers)
	if err == nil {
		b.report = &report{
			Server: servers[0].Addr, Software: software, Mode: string(servers[0].Mode), Started: time.Now(),
			Processors: runtime.NumCPU(), Go: runtime.Version(), GoRedis: redis.Version(),
		}
		for _, experiment := range []func(context.Context) error{b.free, b.contended, b.held} {
			if err = experiment(ctx); err != nil {
				err = cmp.Or(b.tryLock(ctx), err) // if bare commands failed, the library knows why
				break
			}
		}
	}
	undone := b.close(ctx)
	if ctx.Err() != nil { // other errors only follow from that
		err = context.Cause(ctx)
	}
	r := b.report
	if r == nil {
		return nil, err
	}
	if undone != nil {
		r.leaveOut("deleting keys: %.120s; locks and queues that begin with %s... expire within a minute", undone, b.prefix+"{"+b.id)
	}
	if b.noCPU != "" {
		r.leaveOut("server CPU: %s", b.noCPU)
	}
	return r, r.verdict(err)
}

// split divides a time into rounds, each with the given number of turns. No turn is shorter than shortest, unless a single round would be;
// the number of rounds is at most most, and odd, so that the median is the figure of one round.
func split(all time.Duration, turns int, shortest time.Duration, most int) (rounds int, turn time.Duration) {
	all /= time.Duration(turns)
	rounds = min(max(int(all/shortest), 1), most)
	if rounds%2 == 0 {
		rounds--
	}
	return rounds, all / time.Duration(rounds)
}
