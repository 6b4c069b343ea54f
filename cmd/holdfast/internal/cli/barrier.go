package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

// maxBarrier is the most parties of a barrier.
const maxBarrier = 10_000

// barrierFlags are the flags and arguments of holdfast barrier.
type barrierFlags struct {
	partyFlags
	ttl time.Duration
}

func newBarrierFlags() *barrierFlags {
	o := &barrierFlags{partyFlags: newPartyFlags("barrier"), ttl: 15 * time.Second}
	o.flags.Var((*seconds)(&o.ttl), "ttl", "lease time `DUR`: how long a party whose machine dies is waited for")
	o.defineParty()
	return o
}

func barrierHelp(w io.Writer) {
	fmt.Fprintf(w, `Usage: holdfast barrier [flags] NAME N wait

Waits until N parties wait at the barrier NAME, on all machines together, and goes on with
all of them. All that use NAME give the same N. If one of them is interrupted or dies, or
--wait is over for it, the barrier is broken for all that wait at that time (exit code %d),
and they may begin again.

  ./load.sh && holdfast barrier "release-$version-loaded" 3 wait && ./switch.sh

Give each step of a job a NAME of its own: a party leaves when it goes on, and one that is
slow to leave breaks the barrier for those that already wait for the next step there.

Flags:
%s
The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, %s.

JSON: name, server, parties, action, outcome (passed, broken, waited, interrupted or
  failed), exit_code, phase, waited_ms, error.

Exit codes:
    0  all N have come                      %3d  credentials or ACL refused
  %3d  they have not, after --wait         %3d  another N, or another kind of lock
  %3d  wrong usage                         %3d  a party has left or died
  %3d  server unavailable                  %3d  interrupted (INT; also 129, 131, 143)
`, exitcode.Broken, newBarrierFlags().flags.FlagUsages(), connect.Default, exitcode.Denied, exitcode.Busy, exitcode.Config, exitcode.Usage,
		exitcode.Broken, exitcode.Unavailable, exitcode.Signal+2)
}

func barrier(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) error {
	o := newBarrierFlags()
	if err := o.parse(args, maxBarrier, "wait"); err != nil {
		return err
	}
	if o.flags.Changed("wait") && o.wait == 0 {
		return exitcode.Usagef("--wait 0: the others need time to come")
	}
	if o.ttl < minTTL || o.ttl > maxTTL {
		return exitcode.Configf("--ttl %s: want %s to %s", o.ttl, minTTL, maxTTL)
	}
	if o.strict && o.ttl > o.maxTTL {
		return exitcode.Configf("--ttl %s is longer than --max-ttl %s", o.ttl, o.maxTTL)
	}
	return o.with(ctx, stdout, stderr, func(ctx context.Context, c *holdfast.Client, r *partyReport) error {
		party, err := c.Barrier(o.name, o.parties, holdfast.TTL(o.ttl)).Join(ctx)
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
	})
}
