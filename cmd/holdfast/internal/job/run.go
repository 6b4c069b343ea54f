// Package job runs a command under a lock: it acquires the lock, or is elected; has a keeper run the command while the
// lock is held; and releases the lock. It is the main part of holdfast run and holdfast elect.
package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/quorum"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/spool"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// Run is one run of holdfast run or holdfast elect.
type Run struct {
	Name    string
	Also    []string // further locks, held together with that of Name
	Prefix  string   // of keys; "" for the default
	Metrics string   // a file for node_exporter; "" for none
	Streams Streams
	Servers *connect.Servers // nil until they are known

	Console *console.Console // made by Main
	Locks   *connect.Locks   // made by Connect

	report    Report
	kept      *keeper.Job // the latest job; nil if none was begun
	signals   chan os.Signal
	revoked   chan holdfast.LeaseEvent // receives an operator's request to let go
	closeTime time.Duration            // how long the library may take to release what it holds when the run ends
	reserved  []*os.File
	outlasted bool // the lock was still held after the command had ended
}

// Streams are the standard streams.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Main calls do, and then writes the metrics, and the report to reportFile unless that is "". Its error has only an exit code: the user
// has been told of everything.
func Main(r *Run, level console.Level, reportFile string, do func() *exitcode.Error) error {
	r.signals, r.revoked = make(chan os.Signal, 16), make(chan holdfast.LeaseEvent, 1)
	r.closeTime = connect.CloseTime
	signal.Notify(r.signals, terminal.Signals()...)
	// Orphans are reaped until the very end. Signals stay handled: one that arrives while the process exits must not change its exit code.
	defer keeper.ReapOrphans()()
	stderr := spool.New(r.Streams.Err, 100*time.Millisecond) // so that messages are in order with the command's
	defer stderr.Flush(r.signals)
	r.Console = console.New(stderr, level)
	r.report = Report{Name: r.Name, Outcome: Failed}

	exit := do()
	if exit == nil {
		exit = &exitcode.Error{}
	}
	r.report.ExitCode = exit.Code
	if r.Servers != nil {
		r.report.Server = r.Servers.Addr()
	}
	if exit.Err != nil {
		r.report.Error = exit.Err.Error()
		r.Console.Error(exit.Err)
	}
	if reportFile != "" {
		r.report.Error = r.Console.Redact(r.report.Error)
		if err := r.unlessTold(func() error { return r.report.write(reportFile, stderr) }); err != nil {
			r.Console.Error(fmt.Errorf("the report was not written: %w", err))
		}
	}
	if r.Metrics != "" {
		if err := r.unlessTold(func() error { return r.report.writeMetrics(r.Metrics) }); err != nil {
			r.Console.Error(fmt.Errorf("the metrics were not written: %w", err))
		}
	}
	return &exitcode.Error{Code: exit.Code}
}

// writeTime is how long a write may take after a signal, which may have arrived before the write began.
const writeTime = time.Second

// unlessTold calls write. If a signal asks the program to end, it gives up after writeTime: the file may be a pipe without a reader, or a
// terminal that ^S has stopped.
func (r *Run) unlessTold(write func() error) error {
	done, failed := make(chan struct{}), error(nil)
	go func() {
		defer close(done)
		failed = write()
	}()
	if !terminal.Await(done, r.signals) {
		select {
		case <-done:
		case <-time.After(writeTime):
			return errors.New("interrupted")
		}
	}
	return failed
}

// Connect makes the run's clients of the library. It does no I/O. The caller calls closeLocks when the run ends.
func (r *Run) Connect(cfg *holdfast.Config, nodeTimeout time.Duration) (closeLocks func(), err error) {
	cfg.Logger = r.Console.Logger()
	cfg.Observers = []*holdfast.Observer{{Revoked: func(_ context.Context, e holdfast.LeaseEvent) {
		select {
		case r.revoked <- e:
		default: // an earlier request is still in the channel
		}
	}}}
	if r.Locks, err = r.Servers.Locks(cfg, nodeTimeout); err != nil {
		return nil, err
	}
	return func() {
		if r.closeTime > 0 {
			if err := r.Locks.Close(r.closeTime); err != nil {
				r.Console.Detailf("closing: %v", err)
			}
		}
	}, nil
}

// title returns the names of the locks: lock "a", or locks "a", "b".
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

// failure gives an error of the library its exit code, and adds what the user should do.
func (r *Run) failure(err error) *exitcode.Error {
	exit := exitcode.OfLibrary(err)
	exit.Err = fmt.Errorf("%w%s", r.Servers.Explain(err), quorumAdvice(err))
	return exit
}

// tellf prints a note on a terminal. Elsewhere it prints a detail, because cron mails all output.
func (r *Run) tellf(format string, args ...any) {
	if console.IsTerminal(r.Streams.Err) {
		r.Console.Notef(format, args...)
	} else {
		r.Console.Detailf(format, args...)
	}
}

// reserve opens a file for each server. The files are closed before the lease is released, so that the release can connect even if
// the keeper did not start because too many files are open.
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

// release releases a lease, and warns if it had been lost. If the server does not answer, release says when the lock expires: in exit's
// error or, if exit has none, in a note.
func (r *Run) release(lease *holdfast.Lease, exit *exitcode.Error) {
	for _, f := range r.reserved {
		f.Close()
	}
	r.reserved = nil
	deadline := lease.Deadline().Format(time.TimeOnly)
	err := lease.Release(context.Background())
	switch {
	case err == nil:
		r.Console.Detailf("released %s", r.quotedNames())
	case errors.Is(err, holdfast.ErrLost) && r.outlasted:
		r.Console.Notef("%v; the command had already ended", err)
	case errors.Is(err, holdfast.ErrLost) && r.report.Error == "" && r.report.Outcome == Ran:
		r.report.Error, r.report.lost = err.Error(), true
		r.Console.Warnf("%v; another process may have held the lock while the command ran", err)
	case !errors.Is(err, holdfast.ErrLost):
		r.closeTime = 0 // closing would only try the release once more
		kept := fmt.Sprintf("the lock was not released, and expires at %s: %s", deadline, strings.TrimPrefix(err.Error(), "holdfast: "))
		if exit.Err != nil {
			exit.Err = fmt.Errorf("%w; %s", exit.Err, kept)
		} else {
			r.Console.Notef("%s", kept)
		}
	}
}

// UnderLock waits for a lock, and runs the job under it. With Lock.Once, it does not run the job if that is completed.
func (r *Run) UnderLock(ctx context.Context, j *Job, l *Lock) *exitcode.Error {
	var s source = l
	if l.Once != nil {
		s = &onceLock{Lock: l}
	} else if exit := l.nested(ctx); exit != nil {
		return exit
	}
	if exit := r.reserve(); exit != nil {
		return exit
	}
	return r.runJob(ctx, s, j, l.Began, func(*exitcode.Error, bool) bool { return false })
}

// hold runs the job under a lease, and then releases the lease. If keep is set, it keeps the lease of a job that succeeded. ended reports
// whether a signal asked holdfast to end.
func (r *Run) hold(j *Job, lease *holdfast.Lease, keep bool) (exit *exitcode.Error, ended bool) {
	r.report.Fence = lease.Fence()
	fences := lease.Fences()
	if len(fences) > 1 {
		r.report.Fences = fences
	}
	r.Console.Detailf("acquired %s, fence %d", r.quotedNames(), lease.Fence())
	x := &execution{run: r, job: j, lease: lease}
	held := time.Now()
	defer func() { r.report.Held = time.Since(held).Milliseconds() }()
	noteNodes := r.tellNodes(lease)
	started := time.Now()
	x.keptUntil = started.Add(j.MinHold)
	result, err := x.execute(environment(os.Environ(), r, j.TTL, outerFences(), fences))
	noteNodes()
	if err != nil {
		exit = &exitcode.Error{Code: exitcode.System, Err: err}
		r.release(lease, exit)
		return exit, false
	}
	over := time.Now()
	r.report.Started, r.report.Ended = &started, &over
	r.report.Ran = over.Sub(started).Milliseconds()
	exit = r.verdict(j, result, x.lost)
	if keep && exit.Code == 0 && exit.Err == nil {
		return exit, x.told
	}
	if kept := r.linger(lease, j.TTL, x.keptUntil); !kept {
		r.release(lease, exit)
	}
	return exit, x.told
}

// verdict returns the exit code, and records the outcome, after the command has ended. lost says why the lock was lost, or is nil.
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
			lost = fmt.Errorf("lock %q on %s could not be renewed in time", r.Name, r.Servers.Addr())
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
	// A lock that can still be extended was not lost while the command ran. Otherwise it may have been.
	extended := make(chan error, 1)
	go func() { extended <- lease.Extend(lease.Context(context.Background()), ttl) }()
	timer := time.NewTimer(left)
	defer timer.Stop()
	for interrupted := false; !interrupted; {
		select {
		case <-timer.C:
			return false
		case <-lease.Done(): // the release says why
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
			if sig == terminal.Suspend {
				terminal.StopGroup()
			}
			interrupted = terminal.EndsProgram(sig)
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

func (r *Run) revocation(e holdfast.LeaseEvent) string {
	why := ""
	if e.Note != "" {
		why = ": " + printable.Line(e.Note, 256)
	}
	return fmt.Sprintf("%s asks to let go of %q%s", printable.Word(e.By, 64), r.Name, why)
}

// nodeTime is how long after a grant tellNodes looks at the nodes, since slow ones may still answer, and how long it waits for a node.
const nodeTime = time.Second

// tellNodes warns of nodes of a quorum that do not answer. stop records in the report which nodes hold the lease at that time.
func (r *Run) tellNodes(lease *holdfast.Lease) (stop func()) {
	if !r.Servers.AreQuorum() {
		return func() {}
	}
	stopped, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-time.After(nodeTime):
		case <-stopped:
		}
		nodes := r.Locks.Nodes(lease)
		for _, s := range r.Servers.All {
			if slices.Contains(nodes, s.Addr) || lease.Err() != nil {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), nodeTime)
			if err := s.Client.Ping(ctx).Err(); err != nil {
				r.Console.Warnf("node %s does not answer; lock %q is held on %d of %d nodes: %.512s",
					s.Addr, r.Name, len(nodes), len(r.Servers.All), connect.ErrorText(err))
			}
			cancel()
		}
	}()
	return func() {
		close(stopped)
		<-over
		if lease.Err() == nil {
			r.report.Nodes = r.Locks.Nodes(lease)
		}
	}
}

// quorumAdvice says what to do about an error of a quorum; "" if err is another error, or says so itself.
func quorumAdvice(err error) string {
	switch {
	case !errors.As(err, new(*quorum.Error)),
		errors.Is(err, holdfast.ErrDenied), errors.Is(err, holdfast.ErrUnsupported), errors.Is(err, holdfast.ErrMismatch):
		return ""
	case errors.Is(err, holdfast.ErrNotAdmitted):
		return "; if nodes are new, run holdfast init with all nodes"
	case errors.Is(err, holdfast.ErrQuarantine):
		return "; without --try, a run waits for the end of a quarantine (see holdfast doctor)"
	}
	return "; check that these nodes run (see holdfast doctor), or give them more time (--node-timeout)"
}
