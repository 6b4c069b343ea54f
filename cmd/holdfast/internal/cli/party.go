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

// partyFlags are the flags and arguments of latch and barrier, at which a number of parties meet.
type partyFlags struct {
	serverFlags
	name    string
	parties int
	action  string
	wait    time.Duration
	asJSON  bool
}

// defineParty defines the flags that both have.
func (o *partyFlags) defineParty(f *pflag.FlagSet) {
	f.VarP((*seconds)(&o.wait), "wait", "w", "with wait, wait at most `DUR` (default: no limit)")
	f.BoolVar(&o.asJSON, "json", false, "print the outcome as one line of JSON on standard output")
	o.lacks = "which has no " + f.Name() + ": name one server"
	o.define(f, onlyOne)
	o.defineStrict("Strict mode, as for holdfast run; the same for all that use NAME")
}

// parse takes NAME, the number of parties up to most, and what to do, which is one of actions.
func (o *partyFlags) parse(most int, actions ...string) error {
	f := o.flags
	n, err := strconv.Atoi(f.Arg(1))
	o.name, o.parties, o.action = f.Arg(0), n, f.Arg(2)
	switch {
	case err != nil || n < 1 || n > most:
		return exitcode.Usagef("%q is not a number of parties: want 1 to %d", f.Arg(1), most)
	case !slices.Contains(actions, o.action):
		return exitcode.Usagef("%q: want %s", o.action, strings.Join(actions, " or "))
	case f.Changed("wait") && o.action != "wait":
		return exitcode.Usagef("--wait is for wait, not for %s", o.action)
	}
	return nil
}

// partyReport is what --json prints.
type partyReport struct {
	Name     string `json:"name"`
	Server   string `json:"server"`
	Parties  int    `json:"parties"`
	Action   string `json:"action"`
	Outcome  string `json:"outcome"`
	ExitCode int    `json:"exit_code"`
	Phase    uint64 `json:"phase,omitempty"` // of a barrier
	Waited   int64  `json:"waited_ms"`
	Error    string `json:"error,omitempty"`
}

// with opens the server, where leases last for ttl at least, and calls f, whose context ends by a signal, or when --wait is over. It
// returns how to exit.
func (o *partyFlags) with(ctx context.Context, stdout, stderr io.Writer, ttl time.Duration, f func(context.Context, *holdfast.Client, *partyReport) error) error {
	if err := o.open(stderr); err != nil {
		return err
	}
	return o.use(ctx, o.config(o.servers, o.prefix), func(ctx context.Context, locks *connect.Locks) error {
		if err := o.checkMaxTTL(o.servers, ttl); err != nil {
			return err
		}
		return o.meet(ctx, stdout, locks.Client(), f)
	})
}

func (o *partyFlags) meet(ctx context.Context, stdout io.Writer, client *holdfast.Client, f func(context.Context, *holdfast.Client, *partyReport) error) error {
	work := ctx
	if o.wait > 0 {
		var cancel context.CancelFunc
		work, cancel = context.WithTimeout(ctx, o.wait)
		defer cancel()
	}
	began := time.Now()
	r := &partyReport{Name: o.name, Server: o.servers.Addr(), Parties: o.parties, Action: o.action}
	err := f(work, client, r)
	r.Waited = time.Since(began).Milliseconds()
	exit := o.exit(ctx, r, err)
	if exit.Err != nil {
		o.console.Error(exit.Err)
		r.Error = o.console.Redact(exit.Err.Error())
	}
	r.ExitCode = exit.Code
	if o.asJSON {
		if err := printJSON(stdout, r); err != nil {
			return err
		}
	}
	if exit.Code == 0 {
		return nil
	}
	return &exitcode.Error{Code: exit.Code}
}

// errNotOpen says that what is not waited for has not happened yet.
var errNotOpen = errors.New("not open yet")

// exit returns how to exit after err, and completes the report's outcome.
func (o *partyFlags) exit(ctx context.Context, r *partyReport, err error) *exitcode.Error {
	switch {
	case err == nil:
		return &exitcode.Error{}
	case interrupted(ctx) != nil:
		r.Outcome = "interrupted"
		return interrupted(ctx)
	case errors.Is(err, latch.ErrIncomplete):
		r.Outcome = "incomplete"
		return &exitcode.Error{Code: exitcode.Broken, Err: err}
	case errors.Is(err, barrier.ErrBroken):
		r.Outcome = "broken"
		return &exitcode.Error{Code: exitcode.Broken, Err: err}
	case errors.Is(err, latch.ErrReset):
		r.Outcome = "reset"
		return &exitcode.Error{Code: exitcode.Broken, Err: err}
	case errors.Is(err, errNotOpen), errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, holdfast.ErrUnavailable):
		r.Outcome = "waited"
		return &exitcode.Error{Code: exitcode.Busy, Err: fmt.Errorf("after --wait %s, %s %q on %s is not open yet; holdfast show %s says who is missing",
			o.wait, o.flags.Name(), o.name, r.Server, shellWord(o.name))}
	case errors.Is(err, holdfast.ErrHeld):
		r.Outcome = "held"
		return &exitcode.Error{Code: exitcode.Busy, Err: err}
	}
	r.Outcome = "failed"
	exit := exitcode.OfLibrary(err)
	exit.Err = o.servers.Explain(err)
	switch {
	case errors.Is(err, holdfast.ErrAmbiguous) && o.action != "wait":
		exit.Err = fmt.Errorf("%w; holdfast show %s says whether it was done", err, shellWord(o.name))
	case errors.Is(err, holdfast.ErrMismatch):
		exit.Err = advised(err, mismatchAdvice(o.flags.Name(), err))
	}
	return exit
}
