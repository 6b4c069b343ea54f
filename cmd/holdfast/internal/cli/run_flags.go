package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
)

// runOptions are the flags and arguments of holdfast run.
type runOptions struct {
	name string
	argv []string

	try          bool
	wait         time.Duration
	waitSet      bool
	conflictCode int
	ifBusy       string
	shared       bool
	exclusive    bool
	slots        count
	once         time.Duration
	onceKey      string
	maxTries     count
	ttl          time.Duration
	minHold      time.Duration
	maxRuntime   time.Duration
	onLost       string
	killAfter    time.Duration
	lostCode     int
	meta         []string
	json         string
	shell        bool
	quiet        bool
	verbose      bool
	redis        string
	prefix       string
	key          string
	strict       bool
	maxTTL       time.Duration
	help         bool
	flags        *pflag.FlagSet
}

const (
	maxTTL = 24 * time.Hour
	// minTTL leaves room for a renewal, and for the keeper's margins, on a busy
	// machine.
	minTTL = 500 * time.Millisecond
)

func newRunOptions() *runOptions {
	o := &runOptions{killAfter: 5 * time.Second, ttl: 15 * time.Second, maxTTL: defaultStrictTTL}
	f := newFlags("run")
	f.BoolVarP(&o.try, "try", "n", false, "do not wait when the lock is held")
	f.VarP((*span)(&o.wait), "wait", "w", "wait at most `DUR`; 0 is as --try (default: as long as it takes)")
	f.IntVarP(&o.conflictCode, "conflict-exit-code", "E", exitBusy, "exit code `N` when the lock was not to be had")
	f.StringVar(&o.ifBusy, "if-busy", "fail", "`ACTION` when the lock was not to be had: fail, or skip, which exits with 0")
	f.BoolVar(&o.shared, "shared", false, "run beside other runs with --shared, but not beside one with --exclusive")
	f.BoolVar(&o.exclusive, "exclusive", false, "run alone among runs with --shared and --exclusive")
	f.Var(&o.slots, "slots", "run beside fewer than `N` other runs with --slots, of which all name the same N")
	f.Var((*span)(&o.once), "once", "run only if no run with --once was completed in the last `DUR`; one that fails\ndoes not count")
	f.StringVar(&o.onceKey, "once-key", "", "with --once, run only if none was completed with the same `KEY`, such as the\ndate; it is remembered for the DUR of --once")
	f.Var(&o.maxTries, "max-tries", "with --once, run at most `N` times until one is completed")
	f.Var((*span)(&o.ttl), "ttl", "lease time `DUR`: how long the lock outlives a machine that dies")
	f.Var((*span)(&o.minHold), "min-hold", "keep the lock for at least `DUR` after the command began, so that a host\nwhose clock is late does not run the job again")
	f.Var((*span)(&o.maxRuntime), "max-runtime", "end the command after `DUR`; exit code 124")
	f.StringVar(&o.onLost, "on-lost", string(keeper.Terminate), "`ACTION` when the lock is lost: terminate, kill, notify or ignore; see below")
	f.Var((*span)(&o.killAfter), "kill-after", "from TERM to KILL, `DUR`")
	f.IntVar(&o.lostCode, "lost-exit-code", exitLost, "exit code `N` when the command was ended because the lock was lost")
	f.StringArrayVar(&o.meta, "meta", nil, "a note `K=V` for those who ask who holds the lock; may be repeated")
	f.StringVar(&o.json, "json", "", "write a report, one JSON object, to `FILE`; without =FILE, to stderr")
	f.Lookup("json").NoOptDefVal = "-"
	f.BoolVarP(&o.shell, "shell", "c", false, "join the arguments and give them to sh -c")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "say nothing but errors; nothing at all when the lock is held")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "say what happens with the lock")
	f.StringVar(&o.redis, "redis", "", "`URL` of the server: redis://, rediss:// (TLS), unix://, and redis+cluster://\nor redis+sentinel://HOST?master_name=NAME, with &addr=HOST for further ones")
	f.StringVar(&o.prefix, "prefix", "", "`TEXT` that keys begin with (default holdfast:)")
	f.StringVar(&o.key, "key", "", "exact `KEY` of the lock, to share it with other programs")
	f.BoolVar(&o.strict, "strict", false, "Strict mode: no two holders even when the server loses its data; it grants\nnothing for --max-ttl then. For servers that holdfast init has admitted")
	f.Var((*span)(&o.maxTTL), "max-ttl", "with --strict, the longest lease `DUR` of any program that uses the server")
	f.BoolVarP(&o.help, "help", "h", false, "show this")
	o.flags = f
	return o
}

// parseRun reads the command line. Its errors have exit code 64, or 78 for
// values that do not go together.
func parseRun(args []string) (*runOptions, error) {
	o := newRunOptions()
	f := o.flags
	if err := f.Parse(args); err != nil {
		return o, usageError("%w; see holdfast help run", plain(err))
	}
	if o.help {
		return o, nil
	}
	o.waitSet = f.Changed("wait")
	dash := f.ArgsLenAtDash()
	switch {
	case dash < 0:
		return o, usageError("the command is missing: holdfast run [flags] NAME -- CMD...")
	case dash != 1:
		return o, usageError("before -- there is one NAME, not %d arguments: holdfast run [flags] NAME -- CMD...", dash)
	case f.NArg() == 1:
		return o, usageError("there is no command after --")
	}
	o.name, o.argv = f.Arg(0), f.Args()[1:]
	if err := o.checkUsage(); err != nil {
		return o, err
	}
	return o, o.checkConfig()
}

// plain is an error of pflag's without what the user wrote, which may be a
// password that landed in the wrong place.
func plain(err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return fmt.Errorf("unknown flag: -%s", unknown.GetSpecifiedName())
	case errors.As(err, &invalid):
		return fmt.Errorf("--%s: %w", invalid.GetFlag().Name, invalid.Unwrap())
	}
	return err
}

func (o *runOptions) checkUsage() error {
	policies := []string{string(keeper.Terminate), string(keeper.Kill), string(keeper.Notify), string(keeper.Ignore)}
	switch {
	case o.name == "":
		return usageError("NAME is empty")
	case o.try && o.waitSet:
		return usageError("--try and --wait: choose one")
	case o.quiet && o.verbose:
		return usageError("--quiet and --verbose: choose one")
	case o.ifBusy != "fail" && o.ifBusy != "skip":
		return usageError("--if-busy %q: want fail or skip", o.ifBusy)
	case !slices.Contains(policies, o.onLost):
		return usageError("--on-lost %q: want one of %s", o.onLost, strings.Join(policies, ", "))
	case o.shared && o.exclusive:
		return usageError("--shared and --exclusive: choose one")
	case o.readWrite() && o.slots != 0:
		return usageError("--slots goes with neither --shared nor --exclusive: choose one")
	case o.isShared() && o.flags.Changed("key"):
		return usageError("--key is for plain runs: no other program knows how locks with --shared, --exclusive or --slots are kept")
	case o.shared && o.minHold != 0:
		return usageError("--min-hold and --shared: choose one; a shared run keeps no other shared run from running again")
	case o.once != 0 && o.isShared():
		return usageError("--once goes with neither --shared nor --exclusive nor --slots: its runs are one at a time")
	case o.flags.Changed("once") && o.once < time.Millisecond:
		return usageError("--once %s: want at least 1ms", o.once)
	case o.once == 0 && (o.onceKey != "" || o.maxTries != 0):
		return usageError("--once-key and --max-tries have a meaning with --once only")
	case o.flags.Changed("once-key") && o.onceKey == "":
		return usageError("--once-key is empty")
	case o.conflictCode < 0 || o.conflictCode > 255:
		return usageError("--conflict-exit-code %d: want 0 to 255", o.conflictCode)
	case o.lostCode < 0 || o.lostCode > 255:
		return usageError("--lost-exit-code %d: want 0 to 255", o.lostCode)
	}
	for _, m := range o.meta {
		if k, _, ok := strings.Cut(m, "="); !ok || k == "" {
			return usageError("--meta %q: want KEY=VALUE", m)
		}
	}
	return nil
}

func (o *runOptions) checkConfig() error {
	switch {
	case o.ttl < minTTL || o.ttl > maxTTL:
		return configError("--ttl %s: want %s to %s", o.ttl, minTTL, maxTTL)
	case o.strict && (o.maxTTL < o.ttl || o.maxTTL > maxTTL):
		return configError("--max-ttl %s: want %s (--ttl) to %s", o.maxTTL, o.ttl, maxTTL)
	case o.flags.Changed("max-ttl") && !o.strict:
		return configError("--max-ttl has a meaning with --strict only")
	case o.minHold > maxTTL:
		return configError("--min-hold %s: want at most %s", o.minHold, maxTTL)
	case o.ttl < 3*o.killAfter:
		return configError("--ttl %s is under 3 × --kill-after %s: the command could not be ended in time when the lock is lost", o.ttl, o.killAfter)
	}
	return nil
}

// path finds what to execute, before anything is locked for it.
func (o *runOptions) path() (string, error) {
	if o.shell {
		o.argv = []string{"sh", "-c", strings.Join(o.argv, " ")}
		return "/bin/sh", nil
	}
	path, err := exec.LookPath(o.argv[0])
	switch {
	case err == nil, errors.Is(err, exec.ErrDot):
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "", &exitError{exitNotFound, fmt.Errorf("%s: command not found", o.argv[0])}
	}
	var lookup *exec.Error
	if errors.As(err, &lookup) {
		err = lookup.Err
	}
	return "", &exitError{exitNotRunnable, fmt.Errorf("%s: cannot be executed: %w", o.argv[0], err)}
}

// span is a duration that may be a plain number of seconds, as in flock(1) and
// timeout(1).
type span time.Duration

func (s *span) String() string {
	if *s == 0 {
		return "0" // for which no default is shown
	}
	return time.Duration(*s).String()
}

func (s *span) Type() string { return "duration" }

func (s *span) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, nerr := strconv.ParseFloat(text, 64); nerr == nil && n < 1e9 {
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil || d < 0 {
		return errors.New("want a time such as 90s, 1m30s, or a number of seconds")
	}
	*s = span(d)
	return nil
}
