package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

const resizeHelp = `Usage: holdfast resize [flags] NAME N

Sets the number of slots of NAME, for runs with --slots and for programs that use it as
a semaphore: from then on there are N slots, whatever number they give. With N = 0 the
server forgets N, and the number that they give counts again. Nobody loses a slot: if
more are taken than N, none is granted until enough of them are free.

A run that gives another number than those that are running is refused. To change the
number on one machine after another:
    holdfast resize render 4                      # first: runs may now give 3 or 4
    holdfast run --slots 4 render -- ./render.sh  # on one machine after another
    holdfast resize render 0                      # last: all runs give 4

Flags:
{flags}

The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, redis://127.0.0.1:6379.

Exit codes: 0 done, 64 wrong usage, 69 unavailable, 77 refused, 78 NAME is another kind
of lock.
`

func resize(f *pflag.FlagSet) action {
	o := &serverFlags{lacks: "which has no slots: name one server"}
	o.define(f, oneOrMore)
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		name := f.Arg(0)
		slots, err := strconv.Atoi(f.Arg(1))
		if err != nil || slots < 0 {
			return exitcode.Usagef("%q is not a number of slots", f.Arg(1))
		}
		if err := o.open(stderr); err != nil {
			return err
		}
		return o.use(ctx, o.config(o.servers, o.prefix), func(ctx context.Context, locks *connect.Locks) error {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			// A semaphore needs a number of permits, but Resize does not send it.
			if err := locks.Client().Semaphore(name, max(slots, 1)).Resize(ctx, slots); err != nil {
				return advised(err, mismatchAdvice("resize", err))
			}
			if slots == 0 {
				return printText(stdout, fmt.Sprintf("%q has as many slots as its users say\n", name))
			}
			return printText(stdout, fmt.Sprintf("%q has %d slots\n", name, slots))
		})
	}
}
