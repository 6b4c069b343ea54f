package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/keeper"
)

// runner is one run of one command.
type runner struct {
	*runOptions
	voice          *voice
	stdin          io.Reader
	stdout, stderr io.Writer

	signals chan os.Signal
	begun   time.Time
	report  report
	kept    bool           // the lock is left to its TTL
	job     *holdfast.Once // of --once, or nil
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	o, err := parseRun(args)
	switch {
	case o.help:
		runHelp(stdout)
		return nil
	case err != nil:
		return err
	}
	r := &runner{
		runOptions: o,
		voice:      &voice{w: stderr, quiet: o.quiet, verbose: o.verbose},
		stdin:      stdin, stdout: stdout, stderr: stderr,
		signals: make(chan os.Signal, 16),
		begun:   time.Now(),
		report:  report{Name: o.name, Outcome: outcomeFailed},
	}
	signal.Notify(r.signals, heard()...)
	defer signal.Stop(r.signals)

	exit := r.run(ctx)
	r.report.ExitCode = exit.code
	if exit.err != nil {
		r.report.Error = exit.err.Error()
		r.voice.fail(exit.err)
	}
	if o.json != "" {
		if err := r.report.write(o.json, stderr, r.voice); err != nil {
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
	server, err := openRedis(r.redis)
	if err != nil {
		return asExit(err)
	}
	defer server.client.Close()
	r.voice.secrets = server.secrets
	r.report.Server = server.addr
	server.warn(r.voice, "instead")
	path, err := r.path()
	if err != nil {
		return asExit(err)
	}
	cfg := &holdfast.Config{MaxTTL: maxTTL, Prefix: r.prefix}
	if r.strict {
		cfg = strictConfig(r.maxTTL, r.prefix)
	}
	cfg.Logger = r.voice.logger()
	locks, err := holdfast.New(holdfastgoredis.New(server.client), cfg)
	if err != nil {
		return &exitError{exitConfig, err}
	}
	defer r.close(locks)

	lock := r.lock(locks)
	if exit := r.doneAlready(ctx); exit != nil {
		return exit
	}
	lease, exit := r.obtain(ctx, lock)
	if exit == nil {
		exit = r.begin(ctx, lease)
	}
	if exit != nil {
		return exit
	}
	r.report.Fence = lease.Token()
	r.voice.tell("acquired %q, fence %d", r.name, lease.Token())
	held := time.Now()
	exit = r.hold(path, server.source, lease)
	r.report.Held = time.Since(held).Milliseconds()
	return exit
}

func asExit(err error) *exitError {
	var exit *exitError
	if errors.As(err, &exit) {
		return exit
	}
	return &exitError{exitInternal, err}
}

// close lets what the library still has to take back be taken back. A lock that is
// kept would make it wait for the end of the lease.
func (r *runner) close(locks *holdfast.Client) {
	if r.kept {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := locks.Close(ctx); err != nil {
		r.voice.tell("closing: %v", err)
	}
}

func (r *runner) options() []holdfast.Option {
	options := []holdfast.Option{holdfast.TTL(r.ttl)}
	if r.flags.Changed("key") {
		options = append(options, holdfast.Key(r.key))
	}
	for _, m := range r.meta {
		k, v, _ := strings.Cut(m, "=")
		options = append(options, holdfast.Meta(k, v))
	}
	return options
}

// hold runs the command under the lease, and ends the lease.
func (r *runner) hold(path, source string, lease *holdfast.Lease) *exitError {
	s := &session{runner: r, lease: lease}
	started := time.Now()
	ended, err := s.run(keeper.Spec{
		Path: path, Args: r.argv, Env: r.environ(os.Environ(), source, lease.Token()),
		Stdin: r.stdin, Stdout: r.stdout, Stderr: r.stderr,
		OnLost: keeper.Policy(r.onLost), KillAfter: r.killAfter, MaxRuntime: r.maxRuntime,
	})
	if err != nil {
		r.release(lease)
		return &exitError{exitSystem, err}
	}
	over := time.Now()
	r.report.Started, r.report.Ended = &started, &over
	r.report.Ran = over.Sub(started).Milliseconds()
	exit := r.complete(r.verdict(ended, s.lost), lease)
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
		return &exitError{exitInternal, fmt.Errorf("%s; what was left of the command was killed", ended.Err)}
	case ended.Cause == keeper.CauseLost:
		r.report.Outcome = outcomeLost
		if lost == nil {
			lost = fmt.Errorf("lock %q on %s could not be renewed in time", r.name, r.report.Server)
		}
		return &exitError{r.lostCode, fmt.Errorf("%w; the command was ended", lost)}
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
		case <-lease.Context().Done():
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
	err := lease.Release(context.Background())
	switch {
	case err == nil:
		r.voice.tell("released %q", r.name)
	case errors.Is(err, holdfast.ErrLost) && r.report.Error == "" && r.report.Outcome == outcomeRan:
		r.report.Error = err.Error()
		r.voice.note("warning: %v: another may have held it while the command ran", err)
	case !errors.Is(err, holdfast.ErrLost):
		r.voice.note("the lock was not released, and expires within %s: %v", r.ttl, err)
	}
}

// environ is the command's environment: with what it may know of its lock, and
// without the way to the server.
func (r *runner) environ(env []string, source string, fence uint64) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "HOLDFAST_REDIS", "HOLDFAST_NAME", "HOLDFAST_FENCE", "HOLDFAST_TTL_MS":
			return true
		}
		return name == source
	})
	return append(env,
		"HOLDFAST_NAME="+r.name,
		"HOLDFAST_FENCE="+strconv.FormatUint(fence, 10),
		"HOLDFAST_TTL_MS="+strconv.FormatInt(r.ttl.Milliseconds(), 10))
}
