package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
)

// resizeOptions are the arguments and flags of holdfast resize.
type resizeOptions struct {
	serverOptions
	name  string
	slots int
}

func newResizeOptions() *resizeOptions {
	o := &resizeOptions{}
	o.define("resize")
	return o
}

func resizeHelp(w io.Writer) {
	fmt.Fprintf(w, `Usage: holdfast resize [flags] NAME N

Sets how many slots NAME has, for runs with --slots and for programs that use it as a
semaphore: from then on there are N, whatever number they give. With N = 0 the server
forgets that, and the number that they give holds again. Nobody loses a slot: where more
are taken than there are now, none is given until enough have come back.

Runs that give another number than those that run are refused. So, to change it while
machines are changed over one after another:
    holdfast resize render 4                      # before the first; all may give 3 or 4
    holdfast run --slots 4 render -- ./render.sh  # on one machine after another
    holdfast resize render 0                      # after the last; all give 4

Flags:
%s
The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, %s.

Exit codes: 0 done, %d usage, %d unreachable, %d refused, %d NAME is another kind of lock.
`, newResizeOptions().flags.FlagUsages(), defaultRedis, exitUsage, exitUnavailable, exitRefused, exitConfig)
}

func (o *resizeOptions) parse(args []string) error {
	if err := o.flags.Parse(args); err != nil {
		return usageError("%w; see holdfast help resize", plain(err))
	}
	if n := o.flags.NArg(); n != 2 {
		return usageError("there are two arguments, not %d: holdfast resize NAME N", n)
	}
	o.name = o.flags.Arg(0)
	n, err := strconv.Atoi(o.flags.Arg(1))
	if err != nil || n < 0 {
		return usageError("%q is no number of slots", o.flags.Arg(1))
	}
	o.slots = n
	return nil
}

func resize(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) error {
	if wantsHelp(args) {
		resizeHelp(stdout)
		return nil
	}
	o := newResizeOptions()
	if err := o.parse(args); err != nil {
		return err
	}
	s, v, err := o.open(stderr)
	if err != nil {
		return err
	}
	defer s.close()
	if n := len(s.all); n > 1 {
		return configError("%d servers are named, a quorum, and it has no slots: name one server", n)
	}
	locks, err := s.locker(&holdfast.Config{Prefix: o.prefix, Logger: v.logger()}, 0)
	if err != nil {
		return err
	}
	defer locks.close(v, parting)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	// The number that is named here is sent to nobody.
	if err := locks.clients[0].Semaphore(o.name, max(o.slots, 1)).Resize(ctx, o.slots); err != nil {
		v.fail(err)
		return &exitError{failure(err).code, nil}
	}
	if o.slots == 0 {
		_, err = fmt.Fprintf(stdout, "%q has as many slots as those say who use it\n", o.name)
	} else {
		_, err = fmt.Fprintf(stdout, "%q has %d slots\n", o.name, o.slots)
	}
	return err
}
