package cli

import (
	"context"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
)

// electOptions are the flags and arguments of holdfast elect.
type electOptions struct {
	jobOptions

	again  bool
	terms  count
	leader bool
	watch  bool
}

func newElectOptions() *electOptions {
	o := &electOptions{}
	f := newFlags("elect")
	f.BoolVar(&o.leader, "leader", false, "say who leads, and run nothing")
	f.BoolVar(&o.watch, "watch", false, "say who leads, now and whenever that changes, and run nothing")
	f.BoolVar(&o.again, "again", false, "campaign again when the command has ended by itself, too")
	f.Var(&o.terms, "terms", "lead at most `N` times (default: as often as it is elected)")
	o.define(f, "`ACTION` when the term is lost: terminate, or kill, which sends no TERM")
	return o
}

func parseElect(args []string) (*electOptions, error) {
	o := newElectOptions()
	if err := o.parse(args); err != nil || o.help {
		return o, err
	}
	if o.leader || o.watch {
		return o, o.checkLook()
	}
	if err := o.takeCommand(); err != nil {
		return o, err
	}
	if err := o.checkJob(keeper.Terminate, keeper.Kill); err != nil {
		return o, err
	}
	return o, o.checkTimes()
}

func elect(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	o, err := parseElect(args)
	switch {
	case o.help:
		electHelp(stdout)
		return nil
	case err != nil:
		return err
	case o.leader, o.watch:
		return look(ctx, o, stdout, stderr)
	}
	r := newRunner(&runOptions{jobOptions: o.jobOptions}, stdin, stdout, stderr)
	r.office = &office{again: o.again, most: int(o.terms)}
	return r.main(ctx)
}

// office is what a run for it is about.
type office struct {
	again    bool
	most     int // terms; 0: no bound
	election *holdfast.Election

	terms   chan *holdfast.Lease
	answers chan error    // what ends them
	over    chan struct{} // closed when the campaign is, with err
	err     error
	leading bool      // a term has not been answered
	elected time.Time // when it began
}

// breath is the least time from the beginning of a term to the next campaign, so that a
// command that fails at once is not started as fast as it can fail.
const breath = time.Second

// campaign leads for one term after another.
func (r *runner) campaign(ctx context.Context, locks *locker) *exitError {
	o := r.office
	o.election = locks.election(r.name, r.option())
	if exit := r.checkNew(ctx); exit != nil {
		return exit
	}
	// A server that was never there is an error; an outage is not.
	if _, err := o.election.Status(ctx); err != nil {
		return r.failure(err)
	}
	stand := o.stand(ctx)
	defer stand()
	r.take = o.next
	for {
		r.begun, r.report.Error = time.Now(), ""
		term, exit := r.obtain(ctx)
		if exit != nil {
			return exit
		}
		r.report.Terms++
		exit = r.hold(term)
		if !r.goesOn(exit) {
			return exit
		}
		if exit.err != nil {
			r.voice.fail(fmt.Errorf("%w; campaigning again", exit.err))
		} else {
			r.voice.tell("the command ended with exit code %d; campaigning again", exit.code)
		}
	}
}

// goesOn reports whether there is to be another term after one that ended so.
func (r *runner) goesOn(exit *exitError) bool {
	switch {
	case r.stopped, r.report.Terms == r.office.most:
		return false
	case r.report.Outcome == outcomeLost:
		return true
	case r.report.Outcome == outcomeFailed:
		return false
	}
	// On a terminal ^C goes to the command alone.
	quit := exit.code == exitSignal+int(syscall.SIGINT) || exit.code == exitSignal+int(syscall.SIGQUIT)
	return r.office.again && !quit && exit.code != exitNotRunnable && exit.code != exitNotFound
}

// stand begins to campaign. What it returns ends that.
func (o *office) stand(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	o.terms, o.answers, o.over = make(chan *holdfast.Lease), make(chan error), make(chan struct{})
	go func() {
		defer close(o.over)
		o.err = o.election.Run(ctx, func(ctx context.Context, term *holdfast.Lease) error {
			select {
			case o.terms <- term:
				return <-o.answers
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return func() {
		cancel()
		o.resign()
		<-o.over
	}
}

// resign ends the term, if there is one.
func (o *office) resign() {
	if o.leading {
		o.leading = false
		o.answers <- holdfast.ErrResign
	}
}

// next resigns, and returns the next term.
func (o *office) next(ctx context.Context) (*holdfast.Lease, error) {
	if o.leading {
		select {
		case <-time.After(time.Until(o.elected.Add(breath))):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		o.resign()
	}
	select {
	case term := <-o.terms:
		o.leading, o.elected = true, time.Now()
		return term, nil
	case <-o.over:
		return nil, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// tellLeaders says who leads, until ctx ends.
func (r *runner) tellLeaders(ctx context.Context) {
	for status, err := range r.office.election.Watch(ctx) {
		leader, leads := status.Holder()
		switch {
		case err != nil:
			r.voice.note("campaigning for %q: %v", r.name, err)
		case leads:
			waiting := "" // of a quorum it is not known how many do
			if !r.quorum {
				waiting = fmt.Sprintf("; %d waiting", len(status.Waiters))
			}
			r.voice.note("campaigning for %q, led by %s%s", r.name, r.describeOne(leader), waiting)
		}
	}
}
