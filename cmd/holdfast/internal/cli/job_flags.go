package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/job"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
)

// jobFlags are the flags and arguments that run and elect have in common.
type jobFlags struct {
	serverFlags
	name    string
	job     job.Job
	notes   []string
	report  string // the file of --json
	quiet   bool
	verbose bool

	nodeTimeout time.Duration // of a quorum; 0 is the default
}

// defineJob defines the flags. policies describes the values of --on-lost.
func (o *jobFlags) defineJob(f *pflag.FlagSet, policies string) {
	j := &o.job
	j.KillAfter, j.TTL, j.OnLost = 5*time.Second, 15*time.Second, keeper.Terminate
	f.Var((*seconds)(&j.TTL), "ttl", "lease time `DUR`: how long the lock outlives a machine that dies")
	f.Var((*seconds)(&j.MaxRuntime), "max-runtime", "end the command after `DUR`; exit code 124")
	f.StringVar((*string)(&j.OnLost), "on-lost", string(keeper.Terminate), "`ACTION` if the lock is lost: "+policies)
	f.Var((*seconds)(&j.KillAfter), "kill-after", "time `DUR` from TERM to KILL when holdfast ends the command, not after a signal that is passed on")
	f.IntVar(&j.LostCode, "lost-exit-code", exitcode.Lost, "exit code `N` if the command was ended because the lock was lost")
	f.BoolVarP(&j.Shell, "shell", "c", false, "join the arguments of the command, and give them to sh -c")
	f.StringArrayVar(&o.notes, "meta", nil, "a note `K=V` that is shown with the holder; may be repeated (default command=FILE)")
	f.StringVar(&o.report, "json", "", "write a report, one JSON object, to `FILE`; without =FILE, to stderr")
	f.Lookup("json").NoOptDefVal = job.ToStderr
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print only errors, and nothing if the lock is held")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print what happens to the lock")
	o.define(f)
	o.defineStrict()
}

// takeCommand takes the lock's name from the left of --, and the command from the right. Another -- may stand before the name, which
// may then begin with a dash.
func (o *jobFlags) takeCommand() error {
	f := o.flags
	usage := "holdfast " + f.Name() + " [flags] NAME -- CMD..."
	dash, args := f.ArgsLenAtDash(), f.Args()
	if dash == 0 && len(args) > 1 && args[1] == "--" { // -- NAME -- CMD
		dash, args = 1, slices.Delete(args, 1, 2)
	}
	switch {
	case dash < 0:
		return exitcode.Usagef("the -- before the command is missing: %s", usage)
	case dash != 1:
		return exitcode.Usagef("want one NAME before --, not %d arguments: %s", dash, usage)
	case len(args) == 1:
		return exitcode.Usagef("there is no command after --: %s", usage)
	case args[0] == "":
		return exitcode.Usagef("NAME is empty")
	}
	o.name, o.job.Args = args[0], args[1:]
	return nil
}

// checkJob checks the flags that are about the command. policies are the valid values of --on-lost.
func (o *jobFlags) checkJob(policies ...keeper.Policy) error {
	j := &o.job
	if !slices.Contains(policies, j.OnLost) {
		return exitcode.Usagef("--on-lost %q: want one of %s", j.OnLost, strings.Trim(fmt.Sprint(policies), "[]"))
	}
	if _, err := os.Stat(filepath.Dir(o.report)); err != nil {
		return exitcode.Errorf(exitcode.CannotCreate, "--json=%s: %w", o.report, err)
	}
	if err := cmp.Or(checkCode("lost-exit-code", j.LostCode), o.checkHolder()); err != nil {
		return err
	}
	if j.TTL < 3*j.KillAfter {
		return exitcode.Configf("--ttl %s is under 3 × --kill-after %s: the command could not be ended in time if the lock is lost; "+
			"give a longer --ttl or a shorter --kill-after", j.TTL, j.KillAfter)
	}
	return nil
}

func checkCode(flag string, code int) error {
	if code < 0 || code > 255 {
		return exitcode.Usagef("--%s %d: want 0 to 255", flag, code)
	}
	return nil
}

// checkHolder checks the flags that matter even if no command is run.
func (o *jobFlags) checkHolder() error {
	if err := chooseOne(o.flags, "quiet", "verbose"); err != nil {
		return err
	}
	switch {
	case o.quiet:
		o.level = console.Quiet
	case o.verbose:
		o.level = console.Verbose
	}
	if err := checkMeta(o.notes); err != nil {
		return err
	}
	o.ttl = max(o.job.TTL, o.job.MinHold) // an interrupted run leaves the lock to expire after --min-hold
	return checkTTL(o.job.TTL)
}

func checkMeta(notes []string) error {
	for _, m := range notes {
		if k, _, ok := strings.Cut(m, "="); !ok || k == "" {
			return exitcode.Usagef("--meta %q: want KEY=VALUE", m)
		}
	}
	return nil
}

func meta(notes []string) holdfast.Option {
	var options []holdfast.Option
	for _, m := range notes {
		k, v, _ := strings.Cut(m, "=")
		options = append(options, holdfast.Meta(k, v))
	}
	return holdfast.Options(options...)
}

// start completes r, opens the servers, prepares the command, and calls do, which runs it.
func (o *jobFlags) start(ctx context.Context, streams job.Streams, r *job.Run, do func() *exitcode.Error) error {
	r.Name, r.Prefix, r.Streams = o.name, o.prefix, streams
	return job.Main(r, o.level, o.report, func() *exitcode.Error {
		err := o.open(r.Console)
		if r.Servers = o.servers; err != nil {
			return exitcode.Of(err)
		}
		defer o.servers.Close()
		if o.nodeTimeout != 0 && !o.servers.AreQuorum() {
			return exitcode.Configf("--node-timeout needs several servers")
		}
		closeLocks, err := r.Connect(o.config(), o.nodeTimeout)
		if err != nil {
			return exitcode.Of(err)
		}
		defer closeLocks()
		if exit := o.job.Prepare(); exit != nil {
			return exit
		}
		if err := o.servers.CheckAdmitted(ctx, o.prefix, max(o.nodeTimeout, admittedTime)); err != nil {
			return exitcode.Of(err)
		}
		return do()
	})
}

// admittedTime is how long a node may take to say that it was never admitted.
const admittedTime = 100 * time.Millisecond

// option returns the options of locks and elections. Without --meta, the holder's note names the command without its arguments, which
// may contain secrets. A note says --min-hold, because a run that keeps the lock after its command has ended looks as if it hangs.
func (o *jobFlags) option() holdfast.Option {
	notes := o.notes
	if len(notes) == 0 && len(o.job.Args) > 0 {
		notes = []string{"command=" + filepath.Base(o.job.Args[0])}
	}
	if o.job.MinHold > 0 {
		notes = append([]string{"min-hold=" + o.job.MinHold.String()}, notes...)
	}
	return holdfast.Options(holdfast.TTL(o.job.TTL), meta(notes))
}
