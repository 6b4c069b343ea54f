package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

const latchHelp = `A latch counts N parties that have something to do before others go on. wait waits until
all N have counted down, count-down lowers the count by one, and reset starts it over.
All that use NAME give the same N. Programs that use the library's Latch share it.

  holdfast latch shards-loaded 5 count-down     # each of five loaders, when it is done
  holdfast latch shards-loaded 5 wait           # others, for all of them

An open latch stays open until it is reset, or until nobody has used it for a day. Each
count-down counts, so run it once for each party. A party of this command has no lease: if
its machine dies, others wait for it all the same, unless they use --wait.

wait exits with 75 if the latch is not open after --wait, and with 81 if it was reset
meanwhile, or is open because a party died or left.
`

const resizeHelp = `Sets the number of slots of NAME, for runs with --slots and for programs that use it as
a semaphore: from then on there are N slots, whatever number they give. With N = 0 the
server forgets N, and the number that they give counts again. Nobody loses a slot: if
more are taken than N, none is granted until enough of them are free.

A run that gives another number than those that are running is refused. To change the
number on one machine after another:
    holdfast resize render 4                      # first: runs may now give 3 or 4
    holdfast run --slots 4 render -- ./render.sh  # on one machine after another
    holdfast resize render 0                      # last: all runs give 4
`

// latchFlags are the flags of holdfast latch.
type latchFlags struct {
	serverFlags
	wait time.Duration
}

func latchAction(f *pflag.FlagSet) action {
	o := &latchFlags{}
	o.lacks, o.role = "which has no latches: name one server", "locker"
	f.VarP((*seconds)(&o.wait), "wait", "w", "with wait, wait at most `DUR` (default no limit)")
	o.define(f)
	o.defineJSON()
	o.defineStrict()
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		parties, err := strconv.Atoi(f.Arg(1))
		verb := f.Arg(2)
		switch {
		case err != nil || parties < 1 || parties > maxSlots:
			return exitcode.Usagef("%q is not a number of parties: want 1 to %d", f.Arg(1), maxSlots)
		case verb != "wait" && verb != "count-down" && verb != "reset":
			return exitcode.Usagef("%q: want wait or count-down or reset", verb)
		case verb != "wait" && f.Changed("wait"):
			return exitcode.Usagef("--wait is for wait, not for %s", verb)
		}
		r := &outcome{Name: f.Arg(0), Parties: parties}
		return o.do(ctx, stdout, stderr, r, func(ctx context.Context, locks *connect.Locks) error {
			if err := o.useLatch(ctx, latch.New(locks.Client(), r.Name, parties), verb, r); err != nil {
				return o.failed(err, verb, r)
			}
			return o.print(stdout, r, "")
		})
	}
}

func (o *latchFlags) useLatch(ctx context.Context, l *latch.Latch, verb string, r *outcome) error {
	switch verb {
	case "count-down":
		r.Outcome = "counted"
		return l.CountDown(ctx)
	case "reset":
		r.Outcome = "reset"
		return l.Reset(ctx)
	}
	r.Outcome = "open"
	if !o.flags.Changed("wait") {
		return l.Wait(ctx)
	}
	if n, err := l.Count(ctx); err != nil || n == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.wait)
	defer cancel()
	return l.Wait(ctx)
}

func (o *latchFlags) failed(err error, verb string, r *outcome) error {
	switch {
	case errors.Is(err, latch.ErrIncomplete), errors.Is(err, latch.ErrReset):
		return &exitcode.Error{Code: exitcode.Broken, Err: err}
	case errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, holdfast.ErrUnavailable):
		return exitcode.Errorf(exitcode.Busy, "after --wait %s, latch %q on %s is not open yet; holdfast show %s says who is missing",
			o.wait, r.Name, r.Server, shellWord(r.Name))
	case errors.Is(err, holdfast.ErrAmbiguous) && verb != "wait":
		return fmt.Errorf("%w; holdfast show %s says whether it was done", err, shellWord(r.Name))
	}
	return err
}

func resize(f *pflag.FlagSet) action {
	o := &serverFlags{lacks: "which has no slots: name one server", role: "locker"}
	o.define(f)
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		slots, err := strconv.Atoi(f.Arg(1))
		if err != nil || slots < 0 {
			return exitcode.Usagef("%q is not a number of slots", f.Arg(1))
		}
		return o.use(ctx, stderr, func(ctx context.Context, locks *connect.Locks) error {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			// A semaphore needs a number of permits, but Resize does not send it.
			if err := locks.Client().Semaphore(f.Arg(0), max(slots, 1)).Resize(ctx, slots); err != nil {
				return err
			}
			if slots == 0 {
				return printText(stdout, fmt.Sprintf("%q has as many slots as its users say\n", f.Arg(0)))
			}
			return printText(stdout, fmt.Sprintf("%q has %d slots\n", f.Arg(0), slots))
		})
	}
}
