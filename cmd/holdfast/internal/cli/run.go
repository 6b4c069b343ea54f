package cli

import (
	"context"
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

// runFlags are the flags and arguments of holdfast run.
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

func run(f *pflag.FlagSet) action {
	o := &runFlags{}
	o.defineRun(f)
	return func(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
		if err := o.check(); err != nil {
			return err
		}
		return o.run(ctx, job.Streams{In: stdin, Out: stdout, Err: stderr})
	}
}

func (o *runFlags) defineRun(f *pflag.FlagSet) {
	f.BoolVarP(&o.try, "try", "n", false, "do not wait if the lock is held")
	f.VarP((*seconds)(&o.wait), "wait", "w", "wait at most `DUR` for the lock, and up to 1s longer for a server that does not\nanswer; 0 is the same as --try (default: no limit for the lock, 3s for the\nserver)")
	f.IntVarP(&o.busyCode, "conflict-exit-code", "E", exitcode.Busy, "exit code `N` if the lock is held")
	f.StringVar(&o.ifBusy, "if-busy", "fail", "`ACTION` if the lock is held: fail, or skip, which exits with 0")
	f.StringArrayVar(&o.also, "also", nil, "also hold the lock `NAME`, all or none; may be repeated")
	f.BoolVar(&o.shared, "shared", false, "run beside other runs with --shared, but not beside one with --exclusive")
	f.BoolVar(&o.exclusive, "exclusive", false, "run alone among runs with --shared and --exclusive")
	f.Var(&o.slots, "slots", "run if fewer than `N` runs with --slots do; all of them name the same N")
	f.Var(&o.weight, "weight", "with --slots, take `N` of the slots (default 1)")
	f.Var((*seconds)(&o.once), "once", "run only if no run with --once was completed in the last `DUR`; failed runs do\nnot count")
	f.StringVar(&o.onceKey, "once-key", "", "with --once, run only if none was completed with the same `KEY`, such as the\ndate; it is remembered for the DUR of --once")
	f.Var(&o.maxTries, "max-tries", "with --once, run at most `N` times until one is completed")
	f.Var((*seconds)(&o.job.MinHold), "min-hold", "keep the lock, and run, for at least `DUR` from the start of the command, so that\na host whose clock is behind does not run the job again; with --strict, or\nseveral servers, at most --max-ttl; a note with the holder says so")
	f.StringVar(&o.owner, "owner", "", "run beside other runs of NAME with the same `ID`, ahead of waiters, and beside\nno others")
	f.StringVar(&o.lockKey, "key", "", "exact `KEY` of the lock, to share it with other programs")
	f.StringVar(&o.redisson, "redisson", "", "`NAME` of the lock in Java, to share it with Redisson's getLock(NAME)")
	f.StringVar(&o.metrics, "metrics-file", "", "write metrics of the run to `FILE` for node_exporter; it ends in .prom")
	f.Var((*seconds)(&o.nodeTimeout), "node-timeout", "with several servers, wait at most `DUR` for each in a round (default: a 200th\nof --ttl, 5ms to 50ms, or longer if the nodes are far away)")
	o.defineJob(f, "`ACTION` if the lock is lost: terminate, kill, notify or ignore; see below")
}

// check takes NAME and CMD. Its errors have exit code 64, or 78 for values that do not fit together.
func (o *runFlags) check() error {
	if err := o.takeCommand(); err != nil {
		return err
	}
	if err := o.checkUsage(); err != nil {
		return err
	}
	if o.job.MinHold > maxTTL {
		return exitcode.Configf("--min-hold %s: want at most %s", o.job.MinHold, maxTTL)
	}
	return o.checkTimes()
}

func (o *runFlags) checkUsage() error {
	changed, kind := o.flags.Changed, o.kind()
	modes := o.shared || o.exclusive
	switch {
	case o.try && changed("wait"):
		return exitcode.Usagef("--try and --wait: choose one")
	case o.ifBusy != "fail" && o.ifBusy != "skip":
		return exitcode.Usagef("--if-busy %q: want fail or skip", o.ifBusy)
	case o.shared && o.exclusive:
		return exitcode.Usagef("--shared and --exclusive: choose one")
	case modes && o.slots != 0:
		return exitcode.Usagef("--slots cannot be used with --shared or --exclusive: choose one")
	case o.weight != 0 && o.slots == 0:
		return exitcode.Usagef("--weight needs --slots")
	case changed("owner") && o.owner == "":
		return exitcode.Usagef("--owner is empty")
	case o.owner != "" && (modes || o.slots != 0 || o.once != 0):
		return exitcode.Usagef("--owner cannot be used with --shared, --exclusive, --slots or --once: choose one")
	case kind.Several && kind.Foreign != "":
		return exitcode.Usagef("--key and --redisson are for plain runs: other programs cannot read locks with --shared, --exclusive, --slots or --owner")
	case changed("key") && changed("redisson"):
		return exitcode.Usagef("--key and --redisson: choose one; they are two forms of a lock")
	case o.once != 0 && kind.Foreign != "":
		return exitcode.Usagef("--once cannot be used with --key or --redisson: other programs do not know which runs were completed")
	case o.once != 0 && o.job.MinHold != 0:
		return exitcode.Usagef("--min-hold and --once: choose one; a job that is completed is not run again in its window")
	case o.shared && o.job.MinHold != 0:
		return exitcode.Usagef("--min-hold and --shared: choose one; a shared run does not keep another shared run from starting")
	case o.owner != "" && o.job.MinHold != 0:
		return exitcode.Usagef("--min-hold and --owner: choose one; a run does not keep another run of its owner from starting")
	case o.once != 0 && kind.Several:
		return exitcode.Usagef("--once cannot be used with --shared, --exclusive or --slots: its runs follow one another")
	case changed("once") && o.once < time.Millisecond:
		return exitcode.Usagef("--once %s: want at least 1ms", o.once)
	case o.once == 0 && (o.onceKey != "" || o.maxTries != 0):
		return exitcode.Usagef("--once-key and --max-tries need --once")
	case changed("once-key") && o.onceKey == "":
		return exitcode.Usagef("--once-key is empty")
	case len(o.also) > 0 && (modes || o.slots != 0 || o.owner != "" || o.once != 0 || kind.Foreign != ""):
		return exitcode.Usagef("--also is for plain runs: it cannot be used with --shared, --exclusive, --slots, --owner, --once, --key or --redisson")
	case changed("metrics-file") && !strings.HasSuffix(o.metrics, ".prom"):
		return exitcode.Usagef("--metrics-file %q: want a name that ends in .prom; node_exporter reads no others", o.metrics)
	case o.busyCode < 0 || o.busyCode > 255:
		return exitcode.Usagef("--conflict-exit-code %d: want 0 to 255", o.busyCode)
	}
	return o.checkJob(keeper.Terminate, keeper.Kill, keeper.Notify, keeper.Ignore)
}

// checkServers refuses what these servers do not allow.
func (o *runFlags) checkServers(s *connect.Servers) error {
	kind := o.kind()
	if !s.AreQuorum() {
		if o.nodeTimeout != 0 {
			return exitcode.Configf("--node-timeout needs several servers")
		}
		return o.checkStrict(s)
	}
	switch {
	case kind.Several:
		return refuseQuorum(s, "which has no locks for --shared, --exclusive, --slots or --owner: name one server for these")
	case o.once != 0:
		return refuseQuorum(s, "which keeps no record of jobs: name one server for --once")
	case len(o.also) > 0:
		return refuseQuorum(s, "whose locks have one name each: name one server for --also")
	case kind.Foreign != "":
		return refuseQuorum(s, "whose locks other programs cannot read: name one server for --key and --redisson")
	}
	return o.checkStrict(s)
}

// kind is the kind of lock that the flags ask for.
func (o *runFlags) kind() job.Kind {
	kind := job.Kind{Make: o.lock, Several: o.shared || o.exclusive || o.slots != 0 || o.owner != ""}
	switch {
	case o.flags.Changed("redisson"):
		kind.Foreign = "--redisson"
	case o.flags.Changed("key"):
		kind.Foreign = "--key"
	}
	return kind
}

// lock is the lock that the flags ask for.
func (o *runFlags) lock(l *connect.Locks, option holdfast.Option, wait holdfast.WaitOption) *holdfast.Lock {
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

// onceJob is the job of --once.
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
	switch {
	case o.try:
		return 0
	case o.flags.Changed("wait"):
		return job.Wait(o.wait)
	}
	return job.Forever
}

func (o *runFlags) run(ctx context.Context, streams job.Streams) error {
	began := time.Now()
	r := &job.Run{Name: o.name, Also: o.also, Prefix: o.prefix, Metrics: o.metrics, Streams: streams, Advice: o.advice}
	return job.Main(r, o.level(), o.json, func() *exitcode.Error {
		closeAll, err := o.openFor(r, o.checkServers)
		if err != nil {
			return exitcode.As(err)
		}
		defer closeAll()
		if exit := o.job.Prepare(); exit != nil {
			return exit
		}
		lock := &job.Lock{
			Run:    r,
			Kind:   o.kind(),
			Option: o.option(),
			KeyOf:  o.keyOf,
			Wait:   o.patience(),
			OnBusy: job.OnBusy{Skip: o.ifBusy == "skip", Code: o.busyCode, Quiet: o.quiet},
			Began:  began,
		}
		if exit := r.CheckAdmitted(ctx, o.prefix, o.nodeTimeout); exit != nil {
			return exit
		}
		if o.once != 0 {
			return r.Once(ctx, &o.job, &job.OnceLock{Lock: lock, MakeOnce: o.onceJob})
		}
		return r.UnderLock(ctx, &o.job, lock)
	})
}
