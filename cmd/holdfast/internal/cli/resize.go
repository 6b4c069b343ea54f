package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

// resizeFlags are the arguments and flags of holdfast resize.
type resizeFlags struct {
	serverFlags
	name  string
	slots int
}

func newResizeFlags() *resizeFlags {
	o := &resizeFlags{serverFlags: newServerFlags("resize")}
	o.define(oneOrMore)
	return o
}

func resizeHelp(w io.Writer) {
	fmt.Fprintf(w, `Usage: holdfast resize [flags] NAME N

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
%s
The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, %s.

Exit codes: 0 done, %d wrong usage, %d unavailable, %d refused, %d NAME is another kind
of lock.
`, newResizeFlags().flags.FlagUsages(), connect.Default, exitcode.Usage, exitcode.Unavailable, exitcode.Denied, exitcode.Config)
}

func (o *resizeFlags) parse(args []string) error {
	if err := parse(o.flags, args); err != nil {
		return err
	}
	if n := o.flags.NArg(); n != 2 {
		return exitcode.Usagef("want two arguments, not %d: holdfast resize NAME N", n)
	}
	if o.name = o.flags.Arg(0); o.name == "" {
		return exitcode.Usagef("NAME is empty")
	}
	n, err := strconv.Atoi(o.flags.Arg(1))
	if err != nil || n < 0 {
		return exitcode.Usagef("%q is not a number of slots", o.flags.Arg(1))
	}
	o.slots = n
	return nil
}

func resize(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) error {
	o := newResizeFlags()
	if err := o.parse(args); err != nil {
		return err
	}
	s, c, err := o.open(stderr)
	if err != nil {
		return err
	}
	defer s.Close()
	if s.AreQuorum() {
		return exitcode.Configf("%d servers are named, a quorum, which has no slots: name one server", len(s.All))
	}
	locks, err := s.Locks(&holdfast.Config{Prefix: o.prefix, Logger: c.Logger()}, 0)
	if err != nil {
		return err
	}
	defer locks.Close(connect.CloseTime)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	// A semaphore needs a number of permits, but Resize does not send it.
	if err := locks.Client().Semaphore(o.name, max(o.slots, 1)).Resize(ctx, o.slots); err != nil {
		exit := exitcode.OfLibrary(err)
		if advice := mismatchAdvice("resize", err); advice != "" {
			err = fmt.Errorf("%w; %s", err, advice)
		}
		c.Error(err)
		return &exitcode.Error{Code: exit.Code}
	}
	if o.slots == 0 {
		_, err = fmt.Fprintf(stdout, "%q has as many slots as its users say\n", o.name)
	} else {
		_, err = fmt.Fprintf(stdout, "%q has %d slots\n", o.name, o.slots)
	}
	return err
}
