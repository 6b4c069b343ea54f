package cli

import (
	"cmp"
	"context"
	"io"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
)

// maxLatch is the most parties of a latch.
const maxLatch = 1_000_000

const latchHelp = `Usage: holdfast latch [flags] NAME N wait
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
{flags}

The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, redis://127.0.0.1:6379.

JSON: name, server, parties, action, outcome (open, counted, reset, incomplete, waited,
  held, interrupted or failed), exit_code, waited_ms, error.

Exit codes:
    0  done; for wait, all have counted      69  server unavailable
       down                                  77  credentials or ACL refused
   75  for wait, not open after --wait;     78  another N, or another kind of lock
       for count-down, all parties that     81  the latch was reset meanwhile, or is
       are left count down themselves            open though a party died or left
   64  wrong usage                         130  interrupted (INT; also 129, 131, 143)
`

func latchAction(f *pflag.FlagSet) action {
	o := &partyFlags{}
	o.defineParty(f)
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		if err := o.parse(maxLatch, "wait", "count-down", "reset"); err != nil {
			return err
		}
		return o.with(ctx, stdout, stderr, minTTL, o.useLatch)
	}
}

func (o *partyFlags) useLatch(ctx context.Context, c *holdfast.Client, r *partyReport) error {
	l := latch.New(c, o.name, o.parties)
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
}
