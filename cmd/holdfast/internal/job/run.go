// Package job runs a command under a lock. It acquires the lock, or is elected; has a keeper run the command while the
// lock is held; and releases the lock. holdfast run and holdfast elect are made of it.
package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/signals"
)

// Run is one run of holdfast run or holdfast elect: what all its parts share.
type Run struct {
	Name    string
	Also    []string // further locks, held with that of Name
	Prefix  string   // that keys begin with; "" for the default
	Metrics string   // a file for node_exporter; "" if none is wanted
	Console *console.Console
	Streams Streams
	Servers *connect.Servers
	Locks   *connect.Locks
	// Advice says what to do about an error of the library, in the words of the command; "" if it has no advice.
	Advice func(error) string

	report    Report
	signals   chan os.Signal
	revoked   chan holdfast.LeaseEvent // receives a request to let go
	closeTime time.Duration            // for which the library may release what it holds when the run ends
	reserved  []*os.File
	outlasted bool // the lock was still held after the command had ended
}

// Streams are the standard streams.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Main runs do, and writes the report to a file if there is one, and metrics: ToStderr is standard error. It returns how to exit.
func Main(r *Run, level console.Level, reportFile string, do func() *exitcode.Error) error {
	r.signals, r.revoked = make(chan os.Signal, 16), make(chan holdfast.LeaseEvent, 1)
	signal.Notify(r.signals, signals.Handled()...)
	// Until the very end: a signal that arrives while the process exits must not change its exit code.
	defer keeper.ReapOrphans()()
	spool := console.NewSpool(r.Streams.Err)
	defer spool.Flush(r.signals)
	r.Console = console.New(spool, level)
	r.report = Report{Name: r.Name, Outcome: Failed}

	exit := do()
	if exit == nil {
		exit = &exitcode.Error{}
	}
	r.report.ExitCode = exit.Code
	if exit.Err != nil {
		r.report.Error = exit.Err.Error()
		r.Console.Error(exit.Err)
	}
	if reportFile != "" {
		r.report.Error = r.Console.Redact(r.report.Error)
		if err := r.unlessTold(func() error { return r.report.write(reportFile, spool) }); err != nil {
			r.Console.Error(fmt.Errorf("the report was not written: %w", err))
		}
	}
	if r.Metrics != "" {
		if err := r.unlessTold(func() error { return r.report.writeMetrics(r.Metrics) }); err != nil {
			r.Console.Error(fmt.Errorf("the metrics were not written: %w", err))
		}
	}
	if exit.Code == 0 {
		return nil
	}
	return &exitcode.Error{Code: exit.Code}
}

// writeTime is how long a write may go on after a signal, which may have come before the write began.
const writeTime = time.Second

// unlessTold calls write, and gives up writeTime after a signal that ends programs: the file may be a pipe that nobody reads, or a
// terminal that ^S has stopped.
func (r *Run) unlessTold(write func() error) error {
	done, failed := make(chan struct{}), error(nil)
	go func() {
		defer close(done)
		failed = write()
	}()
	if !signals.Await(done, r.signals) {
		select {
		case <-done:
		case <-time.After(writeTime):
			return errors.New("interrupted")
		}
	}
	return failed
}

// Use makes a run use these servers. It does no I/O. makeLocks makes their clients. The run closes the servers, by the
// function that Use returns, or if Use fails.
func (r *Run) Use(s *connect.Servers, makeLocks func() (*connect.Locks, error)) (closeAll func(), err error) {
	r.Servers, r.closeTime = s, connect.CloseTime
	r.report.Server = s.Addr()
	r.Console.Hide(s.Secrets()...)
	for _, warning := range connect.Warnings("instead", s.All...) {
		r.Console.Warnf("%s", warning)
	}
	if r.Locks, err = makeLocks(); err != nil {
		s.Close()
		return nil, err
	}
	return func() {
		if r.closeTime > 0 {
			if err := r.Locks.Close(r.closeTime); err != nil {
				r.Console.Detailf("closing: %v", err)
			}
		}
		s.Close()
	}, nil
}

// Observer returns an observer that the run's clients must have.
func (r *Run) Observer() *holdfast.Observer {
	return &holdfast.Observer{Revoked: func(_ context.Context, e holdfast.LeaseEvent) {
		select {
		case r.revoked <- e:
		default: // it was asked already
		}
	}}
}

// CheckAdmitted refuses a quorum that has never been used: see connect.Servers.NeverAdmitted.
func (r *Run) CheckAdmitted(ctx context.Context, prefix string, nodeTimeout time.Duration) *exitcode.Error {
	never := r.Servers.NeverAdmitted(ctx, prefix, max(nodeTimeout, 100*time.Millisecond))
	if len(never) == 0 {
		return nil
	}
	return exitcode.Errorf(exitcode.Unavailable, "nodes %s have never been admitted to the quorum: if they are new, run holdfast init "+
		"with all nodes, once; if they lost their data, do so when all earlier leases have expired", strings.Join(never, ", "))
}

// title names the locks: lock "a", or locks "a", "b".
func (r *Run) title() string {
	if len(r.Also) == 0 {
		return "lock " + r.quotedNames()
	}
	return "locks " + r.quotedNames()
}

func (r *Run) quotedNames() string {
	text := fmt.Sprintf("%q", r.Name)
	for _, name := range r.Also {
		text += fmt.Sprintf(", %q", name)
	}
	return text
}

// Failure returns how to exit after an error of the library, with advice about the command and servers.
func (r *Run) Failure(err error) *exitcode.Error {
	exit := exitcode.OfLibrary(err)
	if exit.Err = quorumFailure(err); exit.Err == nil {
		exit.Err = r.Servers.Explain(err)
	}
	if advice := r.Advice(err); advice != "" {
		exit.Err = fmt.Errorf("%w; %s", exit.Err, advice)
	}
	return exit
}

// tellf prints a note on a terminal. Elsewhere it is a detail, since cron mails all output.
func (r *Run) tellf(format string, args ...any) {
	if console.IsTerminal(r.Streams.Err) {
		r.Console.Notef(format, args...)
	} else {
		r.Console.Detailf(format, args...)
	}
}

// reserve opens a file for each server. They are closed before the lease is released, so that the release can connect even if the
// keeper did not start because too many files are open.
func (r *Run) reserve() *exitcode.Error {
	for range r.Servers.All {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return exitcode.Errorf(exitcode.System, "no room for a job: %w; raise the limit of open files (ulimit -n)", err)
		}
		r.reserved = append(r.reserved, f)
	}
	return nil
}

// release releases a lease, and prints if it had been lost. If the server does not answer, release says until when the lock lasts:
// in exit's error or, if there is none, in a note.
func (r *Run) release(s source, lease *holdfast.Lease, exit *exitcode.Error) {
	for _, f := range r.reserved {
		f.Close()
	}
	r.reserved = nil
	deadline := lease.Deadline().Format(time.TimeOnly)
	err := s.release(lease)
	switch {
	case err == nil:
		r.Console.Detailf("released %s", r.quotedNames())
	case errors.Is(err, holdfast.ErrLost) && r.outlasted:
		r.Console.Notef("%v; the command had already ended", err)
	case errors.Is(err, holdfast.ErrLost) && r.report.Error == "" && r.report.Outcome == Ran:
		r.report.Error, r.report.lost = err.Error(), true
		r.Console.Warnf("%v; another process may have held the lock while the command ran", err)
	case !errors.Is(err, holdfast.ErrLost):
		r.closeTime = 0 // closing would try the same once more
		kept := fmt.Sprintf("the lock was not released, and expires at %s: %s", deadline, strings.TrimPrefix(err.Error(), "holdfast: "))
		if exit.Err != nil {
			exit.Err = fmt.Errorf("%w; %s", exit.Err, kept)
		} else {
			r.Console.Notef("%s", kept)
		}
	}
}

func (r *Run) isQuorum() bool { return r.Servers.AreQuorum() }

// Job is a command, and the terms on which it runs under a lease.
type Job struct {
	Command
	TTL     time.Duration // of the lease
	MinHold time.Duration // for which the lock is kept, from the start of the command
}

// Prepare finds the program, and checks that a keeper can work here. It is called before anything is locked.
func (j *Job) Prepare() *exitcode.Error {
	if err := j.find(); err != nil {
		return exitcode.As(err)
	}
	if err := keeper.Check(); err != nil {
		return &exitcode.Error{Code: exitcode.System, Err: err}
	}
	return nil
}

// UnderLock waits for a lock, and runs the job under it.
func (r *Run) UnderLock(ctx context.Context, j *Job, l *Lock) *exitcode.Error {
	if exit := l.nested(ctx); exit != nil {
		return exit
	}
	return r.underLease(ctx, j, l, l.Began)
}

// Once runs the job under a lock unless it is completed already.
func (r *Run) Once(ctx context.Context, j *Job, o *OnceLock) *exitcode.Error {
	return r.underLease(ctx, j, o, o.Began)
}

// underLease runs the job under one lease. began is when the wait for it began.
func (r *Run) underLease(ctx context.Context, j *Job, s source, began time.Time) *exitcode.Error {
	if exit := r.reserve(); exit != nil {
		return exit
	}
	lease, exit := r.obtain(ctx, s, j.TTL, began)
	if exit != nil {
		return exit
	}
	exit, _ = r.hold(j, s, lease)
	return exit
}

// hold runs the job under a lease, and then releases the lease. ended reports whether holdfast was told to end.
func (r *Run) hold(j *Job, s source, lease *holdfast.Lease) (exit *exitcode.Error, ended bool) {
	r.report.Fence = lease.Fence()
	fences := lease.Fences()
	if len(fences) > 1 {
		r.report.Fences = fences
	}
	r.Console.Detailf("acquired %s, fence %d", r.quotedNames(), lease.Fence())
	x := &execution{run: r, job: j, lease: lease}
	defer x.awaitKeeper()
	held := time.Now()
	defer func() { r.report.Held = time.Since(held).Milliseconds() }()
	noteNodes := r.tellNodes(lease)
	started := time.Now()
	x.keptUntil = started.Add(j.MinHold)
	result, err := x.execute(environment(os.Environ(), r, j.TTL, outerFences(), fences))
	noteNodes()
	if err != nil {
		exit = &exitcode.Error{Code: exitcode.System, Err: err}
		r.release(s, lease, exit)
		return exit, false
	}
	over := time.Now()
	r.report.Started, r.report.Ended = &started, &over
	r.report.Ran = over.Sub(started).Milliseconds()
	exit = r.verdict(j, result, x.lost)
	if exit.Code == 0 && exit.Err == nil {
		if o, is := s.(*OnceLock); is {
			return o.complete(lease, j.LostCode), x.told
		}
	}
	if kept := r.linger(lease, j.TTL, x.keptUntil); !kept {
		r.release(s, lease, exit)
	}
	return exit, x.told
}

// verdict returns how to exit after the command has ended; lost says why the lock was lost, or is nil.
func (r *Run) verdict(j *Job, result keeper.Event, lost error) *exitcode.Error {
	code := result.Code
	if result.Signal != 0 {
		code = exitcode.Signal + result.Signal
	}
	r.report.Outcome = Ran
	switch {
	case result.Err != "":
		r.report.Outcome = Failed
		return exitcode.Errorf(exitcode.Internal, "%s; the command and its processes were killed", result.Err)
	case result.Cause == keeper.CauseLost, result.Cause == keeper.CauseNotRun:
		r.report.Outcome = Lost
		if lost == nil {
			lost = fmt.Errorf("lock %q on %s could not be renewed in time", r.Name, r.report.Server)
		}
		what := "ended"
		if result.Cause == keeper.CauseNotRun {
			what = "not run"
		}
		return exitcode.Errorf(j.LostCode, "%w; the command was %s", lost, what)
	case result.Cause == keeper.CauseMaxRuntime:
		r.report.Outcome = Overtime
		return exitcode.Errorf(exitcode.Overtime, "the command ran for longer than --max-runtime %s, and was ended", j.MaxRuntime)
	}
	if lost != nil {
		r.report.Error, r.report.lost = lost.Error(), true
	}
	return &exitcode.Error{Code: code}
}

// linger keeps the lock until --min-hold has passed, even if an operator asks the holder to let go: a host whose clock is behind must
// not run the job again. If a signal interrupts linger, it leaves the lock to expire at that time, and returns true.
func (r *Run) linger(lease *holdfast.Lease, ttl time.Duration, until time.Time) (kept bool) {
	left := time.Until(until)
	if left <= 0 || lease.Err() != nil {
		return false
	}
	// If the lock can still be extended, it was not lost while the command ran. Otherwise it may have been.
	extended := make(chan error, 1)
	go func() { extended <- lease.Extend(lease.Context(context.Background()), ttl) }()
	timer := time.NewTimer(left)
	defer timer.Stop()
	for interrupted := false; !interrupted; {
		select {
		case <-timer.C:
			return false
		case <-lease.Done(): // The release says why.
			r.Console.Warnf("lost %s: another host may run the job again before %s (--min-hold)", r.quotedNames(), until.Format(time.TimeOnly))
			return false
		case err := <-extended:
			if r.outlasted = err == nil; !r.outlasted {
				continue
			}
			r.tellf("keeping %q for another %s (--min-hold)", r.Name, time.Until(until).Round(time.Millisecond))
		case e := <-r.revoked:
			if e.Fence == lease.Fence() {
				r.Console.Notef("%s; the lock stays until %s (--min-hold)", r.revocation(e), until.Format(time.TimeOnly))
			}
		case sig := <-r.signals:
			if signals.Suspends(sig) {
				signals.StopGroup()
			}
			interrupted = signals.EndsProgram(sig)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := lease.Extend(ctx, max(time.Until(until), time.Millisecond)); err != nil {
		r.Console.Notef("the lock may be free before --min-hold is over: %v", err)
	}
	r.closeTime = 0 // closing would wait for the end of the lease
	r.Console.Notef("interrupted; the lock stays until %s (--min-hold)", lease.Deadline().Format(time.TimeOnly))
	return true
}

// revocation says who asks to let go of the lock, and why.
func (r *Run) revocation(e holdfast.LeaseEvent) string {
	why := ""
	if e.Note != "" {
		why = ": " + printable.Line(e.Note, 256)
	}
	return fmt.Sprintf("%s asks to let go of %q%s", printable.Word(e.By, 64), r.Name, why)
}
