package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

// maxLatch is the most parties of a latch.
const maxLatch = 1_000_000

func newLatchFlags() *partyFlags {
	o := newPartyFlags("latch")
	o.defineParty()
	return &o
}

func latchHelp(w io.Writer) {
	fmt.Fprintf(w, `Usage: holdfast latch [flags] NAME N wait
       holdfast latch [flags] NAME N count-down
       holdfast latch [flags] NAME N reset

A latch counts N parties that have something to do before others go on. wait waits until
all N have counted down, count-down lowers the count by one, and reset starts it over.
All that use NAME give the same N. Programs that use the library's Latch share it.

  holdfast latch shards-loaded 5 count-down     # each of five loaders, when it is done
  holdfast latch shards-loaded 5 wait           # others, for all of them

An open latch stays open until it is reset, or until nobody has used it for a day. Each
count-down counts, so run it once for each party. A party of this command has no lease: if
its machine dies, others wait for it all the same, unless they use --wait.

Flags:
%s
The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, %s.

JSON: name, server, parties, action, outcome (open, counted, reset, incomplete, waited,
  held, interrupted or failed), exit_code, waited_ms, error.

Exit codes:
    0  done; for wait, all have counted     %3d  server unavailable
       down                                 %3d  credentials or ACL refused
  %3d  for wait, not open after --wait;    %3d  another N, or another kind of lock
       for count-down, all parties that    %3d  the latch was reset meanwhile, or is
       are left count down themselves            open though a party died or left
  %3d  wrong usage                         %3d  interrupted (INT; also 129, 131, 143)
`, newLatchFlags().flags.FlagUsages(), connect.Default, exitcode.Unavailable, exitcode.Denied, exitcode.Busy, exitcode.Config,
		exitcode.Broken, exitcode.Usage, exitcode.Signal+2)
}

func latch(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) error {
	o := newLatchFlags()
	if err := o.parse(args, maxLatch, "wait", "count-down", "reset"); err != nil {
		return err
	}
	return o.with(ctx, stdout, stderr, func(ctx context.Context, c *holdfast.Client, r *partyReport) error {
		l := c.Latch(o.name, o.parties)
		switch o.action {
		case "count-down":
			r.Outcome = "counted"
			return l.CountDown(ctx)
		case "reset":
			r.Outcome = "reset"
			return l.Reset(ctx)
		}
		if o.flags.Changed("wait") && o.wait == 0 {
			if n, err := l.Count(ctx); err != nil || n > 0 {
				return cmp.Or(err, errNotOpen)
			}
		}
		r.Outcome = "open"
		return l.Wait(ctx)
	})
}
