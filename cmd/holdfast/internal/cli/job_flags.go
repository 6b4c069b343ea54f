package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
)

// jobOptions are the flags and arguments of commands that run a command under a lock.
type jobOptions struct {
	name string
	argv []string

	ttl        time.Duration
	maxRuntime time.Duration
	onLost     string
	killAfter  time.Duration
	lostCode   int
	meta       []string
	json       string
	shell      bool
	quiet      bool
	verbose    bool
	redis      []string
	prefix     string
	strict     bool
	maxTTL     time.Duration
	help       bool
	flags      *pflag.FlagSet
}

const (
	maxTTL = 24 * time.Hour
	// minTTL leaves room for a renewal, and for the keeper's margins, on a busy
	// machine.
	minTTL = 500 * time.Millisecond
)

// define adds the flags to those of the command; onLost says what --on-lost does.
func (o *jobOptions) define(f *pflag.FlagSet, onLost string) {
	o.killAfter, o.ttl, o.maxTTL = 5*time.Second, 15*time.Second, defaultStrictTTL
	f.Var((*span)(&o.ttl), "ttl", "lease time `DUR`: how long the lock outlives a machine that dies")
	f.Var((*span)(&o.maxRuntime), "max-runtime", "end the command after `DUR`; exit code 124")
	f.StringVar(&o.onLost, "on-lost", string(keeper.Terminate), onLost)
	f.Var((*span)(&o.killAfter), "kill-after", "from TERM to KILL, `DUR`")
	f.IntVar(&o.lostCode, "lost-exit-code", exitLost, "exit code `N` when the command was ended because the lock was lost")
	f.StringArrayVar(&o.meta, "meta", nil, "a note `K=V` for those who ask who holds the lock; may be repeated")
	f.StringVar(&o.json, "json", "", "write a report, one JSON object, to `FILE`; without =FILE, to stderr")
	f.Lookup("json").NoOptDefVal = toStderr
	f.BoolVarP(&o.shell, "shell", "c", false, "join the arguments and give them to sh -c")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "say nothing but errors; nothing at all when the lock is held")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "say what happens with the lock")
	f.StringArrayVar(&o.redis, "redis", nil, "`URL` of the server: redis://, rediss:// (TLS), unix://, and redis+cluster://\nor redis+sentinel://HOST?master_name=NAME, with &addr=HOST for further ones;\nrepeated for the nodes of a quorum")
	f.StringVar(&o.prefix, "prefix", "", "`TEXT` that keys begin with (default holdfast:)")
	f.BoolVar(&o.strict, "strict", false, "Strict mode: no two holders even when the server loses its data; it grants\nnothing for --max-ttl then. For servers that holdfast init has admitted")
	f.Var((*span)(&o.maxTTL), "max-ttl", "with --strict, the longest lease `DUR` of any program that uses the server")
	f.BoolVarP(&o.help, "help", "h", false, "show this")
	o.flags = f
}

// toStderr is the FILE of --json when none is given.
const toStderr = "-"

func (o *jobOptions) parse(args []string) error {
	if err := o.flags.Parse(args); err != nil {
		return usageError("%w; see holdfast help %s", plain(err), o.flags.Name())
	}
	return nil
}

// takeCommand finds the lock's name before --, and the command after it.
func (o *jobOptions) takeCommand() error {
	f := o.flags
	usage := "holdfast " + f.Name() + " [flags] NAME -- CMD..."
	dash := f.ArgsLenAtDash()
	switch {
	case dash < 0:
		return usageError("the command is missing: %s", usage)
	case dash != 1:
		return usageError("before -- there is one NAME, not %d arguments: %s", dash, usage)
	case f.NArg() == 1:
		return usageError("there is no command after --")
	}
	o.name, o.argv = f.Arg(0), f.Args()[1:]
	return nil
}

// checkJob refuses what makes no sense, and policies other than these.
func (o *jobOptions) checkJob(policies ...keeper.Policy) error {
	var names []string
	for _, p := range policies {
		names = append(names, string(p))
	}
	switch {
	case o.name == "":
		return usageError("NAME is empty")
	case o.quiet && o.verbose:
		return usageError("--quiet and --verbose: choose one")
	case !slices.Contains(names, o.onLost):
		return usageError("--on-lost %q: want one of %s", o.onLost, strings.Join(names, ", "))
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

// checkTimes refuses times that do not go together.
func (o *jobOptions) checkTimes() error {
	switch {
	case o.ttl < minTTL || o.ttl > maxTTL:
		return configError("--ttl %s: want %s to %s", o.ttl, minTTL, maxTTL)
	case o.ttl < 3*o.killAfter:
		return configError("--ttl %s is under 3 × --kill-after %s: the command could not be ended in time when the lock is lost", o.ttl, o.killAfter)
	}
	return nil
}

// executable finds what to execute, before anything is locked for it.
func (o *jobOptions) executable() (string, error) {
	if o.shell {
		o.argv = []string{"sh", "-c", strings.Join(o.argv, " ")}
		return "/bin/sh", nil
	}
	path, err := exec.LookPath(o.argv[0])
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, exec.ErrDot):
		return elsewhere(o.argv[0])
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "", &exitError{exitNotFound, fmt.Errorf("%s: command not found", o.argv[0])}
	}
	var lookup *exec.Error
	if errors.As(err, &lookup) {
		err = lookup.Err
	}
	return "", &exitError{exitNotRunnable, fmt.Errorf("%s: cannot be executed: %w", o.argv[0], err)}
}

// elsewhere finds a program in those directories of PATH that do not depend on the working directory, which may be
// anybody's: an empty element means that one, most often by mistake.
func elsewhere(name string) (string, error) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", &exitError{exitNotFound, fmt.Errorf("%s: command not found, but in the working directory, by an empty or relative element of PATH: say .%c%[1]s if that is meant", name, filepath.Separator)}
}
