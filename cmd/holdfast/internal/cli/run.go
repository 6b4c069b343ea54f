package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
)

// runner is one run of one command.
type runner struct {
	*runOptions
	voice          *voice
	stdin          io.Reader
	stdout, stderr io.Writer

	path   string // what to execute
	source string // what named the server
	quorum bool   // there are several

	servers *servers
	locks   *locker
	take    func(context.Context) (*holdfast.Lease, error) // gets the lock
	shift   *shift                                         // of --once, or nil
	office  *office                                        // of elect, or nil

	signals chan os.Signal
	begun   time.Time
	report  report
	kept    bool // the lock is left to its TTL
	silent  bool // the server did not answer when the lock was wanted
	stopped bool // a signal that ends programs was passed on to the command
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	o, err := parseRun(args)
	switch {
	case o.help:
		runHelp(stdout)
		return nil
	case err != nil:
		return err
	case o.last:
		return last(ctx, o, stdout, stderr)
	}
	return newRunner(o, stdin, stdout, stderr).main(ctx)
}

func newRunner(o *runOptions, stdin io.Reader, stdout, stderr io.Writer) *runner {
	return &runner{
		runOptions: o,
		voice:      &voice{w: stderr, quiet: o.quiet, verbose: o.verbose},
		stdin:      stdin, stdout: stdout, stderr: stderr,
		signals: make(chan os.Signal, 16),
		begun:   time.Now(),
		report:  report{Name: o.name, Outcome: outcomeFailed},
	}
}

// main runs the command, and says how that went.
func (r *runner) main(ctx context.Context) error {
	signal.Notify(r.signals, heard()...)
	// Until the very end: a signal that comes while the process exits must not become its exit code.
	defer keeper.ReapOrphans()()
	out := &spool{w: r.stderr}
	r.voice.w = out
	defer out.flush(r.signals)

	exit := r.run(ctx)
	r.report.ExitCode = exit.code
	if exit.err != nil {
		r.report.Error = exit.err.Error()
		r.voice.fail(exit.err)
	}
	if r.json != "" {
		if err := r.report.write(r.json, out, r.voice); err != nil {
			r.voice.fail(fmt.Errorf("the report was not written: %w", err))
		}
	}
	if exit.code == 0 {
		return nil
	}
	return &exitError{exit.code, nil}
}

// run returns how to exit: with a nil err, if nothing is left to say.
func (r *runner) run(ctx context.Context) *exitError {
	locks, shut, err := r.open()
	if err != nil {
		return asExit(err)
	}
	defer shut()
	if r.path, err = r.executable(); err != nil {
		return asExit(err)
	}
	if err := keeper.Check(); err != nil {
		return &exitError{exitSystem, err}
	}
	if r.office != nil {
		return r.campaign(ctx, locks)
	}
	r.choose()
	if exit := r.checkNew(ctx); exit != nil {
		return exit
	}
	r.tellOfNamesake(ctx)
	lease, exit := r.obtain(ctx)
	if exit != nil {
		return exit
	}
	return r.hold(lease)
}

// open makes clients of the servers that were named. It does no I/O. shut ends them.
func (r *runner) open() (locks *locker, shut func(), err error) {
	s, err := openServers(r.redis)
	if err != nil {
		return nil, nil, err
	}
	r.voice.secrets = s.secrets()
	r.servers, r.source, r.quorum = s, s.source, s.quorum()
	r.report.Server = s.addr()
	warnOf(r.voice, "instead", s.all...)
	if err = r.checkServers(len(s.all)); err == nil {
		locks, err = s.locker(r.config(), r.nodeTimeout)
	}
	if err != nil {
		s.close()
		return nil, nil, err
	}
	r.locks = locks
	return locks, func() {
		r.close(locks)
		s.close()
	}, nil
}

// config is that of the clients.
func (r *runner) config() *holdfast.Config {
	cfg := &holdfast.Config{MaxTTL: maxTTL, Prefix: r.prefix}
	if r.strict || r.quorum {
		cfg = strictConfig(r.maxTTL, r.prefix)
	}
	cfg.Logger = r.voice.logger()
	return cfg
}

func asExit(err error) *exitError {
	var exit *exitError
	if errors.As(err, &exit) {
		return exit
	}
	return &exitError{exitInternal, err}
}

// close ends the clients. A lock that is kept would make them wait for the end of the
// lease, and a server that did not answer will not soon.
func (r *runner) close(locks *locker) {
	switch {
	case r.kept:
	case r.silent:
		locks.close(r.voice, time.Second)
	default:
		locks.close(r.voice, parting)
	}
}

// option is that of any lock: several in one.
func (r *runner) option() holdfast.Option {
	options := []holdfast.Option{holdfast.TTL(r.ttl)}
	for _, m := range r.meta {
		k, v, _ := strings.Cut(m, "=")
		options = append(options, holdfast.Meta(k, v))
	}
	return holdfast.Options(options...)
}

// hold runs the command under the lease, and ends the lease.
func (r *runner) hold(lease *holdfast.Lease) *exitError {
	r.report.Fence = lease.Fence()
	if fences := lease.Fences(); len(fences) > 1 {
		r.report.Fences = fences
	}
	r.voice.tell("acquired %s, fence %d", strings.TrimPrefix(r.title(), "lock "), lease.Fence())
	held := time.Now()
	defer func() { r.report.Held = time.Since(held).Milliseconds() }()
	s := &session{runner: r, lease: lease}
	endRoll := r.callRoll(lease)
	started := time.Now()
	ended, err := s.run(keeper.Spec{
		Path: r.path, Args: r.argv, Env: r.environ(os.Environ(), lease.Fences()),
		Stdin: r.stdin, Stdout: r.stdout, Stderr: r.stderr,
		OnLost: keeper.Policy(r.onLost), KillAfter: r.killAfter, MaxRuntime: r.maxRuntime,
	})
	endRoll()
	if err != nil {
		r.release(lease)
		return &exitError{exitSystem, err}
	}
	over := time.Now()
	r.report.Started, r.report.Ended = &started, &over
	r.report.Ran = over.Sub(started).Milliseconds()
	exit := r.verdict(ended, s.lost)
	if r.shift != nil && exit.code == 0 && exit.err == nil {
		return r.complete(lease)
	}
	r.linger(lease, started.Add(r.minHold))
	if !r.kept {
		r.release(lease)
	}
	return exit
}

// verdict says how to exit after the command ended.
func (r *runner) verdict(ended keeper.Event, lost error) *exitError {
	code := ended.Code
	if ended.Signal != 0 {
		code = exitSignal + ended.Signal
	}
	r.report.Outcome = outcomeRan
	switch {
	case ended.Err != "":
		r.report.Outcome = outcomeFailed
		return &exitError{exitInternal, fmt.Errorf("%s; nothing is left of the command", ended.Err)}
	case ended.Cause == keeper.CauseLost, ended.Cause == keeper.CauseNotRun:
		r.report.Outcome = outcomeLost
		if lost == nil {
			lost = fmt.Errorf("lock %q on %s could not be renewed in time", r.name, r.report.Server)
		}
		what := "ended"
		if ended.Cause == keeper.CauseNotRun {
			what = "not run"
		}
		return &exitError{r.lostCode, fmt.Errorf("%w; the command was %s", lost, what)}
	case ended.Cause == keeper.CauseMaxRuntime:
		r.report.Outcome = outcomeOvertime
		return &exitError{exitOvertime, fmt.Errorf("the command ran for longer than --max-runtime %s, and was ended", r.maxRuntime)}
	}
	if lost != nil {
		r.report.Error = lost.Error()
	}
	return &exitError{code, nil}
}

// linger keeps the lock until the time of --min-hold. Interrupted, it leaves the
// lock to expire then.
func (r *runner) linger(lease *holdfast.Lease, until time.Time) {
	left := time.Until(until)
	if left <= 0 || lease.Err() != nil {
		return
	}
	r.voice.tell("keeping %q for another %s (--min-hold)", r.name, left.Round(time.Millisecond))
	timer := time.NewTimer(left)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-lease.Done():
			return // Its release tells why.
		case sig := <-r.signals:
			if suspends(sig) {
				stopGroup()
			}
			if !interrupts(sig) {
				continue
			}
		}
		break
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := lease.Extend(ctx, max(time.Until(until), time.Millisecond)); err != nil {
		r.voice.note("the lock may be free before --min-hold is over: %v", err)
	}
	r.kept = true
	r.voice.note("interrupted; the lock stays until %s (--min-hold)", lease.Deadline().Format(time.TimeOnly))
}

func (r *runner) release(lease *holdfast.Lease) {
	var err error
	if shift := r.shift; shift != nil {
		r.shift = nil
		if shift.end(errNotRun); shift.err != errNotRun {
			err = shift.err
		}
	} else {
		err = lease.Release(context.Background())
	}
	switch {
	case err == nil:
		r.voice.tell("released %s", strings.TrimPrefix(r.title(), "lock "))
	case errors.Is(err, holdfast.ErrLost) && r.report.Error == "" && r.report.Outcome == outcomeRan:
		r.report.Error = err.Error()
		r.voice.note("warning: %v: another may have held it while the command ran", err)
	case !errors.Is(err, holdfast.ErrLost):
		r.voice.note("the lock was not released, and expires within %s: %v", r.ttl, err)
	}
}

// environ is the command's environment: with what it may know of its lock, and
// without the way to the server. The fence is the highest of those of several locks.
func (r *runner) environ(env []string, fences map[string]uint64) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "HOLDFAST_REDIS", "HOLDFAST_NAME", "HOLDFAST_FENCE", "HOLDFAST_FENCES", "HOLDFAST_TTL_MS":
			return true
		}
		return name == r.source
	})
	fence := slices.Max(slices.Collect(maps.Values(fences)))
	env = append(env,
		"HOLDFAST_NAME="+r.name,
		"HOLDFAST_FENCE="+strconv.FormatUint(fence, 10),
		"HOLDFAST_TTL_MS="+strconv.FormatInt(r.ttl.Milliseconds(), 10))
	if len(fences) > 1 {
		text, _ := json.Marshal(fences) // names and numbers cannot fail
		env = append(env, "HOLDFAST_FENCES="+string(text))
	}
	return env
}
