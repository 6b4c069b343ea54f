package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/latch"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

type partyFlags struct {
	serverFlags
	wait time.Duration
	r    outcome
}

func (o *partyFlags) defineParties(f *pflag.FlagSet) {
	o.lacks, o.role = "which has no "+f.Name()+": name one server", "locker"
	f.VarP((*seconds)(&o.wait), "wait", "w", "with wait, wait at most `DUR` (default no limit)")
	o.define(f)
	o.defineJSON()
	o.defineStrict()
}

// meet returns an action that checks the arguments and calls use with the verb. most bounds the number of parties.
func (o *partyFlags) meet(most int, verbs []string, use func(context.Context, *holdfast.Client, string) error) action {
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		f := o.flags
		parties, err := strconv.Atoi(f.Arg(1))
		verb := f.Arg(2)
		switch {
		case err != nil || parties < 1 || parties > most:
			return exitcode.Usagef("%q is not a number of parties: want 1 to %d", f.Arg(1), most)
		case !slices.Contains(verbs, verb):
			return exitcode.Usagef("%q: want %s", verb, strings.Join(verbs, " or "))
		case verb != "wait" && f.Changed("wait"):
			return exitcode.Usagef("--wait is for wait, not for %s", verb)
		case f.Lookup("ttl") == nil:
		case f.Changed("wait") && o.wait == 0:
			return exitcode.Usagef("--wait 0: the others need time to come")
		default:
			if err := checkTTL(o.ttl); err != nil {
				return err
			}
		}
		o.r.Name, o.r.Parties = f.Arg(0), parties
		return o.do(ctx, stdout, stderr, &o.r, func(ctx context.Context, locks *connect.Locks) error {
			if err := use(ctx, locks.Client(), verb); err != nil {
				return o.failed(ctx, err, verb)
			}
			return o.print(stdout, &o.r, "")
		})
	}
}

// waiting returns a context that ends when --wait has passed.
func (o *partyFlags) waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	if !o.flags.Changed("wait") {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, o.wait)
}

func latchAction(f *pflag.FlagSet) action {
	o := &partyFlags{}
	o.defineParties(f)
	return o.meet(maxSlots, []string{"wait", "count-down", "reset"}, func(ctx context.Context, c *holdfast.Client, verb string) error {
		return o.useLatch(ctx, latch.New(c, o.r.Name, o.r.Parties), verb)
	})
}

func barrierAction(f *pflag.FlagSet) action {
	o := &partyFlags{}
	o.ttl = 15 * time.Second
	f.Var((*seconds)(&o.ttl), "ttl", "lease time `DUR`: how long a party whose machine dies is waited for")
	o.defineParties(f)
	return o.meet(10_000, []string{"wait"}, func(ctx context.Context, c *holdfast.Client, _ string) error {
		ctx, cancel := o.waiting(ctx)
		defer cancel()
		party, err := barrier.New(c, o.r.Name, o.r.Parties, holdfast.TTL(o.ttl)).Join(ctx)
		if err != nil {
			return err
		}
		o.r.Outcome = "passed"
		o.r.Phase, err = party.Await(ctx)
		// A party that fails to leave counts as dead after --ttl. That harms no party that has gone on.
		if left := party.Leave(context.Background()); left != nil && !errors.Is(left, holdfast.ErrLost) {
			o.console.Notef("barrier %q was not left, and another party can come in %s: %v", o.r.Name, o.ttl, left)
		}
		return err
	})
}

func (o *partyFlags) useLatch(ctx context.Context, l *latch.Latch, verb string) error {
	switch verb {
	case "count-down":
		o.r.Outcome = "counted"
		return l.CountDown(ctx)
	case "reset":
		o.r.Outcome = "reset"
		return l.Reset(ctx)
	}
	o.r.Outcome = "open"
	if o.flags.Changed("wait") {
		if n, err := l.Count(ctx); err != nil || n == 0 {
			return err
		}
	}
	ctx, cancel := o.waiting(ctx)
	defer cancel()
	return l.Wait(ctx)
}

// failed adds to an error its exit code and what to do next. Only a signal ends ctx.
func (o *partyFlags) failed(ctx context.Context, err error, verb string) error {
	r, what := &o.r, o.flags.Name()
	var server *holdfast.ServerError
	switch {
	case ctx.Err() != nil:
		return whenInterrupted(ctx, err, fmt.Sprintf("while waiting for %s %q on %s", what, r.Name, r.Server))
	case errors.Is(err, latch.ErrIncomplete), errors.Is(err, latch.ErrReset), errors.Is(err, barrier.ErrBroken):
		return &exitcode.Error{Code: exitcode.Broken, Err: err}
	case what == "barrier" && errors.As(err, &server) && server.Code == "BADPARTIES":
		return exitcode.Configf("%w; give the N that the other parties give", err)
	case errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, holdfast.ErrUnavailable):
		return exitcode.Errorf(exitcode.Busy, "after --wait %s, %s %q on %s still lacks parties; %s says who is missing",
			o.wait, what, r.Name, r.Server, o.hint("show", o.prefix, r.Name))
	case errors.Is(err, holdfast.ErrAmbiguous) && verb != "wait":
		return fmt.Errorf("%w; %s says whether it was done", err, o.hint("show", o.prefix, r.Name))
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
