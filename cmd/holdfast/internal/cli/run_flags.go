package cli

import (
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
)

// runOptions are the flags and arguments of holdfast run.
type runOptions struct {
	jobOptions

	try          bool
	wait         time.Duration
	waitSet      bool
	conflictCode int
	ifBusy       string
	shared       bool
	exclusive    bool
	slots        count
	weight       count
	also         []string
	once         time.Duration
	onceKey      string
	maxTries     count
	last         bool
	minHold      time.Duration
	owner        string
	key          string
	redisson     string
	nodeTimeout  time.Duration
}

func newRunOptions() *runOptions {
	o := &runOptions{}
	f := newFlags("run")
	f.BoolVarP(&o.try, "try", "n", false, "do not wait when the lock is held")
	f.VarP((*span)(&o.wait), "wait", "w", "wait at most `DUR`; 0 is as --try (default: as long as it takes)")
	f.IntVarP(&o.conflictCode, "conflict-exit-code", "E", exitBusy, "exit code `N` when the lock was not to be had")
	f.StringVar(&o.ifBusy, "if-busy", "fail", "`ACTION` when the lock was not to be had: fail, or skip, which exits with 0")
	f.StringArrayVar(&o.also, "also", nil, "hold the lock `NAME`, too, all or none; may be repeated")
	f.BoolVar(&o.shared, "shared", false, "run beside other runs with --shared, but not beside one with --exclusive")
	f.BoolVar(&o.exclusive, "exclusive", false, "run alone among runs with --shared and --exclusive")
	f.Var(&o.slots, "slots", "run beside fewer than `N` other runs with --slots, of which all name the same N")
	f.Var(&o.weight, "weight", "with --slots, take `N` of the slots (default 1)")
	f.Var((*span)(&o.once), "once", "run only if no run with --once was completed in the last `DUR`; one that fails\ndoes not count")
	f.StringVar(&o.onceKey, "once-key", "", "with --once, run only if none was completed with the same `KEY`, such as the\ndate; it is remembered for the DUR of --once")
	f.Var(&o.maxTries, "max-tries", "with --once, run at most `N` times until one is completed")
	f.BoolVar(&o.last, "last", false, "say which run with --once was completed last, and run nothing; not with several\nservers")
	f.Var((*span)(&o.minHold), "min-hold", "keep the lock for at least `DUR` after the command began, so that a host\nwhose clock is late does not run the job again; with --strict, or several\nservers, at most --max-ttl")
	f.StringVar(&o.owner, "owner", "", "run beside other runs of NAME with the same `ID`, before those who wait, and\nbeside no others")
	f.StringVar(&o.key, "key", "", "exact `KEY` of the lock, to share it with other programs")
	f.StringVar(&o.redisson, "redisson", "", "`NAME` of the lock in Java, to share it with Redisson's getLock(NAME)")
	f.Var((*span)(&o.nodeTimeout), "node-timeout", "with several servers, wait at most `DUR` for each in a round (default: a 200th\nof --ttl, 5ms to 50ms, or longer if the nodes are far away)")
	o.onLost = string(keeper.Terminate)
	o.define(f, "`ACTION` when the lock is lost: terminate, kill, notify or ignore; see below")
	return o
}

// parseRun reads the command line. Its errors have exit code 64, or 78 for
// values that do not go together.
func parseRun(args []string) (*runOptions, error) {
	o := newRunOptions()
	if err := o.parse(args); err != nil || o.help {
		return o, err
	}
	if o.last {
		return o, o.checkLast()
	}
	o.waitSet = o.flags.Changed("wait")
	if err := o.takeCommand(); err != nil {
		return o, err
	}
	if err := o.checkUsage(); err != nil {
		return o, err
	}
	return o, o.checkConfig()
}

func (o *runOptions) checkUsage() error {
	switch {
	case o.try && o.waitSet:
		return usageError("--try and --wait: choose one")
	case o.ifBusy != "fail" && o.ifBusy != "skip":
		return usageError("--if-busy %q: want fail or skip", o.ifBusy)
	case o.shared && o.exclusive:
		return usageError("--shared and --exclusive: choose one")
	case o.readWrite() && o.slots != 0:
		return usageError("--slots goes with neither --shared nor --exclusive: choose one")
	case o.weight != 0 && o.slots == 0:
		return usageError("--weight has a meaning with --slots only")
	case o.flags.Changed("owner") && o.owner == "":
		return usageError("--owner is empty")
	case o.owner != "" && (o.readWrite() || o.slots != 0 || o.once != 0):
		return usageError("--owner goes with neither --shared nor --exclusive, --slots and --once: choose one")
	case o.isShared() && o.isForeign():
		return usageError("--key and --redisson are for plain runs: no other program knows how locks with --shared, --exclusive, --slots or --owner are kept")
	case o.flags.Changed("key") && o.flags.Changed("redisson"):
		return usageError("--key and --redisson: choose one; they are two forms of a lock")
	case o.once != 0 && o.isForeign():
		return usageError("--once goes with neither --key nor --redisson: no other program knows of runs that were completed")
	case o.once != 0 && o.minHold != 0:
		return usageError("--min-hold and --once: choose one; a job that is done is not run again in its window")
	case o.shared && o.minHold != 0:
		return usageError("--min-hold and --shared: choose one; a shared run keeps no other shared run from running again")
	case o.owner != "" && o.minHold != 0:
		return usageError("--min-hold and --owner: choose one; a run keeps no other run of its owner from running again")
	case o.once != 0 && o.isShared():
		return usageError("--once goes with neither --shared nor --exclusive nor --slots: its runs are one at a time")
	case o.flags.Changed("once") && o.once < time.Millisecond:
		return usageError("--once %s: want at least 1ms", o.once)
	case o.once == 0 && (o.onceKey != "" || o.maxTries != 0):
		return usageError("--once-key and --max-tries have a meaning with --once only")
	case o.flags.Changed("once-key") && o.onceKey == "":
		return usageError("--once-key is empty")
	case len(o.also) > 0 && (o.isShared() || o.once != 0 || o.isForeign()):
		return usageError("--also is for plain runs: it goes with neither --shared nor --exclusive, --slots, --owner, --once, --key and --redisson")
	case o.conflictCode < 0 || o.conflictCode > 255:
		return usageError("--conflict-exit-code %d: want 0 to 255", o.conflictCode)
	}
	return o.checkJob(keeper.Terminate, keeper.Kill, keeper.Notify, keeper.Ignore)
}

func (o *runOptions) checkConfig() error {
	if o.minHold > maxTTL {
		return configError("--min-hold %s: want at most %s", o.minHold, maxTTL)
	}
	return o.checkTimes()
}
