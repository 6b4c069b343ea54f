package cli

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/keys"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/job"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
)

// jobFlags are the flags and arguments of commands that run a command: run and elect.
type jobFlags struct {
	serverFlags
	name    string
	job     job.Job
	meta    []string
	json    string // the file of the report
	quiet   bool
	verbose bool

	nodeTimeout time.Duration // of a quorum; 0 is the default
}

// defineJob defines the flags. onLost is the text of --on-lost.
func (o *jobFlags) defineJob(f *pflag.FlagSet, onLost string) {
	j := &o.job
	j.KillAfter, j.TTL, j.OnLost = 5*time.Second, 15*time.Second, keeper.Terminate
	f.Var((*seconds)(&j.TTL), "ttl", "lease time `DUR`: how long the lock outlives a machine that dies")
	f.Var((*seconds)(&j.MaxRuntime), "max-runtime", "end the command after `DUR`; exit code 124")
	f.StringVar((*string)(&j.OnLost), "on-lost", string(keeper.Terminate), onLost)
	f.Var((*seconds)(&j.KillAfter), "kill-after", "time `DUR` from TERM to KILL")
	f.IntVar(&j.LostCode, "lost-exit-code", exitcode.Lost, "exit code `N` if the command was ended because the lock was lost")
	f.StringArrayVar(&o.meta, "meta", nil, "a note `K=V` that is shown with the holder; may be repeated (default command=FILE,\nthe name of the command's file)")
	f.StringVar(&o.json, "json", "", "write a report, one JSON object, to `FILE`; without =FILE, to stderr")
	f.Lookup("json").NoOptDefVal = job.ToStderr
	f.BoolVarP(&j.Shell, "shell", "c", false, "join the arguments and give them to sh -c")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print only errors, and nothing if the lock is held")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print what happens to the lock")
	o.define(f, "`URL` of the server: redis://, rediss:// (TLS), unix://, and redis+cluster://\nor redis+sentinel://HOST?master_name=NAME, with &addr=HOST for further hosts;\nrepeated for the nodes of a quorum")
	o.defineStrict("Strict mode: no two holders even if the server loses its data; afterwards it\ngrants nothing for --max-ttl. For servers that holdfast init has admitted")
}

// takeCommand takes the lock's name from before --, and the command from after it. A name that begins with a dash has a -- of its
// own before it, as with other commands.
func (o *jobFlags) takeCommand() error {
	f := o.flags
	usage := "holdfast " + f.Name() + " [flags] NAME -- CMD..."
	dash, args := f.ArgsLenAtDash(), f.Args()
	if dash == 0 && len(args) > 1 && args[1] == "--" { // a name that begins with a dash: -- NAME -- CMD
		dash, args = 1, slices.Delete(args, 1, 2)
	}
	switch {
	case dash < 0:
		return exitcode.Usagef("the command is missing: %s", usage)
	case dash != 1:
		return exitcode.Usagef("want one NAME before --, not %d arguments: %s", dash, usage)
	case len(args) == 1:
		return exitcode.Usagef("there is no command after --: %s", usage)
	}
	o.name, o.job.Args = args[0], args[1:]
	return nil
}

// checkJob refuses flags that make no sense, and policies other than these.
func (o *jobFlags) checkJob(policies ...keeper.Policy) error {
	j := &o.job
	switch {
	case o.name == "":
		return exitcode.Usagef("NAME is empty")
	case o.quiet && o.verbose:
		return exitcode.Usagef("--quiet and --verbose: choose one")
	case !slices.Contains(policies, j.OnLost):
		var names []string
		for _, p := range policies {
			names = append(names, string(p))
		}
		return exitcode.Usagef("--on-lost %q: want one of %s", j.OnLost, strings.Join(names, ", "))
	case j.LostCode < 0 || j.LostCode > 255:
		return exitcode.Usagef("--lost-exit-code %d: want 0 to 255", j.LostCode)
	}
	return checkMeta(o.meta)
}

// advice implements job.Run.Advice.
func (o *jobFlags) advice(err error) string { return mismatchAdvice(o.flags.Name(), err) }

// checkMeta refuses notes that are not KEY=VALUE.
func checkMeta(notes []string) error {
	for _, m := range notes {
		if k, _, ok := strings.Cut(m, "="); !ok || k == "" {
			return exitcode.Usagef("--meta %q: want KEY=VALUE", m)
		}
	}
	return nil
}

// checkTimes refuses times that do not fit together.
func (o *jobFlags) checkTimes() error {
	if err := checkTTL(o.job.TTL); err != nil {
		return err
	}
	if j := &o.job; j.TTL < 3*j.KillAfter {
		return exitcode.Configf("--ttl %s is under 3 × --kill-after %s: the command could not be ended in time if the lock is lost; give a longer --ttl or a shorter --kill-after", j.TTL, j.KillAfter)
	}
	return nil
}

// checkStrict refuses values that do not fit the servers' longest lease.
func (o *jobFlags) checkStrict(s *connect.Servers) error {
	if err := o.checkMaxTTL(s, o.job.TTL); err != nil {
		return err
	}
	if (o.strict || s.AreQuorum()) && o.job.MinHold > o.maxTTL {
		return exitcode.Configf("--min-hold %s is longer than --max-ttl %s: if interrupted, holdfast could not leave the lock to expire then", o.job.MinHold, o.maxTTL)
	}
	return nil
}

// level is the level of the console.
func (o *jobFlags) level() console.Level {
	switch {
	case o.quiet:
		return console.Quiet
	case o.verbose:
		return console.Verbose
	}
	return console.Normal
}

// openFor opens the servers of a run, after check has accepted them.
func (o *jobFlags) openFor(r *job.Run, check func(*connect.Servers) error) (closeAll func(), err error) {
	s, err := connect.OpenAll(o.redis)
	if err != nil {
		return nil, err
	}
	return r.Use(s, func() (*connect.Locks, error) {
		if err := check(s); err != nil {
			return nil, err
		}
		cfg := o.config(s, o.prefix)
		cfg.Logger, cfg.Observers = r.Console.Logger(), []*holdfast.Observer{r.Observer()}
		return s.Locks(cfg, o.nodeTimeout)
	})
}

// option has the options of locks and elections.
func (o *jobFlags) option() holdfast.Option {
	options := []holdfast.Option{holdfast.TTL(o.job.TTL)}
	for _, m := range o.notes() {
		k, v, _ := strings.Cut(m, "=")
		options = append(options, holdfast.Meta(k, v))
	}
	return holdfast.Options(options...)
}

// notes returns the notes that are shown with the holder. They leave out the command's arguments and what a shell is given, which may
// have secrets. They include --min-hold, because a run that keeps the lock after its command has ended looks as if it hangs.
func (o *jobFlags) notes() (all []string) {
	if o.job.MinHold > 0 {
		all = []string{"min-hold=" + o.job.MinHold.String()}
	}
	if len(o.meta) > 0 || o.job.Shell || len(o.job.Args) == 0 {
		return append(all, o.meta...)
	}
	return append(all, "command="+filepath.Base(o.job.Args[0]))
}

// keyOf returns the key of the lock of a name; "" if the name is not valid.
func (o *jobFlags) keyOf(name string) string {
	space, err := keys.NewSpace(cmp.Or(o.prefix, "holdfast:"))
	if err != nil {
		return ""
	}
	set, err := space.Name(name)
	if err != nil {
		return ""
	}
	return set.Lock
}
