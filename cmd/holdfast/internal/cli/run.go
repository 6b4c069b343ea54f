package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/once"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/job"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
)

type runFlags struct {
	jobFlags

	try       bool
	wait      time.Duration
	busyCode  int
	ifBusy    string
	shared    bool
	exclusive bool
	slots     count
	weight    count
	also      []string
	once      time.Duration
	onceKey   string
	maxTries  count
	owner     string
	lockKey   string
	redisson  string
	metrics   string // the file for node_exporter
}

// kinds are the flags of runs that are not plain.
var kinds = []string{"shared", "exclusive", "slots", "owner", "once", "also", "key", "redisson"}

func run(f *pflag.FlagSet) action {
	o := &runFlags{}
	f.BoolVarP(&o.try, "try", "n", false, "do not wait if the lock is held")
	f.VarP((*seconds)(&o.wait), "wait", "w", "wait at most `DUR` for the lock, and up to 1s longer for a server that does not answer; "+
		"0 is the same as --try (default no limit for the lock, 3s for the server)")
	f.StringVar(&o.ifBusy, "if-busy", "fail", "`ACTION` if the lock is held: fail, or skip, which exits with 0")
	f.IntVarP(&o.busyCode, "conflict-exit-code", "E", exitcode.Busy, "exit code `N` if the lock is held")
	f.BoolVar(&o.shared, "shared", false, "run beside other runs with --shared, but not beside one with --exclusive")
	f.BoolVar(&o.exclusive, "exclusive", false, "run alone among runs with --shared and --exclusive")
	f.Var(&o.slots, "slots", "run if fewer than `N` runs with --slots do; all of them name the same N")
	f.Var(&o.weight, "weight", "with --slots, take `N` of the slots (default 1)")
	f.StringVar(&o.owner, "owner", "", "run beside other runs of NAME with the same `ID`, ahead of waiters, and beside no others")
	f.Var((*seconds)(&o.once), "once", "run only if no run with --once was completed in the last `DUR`; failed runs do not count")
	f.StringVar(&o.onceKey, "once-key", "", "with --once, run only if none was completed with the same `KEY`, such as the date; "+
		"it is remembered for the DUR of --once")
	f.Var(&o.maxTries, "max-tries", "with --once, run at most `N` times until one is completed (then exit code 80)")
	f.StringArrayVar(&o.also, "also", nil, "also hold the lock `NAME`, all or none; may be repeated")
	f.StringVar(&o.lockKey, "key", "", "exact `KEY` of the lock, to share it with programs that use SET NX PX")
	f.StringVar(&o.redisson, "redisson", "", "`NAME` of the lock in Java, to share it with Redisson's getLock(NAME)")
	f.Var((*seconds)(&o.job.MinHold), "min-hold", "keep the lock, and run, for at least `DUR` from the start of the command, so that "+
		"a host whose clock is behind does not run the job again")
	f.StringVar(&o.metrics, "metrics-file", "", "write metrics of the run to `FILE` for node_exporter; it ends in .prom")
	f.Var((*seconds)(&o.nodeTimeout), "node-timeout", "with several servers, wait at most `DUR` for each in a round (default a 200th "+
		"of --ttl, 5ms to 50ms, or longer if the nodes are far away)")
	o.defineJob(f, "terminate, kill, notify or ignore")
	return func(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
		if err := o.check(); err != nil {
			return err
		}
		return o.run(ctx, job.Streams{In: stdin, Out: stdout, Err: stderr})
	}
}

// check takes NAME and CMD. Its errors have exit code 64, or 78 for values that do not fit together.
func (o *runFlags) check() error {
	if err := o.takeCommand(); err != nil {
		return err
	}
	f := o.flags
	for _, names := range [][]string{{"try", "wait"}, kinds, {"min-hold", "shared"}, {"min-hold", "owner"}, {"min-hold", "once"}} {
		if err := chooseOne(f, names...); err != nil {
			return err
		}
	}
	if err := cmp.Or(checkOnce(f, o.once, o.onceKey), checkCode("conflict-exit-code", o.busyCode)); err != nil {
		return err
	}
	switch {
	case o.ifBusy != "fail" && o.ifBusy != "skip":
		return exitcode.Usagef("--if-busy %q: want fail or skip", o.ifBusy)
	case o.weight != 0 && o.slots == 0:
		return exitcode.Usagef("--weight needs --slots")
	case f.Changed("owner") && o.owner == "":
		return exitcode.Usagef("--owner is empty")
	case o.once == 0 && (o.onceKey != "" || o.maxTries != 0):
		return exitcode.Usagef("--once-key and --max-tries need --once")
	case f.Changed("metrics-file") && !strings.HasSuffix(o.metrics, ".prom"):
		return exitcode.Usagef("--metrics-file %q: want a name that ends in .prom; node_exporter reads no others", o.metrics)
	case o.job.MinHold > maxTTL:
		return exitcode.Usagef("--min-hold %s: want at most %s", o.job.MinHold, maxTTL)
	}
	for _, name := range kinds {
		if f.Changed(name) {
			o.lacks = "which has only plain runs: name one server for --" + name
		}
	}
	return o.checkJob(keeper.Terminate, keeper.Kill, keeper.Notify, keeper.Ignore)
}

func (o *runFlags) lock(l *connect.Locks, wait holdfast.WaitOption) *holdfast.Lock {
	option := o.option()
	switch {
	case o.shared:
		return l.Client().RWMutex(o.name, option, wait).Reader()
	case o.exclusive:
		return l.Client().RWMutex(o.name, option, wait).Writer()
	case o.slots != 0:
		return l.Client().Semaphore(o.name, int(o.slots), option, wait).Permits(max(int(o.weight), 1))
	case len(o.also) > 0:
		return l.Client().Multi(append([]string{o.name}, o.also...), option, wait)
	case o.owner != "":
		return l.Client().OwnerMutex(o.name, o.owner, option, wait)
	case o.flags.Changed("key"):
		return l.Client().MutexKey(o.lockKey, option, wait)
	case o.flags.Changed("redisson"):
		return l.Client().RedissonMutex(o.redisson, option, wait)
	}
	return l.Mutex(o.name, option, wait)
}

func (o *runFlags) onceJob(l *connect.Locks, wait holdfast.WaitOption) *once.Job {
	window := once.Every(o.once)
	if o.onceKey != "" {
		window = once.Slot(o.onceKey, o.once)
	}
	options := []once.Option{o.option(), wait}
	if o.maxTries != 0 {
		options = append(options, once.MaxTries(int(o.maxTries)))
	}
	return once.New(l.Client(), o.name, window, options...)
}

func (o *runFlags) patience() job.Wait {
	if o.try || o.flags.Changed("wait") {
		return job.Wait(o.wait)
	}
	return job.Forever
}

func (o *runFlags) run(ctx context.Context, streams job.Streams) error {
	began := time.Now()
	r := &job.Run{Also: o.also, Metrics: o.metrics}
	return o.start(ctx, streams, r, func() *exitcode.Error {
		lock := &job.Lock{
			Run:        r,
			Make:       func(wait holdfast.WaitOption) *holdfast.Lock { return o.lock(r.Locks, wait) },
			Several:    o.shared || o.exclusive || o.slots != 0 || o.owner != "",
			Foreign:    o.flags.Changed("key") || o.flags.Changed("redisson"),
			Wait:       o.patience(),
			Began:      began,
			SkipIfBusy: o.ifBusy == "skip",
			BusyCode:   o.busyCode,
		}
		if o.once != 0 {
			lock.Once = func(wait holdfast.WaitOption) *once.Job { return o.onceJob(r.Locks, wait) }
		}
		return r.UnderLock(ctx, &o.job, lock)
	})
}

// lastRun is what --json prints for holdfast once.
type lastRun struct {
	Time   time.Time    `json:"time"`
	Name   string       `json:"name"`
	Server string       `json:"server"`
	Key    string       `json:"key,omitempty"` // of --once-key
	Run    *job.PastRun `json:"run"`           // null if no run is known
}

func onceAction(f *pflag.FlagSet) action {
	o := &serverFlags{lacks: "which keeps no record of jobs: name one server", role: "locker"}
	var window time.Duration
	f.Var((*seconds)(&window), "once", "exit with 0 only if it was completed in the last `DUR`")
	key := f.String("once-key", "", "only runs with this `KEY`")
	o.define(f)
	o.defineJSON()
	o.defineStrict()
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		if err := checkOnce(f, window, *key); err != nil {
			return err
		}
		name, every, of := f.Arg(0), max(window, time.Millisecond), "" // without --once, runs of any age are looked for
		w := once.Every(every)
		if *key != "" {
			w, of = once.Slot(*key, every), fmt.Sprintf(" with the key %q", *key)
		}
		return o.use(ctx, stderr, func(ctx context.Context, locks *connect.Locks) error {
			run, err := once.New(locks.Client(), name, w).Last(ctx)
			answer := lastRun{Time: time.Now(), Name: name, Server: o.servers.Addr(), Key: *key}
			text := fmt.Sprintf("no completed run of job %q%s is known on %s\n", name, of, answer.Server)
			switch {
			case err == nil:
				answer.Run = job.NewPastRun(run)
				text = fmt.Sprintf("%s, fence %d, try %d\n", job.DescribeRun(name, run), run.Fence, run.Try)
			case !errors.Is(err, once.ErrNone):
				return err
			}
			if err := printResult(stdout, o.json, answer, text); err != nil {
				return err
			}
			if answer.Run == nil || f.Changed("once") && !run.Current {
				return &exitcode.Error{Code: exitcode.None}
			}
			return nil
		})
	}
}

func checkOnce(f *pflag.FlagSet, window time.Duration, key string) error {
	switch {
	case f.Changed("once") && window < time.Millisecond:
		return exitcode.Usagef("--once %s: want at least 1ms", window)
	case f.Changed("once-key") && key == "":
		return exitcode.Usagef("--once-key is empty")
	}
	return nil
}
