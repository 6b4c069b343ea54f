package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/bench"
)

// benchOptions are the flags of holdfast bench.
type benchOptions struct {
	redis   []string
	prefix  string
	runtime time.Duration
	levels  numbers
	leases  int
	json    bool
	flags   *pflag.FlagSet
}

func newBenchOptions() *benchOptions {
	o := &benchOptions{runtime: time.Minute, levels: numbers{1, 8, 64, 512}}
	o.flags = newFlags("bench")
	o.flags.StringArrayVar(&o.redis, "redis", nil, "`URL` of the server, as for holdfast run; one only")
	o.flags.StringVar(&o.prefix, "prefix", "", "`TEXT` that keys begin with (default holdfast:)")
	o.flags.Var((*span)(&o.runtime), "for", "take about `DUR` in all")
	o.flags.Var(&o.levels, "goroutines", "of free: `LIST` of numbers")
	o.flags.IntVar(&o.leases, "leases", 5000, "hold `N` leases; 0 leaves that out")
	o.flags.BoolVar(&o.json, "json", false, "print nothing but the report, as one JSON object")
	return o
}

func benchHelp(w io.Writer) {
	fmt.Fprintf(w, `Usage: holdfast bench [flags]

Measures what locks cost on your server, beside the bare two commands of the usual
lock (SET NX PX, and a script that compares and deletes) through the same client:

  free       goroutines lock and unlock names of their own: cycles/s, latency, CPU
  contended  4 clients of 8 goroutines want one name: from the call of release to
             the next holder's running, longest wait, fairness, overlaps
  held       thousands of leases, renewed: lost ones, CPU, heap

In the first two, both ways take turns, round by round. What is given are medians, and
ratios of one way to the other in the same round; the machine and the server do other
things besides, so go by the ratios. The bare commands have no fence, no renewal and no
queue, and do not notice a loss: they are the floor, not an equal.

It loads the server as much as it can for that time, so that others wait: do not run
it where that matters. It writes nothing but locks of 10 s whose names begin with
bench: and a random part, and deletes their keys, also after ^C (a second ^C ends it
at once). A run that is killed leaves some for a minute, in a Cluster fence counters
for a day. Outside a Cluster the fence counter of the prefix is used, and left, as by
any lock.

Flags:
%s
The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, %s.
?pool_size=N in its URL has go-redis use more connections than 10 for a processor.
The user needs what docs/SECURITY.md lists for a locker; INFO besides, or the
server's CPU is left out, as it is in a Cluster.

Report (--json): server, software, mode, keys, started, took_ms, ttl_ms, processors,
  go, go_redis, free (a list), contended, held, left_out, faults, error, exit_code;
  null is what was not measured.

Exit codes:
    0  measured                        %3d  server unreachable
    1  two held at once, or leases     %3d  credentials or a command refused
       were lost                       %3d  wrong configuration
  %3d  wrong usage                    %3d  interrupted (INT; also 129, 131, 143)
`, newBenchOptions().flags.FlagUsages(), defaultRedis, exitUnavailable, exitRefused, exitConfig, exitUsage, exitSignal+2)
}

func (o *benchOptions) parse(args []string) error {
	if err := o.flags.Parse(args); err != nil {
		return usageError("%w; see holdfast help bench", plain(err))
	}
	if o.flags.NArg() > 0 {
		return usageError("holdfast bench takes no arguments; see holdfast help bench")
	}
	switch {
	case o.runtime < bench.MinFor || o.runtime > bench.MaxFor:
		return configError("--for %s: want %s to %s", o.runtime, bench.MinFor, bench.MaxFor)
	case o.leases < 0 || o.leases > bench.MaxLeases:
		return configError("--leases %d: want 0 to %d", o.leases, bench.MaxLeases)
	}
	return nil
}

func runBench(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) error {
	o := newBenchOptions()
	if wantsHelp(args) {
		benchHelp(stdout)
		return nil
	}
	if err := o.parse(args); err != nil {
		return err
	}
	source, urls := serversNamed(o.redis)
	if len(urls) > 1 {
		return configError("%s names %d servers, a quorum, and holdfast bench measures one at a time: give --redis for one of them", source, len(urls))
	}
	e, err := openURL(source, urls[0])
	if err != nil {
		return err
	}
	_ = e.client.Close() // it was not used
	line := newProgress(stderr)
	v := &voice{w: line, secrets: e.secrets}
	warnOf(v, "instead", e)
	v.note("putting load on %s for about %s: its other users will have to wait; ^C ends it", e.addr, o.runtime)
	ctx, stop := interruptible(ctx)
	defer stop()
	report, err := bench.Run(ctx, bench.Config{
		Open: func() (redis.UniversalClient, error) {
			e, err := openURL(source, urls[0])
			if err != nil {
				return nil, err
			}
			return e.client, nil
		},
		Addr:     e.addr,
		Mode:     e.mode(),
		Prefix:   o.prefix,
		Logger:   v.logger(),
		For:      o.runtime,
		Levels:   o.levels,
		Leases:   o.leases,
		Progress: line.show,
	})
	line.show("")
	code := benchCode(err)
	if report != nil {
		if err := o.write(report, err, code, stdout, v); err != nil {
			return unwritten(err)
		}
	}
	if err != nil {
		v.fail(err)
		return &exitError{code, nil}
	}
	return nil
}

// write writes the report of a run that ended with err.
func (o *benchOptions) write(report *bench.Report, err error, code int, stdout io.Writer, v *voice) error {
	if report.ExitCode = code; err != nil {
		report.Error = err.Error()
	}
	var buf bytes.Buffer
	if o.json {
		err = writeJSON(&buf, report)
	} else {
		err = report.Write(&buf)
	}
	if err != nil {
		return err
	}
	text := []byte(v.redact(buf.String()))
	if o.json {
		text = printable.JSON(text)
	}
	_, err = stdout.Write(text)
	return err
}

func benchCode(err error) int {
	var sig signaled
	var fault *bench.FaultError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &sig):
		return exitSignal + number(sig.Signal)
	case errors.As(err, &fault):
		return 1
	case errors.Is(err, holdfast.ErrInvalid):
		return exitConfig // a prefix
	}
	return failure(err).code
}

// mode is what kind of servers the URL names.
func (e *endpoint) mode() string {
	switch {
	case e.sentinel != nil:
		return "sentinel"
	case e.single():
		return "server"
	}
	return "cluster"
}

// numbers are those of goroutines: in order, each once.
type numbers []int

func (n *numbers) Type() string { return "list" }

func (n *numbers) String() string {
	var all []string
	for _, v := range *n {
		all = append(all, strconv.Itoa(v))
	}
	return strings.Join(all, ",")
}

func (n *numbers) Set(text string) error {
	var all numbers
	for word := range strings.SplitSeq(text, ",") {
		v, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || v < 1 || v > bench.MaxLevel || len(all) == bench.MaxLevels {
			return fmt.Errorf("want up to %d numbers from 1 to %d, with commas between them", bench.MaxLevels, bench.MaxLevel)
		}
		all = append(all, v)
	}
	slices.Sort(all)
	*n = slices.Compact(all)
	return nil
}

// progress is a line at the end of stderr that says what is being done, where that is a
// terminal. What is written meanwhile takes its place.
type progress struct {
	w  io.Writer
	on bool

	mu    sync.Mutex
	shown bool
}

func newProgress(stderr io.Writer) *progress {
	return &progress{w: stderr, on: isTerminal(stderr) && os.Getenv("TERM") != "dumb"}
}

// show replaces the line; by none if there is no text.
func (p *progress) show(text string) {
	if !p.on {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	if text != "" {
		p.shown = true
		_, _ = io.WriteString(p.w, text+" ...") // there is no other place to complain
	}
}

func (p *progress) clear() {
	if p.shown {
		p.shown = false
		_, _ = io.WriteString(p.w, "\r\x1b[K")
	}
}

// Write writes in the place of the line.
func (p *progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	return p.w.Write(text)
}
