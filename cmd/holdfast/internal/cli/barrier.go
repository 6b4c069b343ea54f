package cli

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

// maxBarrier is the most parties of a barrier.
const maxBarrier = 10_000

// barrierFlags are the flags and arguments of holdfast barrier.
type barrierFlags struct {
	partyFlags
	ttl time.Duration
}

const barrierHelp = `Usage: holdfast barrier [flags] NAME N wait

Waits until N parties wait at the barrier NAME, on all machines together, and goes on with
all of them. All that use NAME give the same N. If one of them is interrupted or dies, or
--wait is over for it, the barrier is broken for all that wait at that time (exit code 81),
and they may begin again.

  ./load.sh && holdfast barrier "release-$version-loaded" 3 wait && ./switch.sh

Give each step of a job a NAME of its own: a party leaves when it goes on, and one that is
slow to leave breaks the barrier for those that already wait for the next step there.

Flags:
{flags}

The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, redis://127.0.0.1:6379.

JSON: name, server, parties, action, outcome (passed, broken, waited, interrupted or
  failed), exit_code, phase, waited_ms, error.

Exit codes:
    0  all N have come                       77  credentials or ACL refused
   75  they have not, after --wait          78  another N, or another kind of lock
   64  wrong usage                          81  a party has left or died
   69  server unavailable                  130  interrupted (INT; also 129, 131, 143)
`

func barrierAction(f *pflag.FlagSet) action {
	o := &barrierFlags{ttl: 15 * time.Second}
	f.Var((*seconds)(&o.ttl), "ttl", "lease time `DUR`: how long a party whose machine dies is waited for")
	o.defineParty(f)
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		if err := o.parse(maxBarrier, "wait"); err != nil {
			return err
		}
		if f.Changed("wait") && o.wait == 0 {
			return exitcode.Usagef("--wait 0: the others need time to come")
		}
		if err := checkTTL(o.ttl); err != nil {
			return err
		}
		return o.with(ctx, stdout, stderr, o.ttl, o.useBarrier)
	}
}

func (o *barrierFlags) useBarrier(ctx context.Context, c *holdfast.Client, r *partyReport) error {
	party, err := barrier.New(c, o.name, o.parties, holdfast.TTL(o.ttl)).Join(ctx)
	if err != nil {
		return err
	}
	r.Outcome = "passed"
	r.Phase, err = party.Await(ctx)
	// One that fails to leave is taken for dead after --ttl, which harms nobody that has gone on.
	if left := party.Leave(context.Background()); left != nil && !errors.Is(left, holdfast.ErrLost) {
		o.console.Notef("barrier %q was not left, and another party can come in %s: %v", o.name, o.ttl, left)
	}
	return err
}
