package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// exitNone is the exit code of --leader when nobody leads, and of --last when no run counts.
const exitNone = 1

// checkLook refuses what does not go with --leader and --watch.
func (o *electOptions) checkLook() error {
	f := o.flags
	switch {
	case o.leader && o.watch:
		return usageError("--leader and --watch: choose one")
	case f.ArgsLenAtDash() >= 0 && f.NArg() > f.ArgsLenAtDash():
		return usageError("--leader and --watch run no command: leave -- and what follows away")
	case f.NArg() != 1:
		return usageError("there is one NAME, not %d arguments: holdfast elect NAME --leader", f.NArg())
	case f.Arg(0) == "":
		return usageError("NAME is empty")
	case o.json != "" && o.json != toStderr:
		return usageError("--json of --leader and --watch goes to standard output: leave =FILE away")
	}
	for _, name := range []string{"again", "terms", "ttl", "max-runtime", "on-lost", "kill-after", "lost-exit-code", "meta", "shell"} {
		if f.Changed(name) {
			return usageError("--%s has no meaning with --leader and --watch", name)
		}
	}
	o.name = f.Arg(0)
	return nil
}

// sight is who leads, as --json tells it: one line for --leader, one for each change for
// --watch.
type sight struct {
	Time   time.Time `json:"time"`
	Name   string    `json:"name"`
	Key    string    `json:"key"` // of the lock that a leader holds
	Server string    `json:"server"`
	Leader *occupant `json:"leader"` // null: nobody
}

// look says who leads.
func look(ctx context.Context, o *electOptions, stdout, stderr io.Writer) error {
	r := newRunner(&runOptions{jobOptions: o.jobOptions}, nil, stdout, stderr)
	r.office = &office{}
	return r.inquire(ctx, func(ctx context.Context, locks *locker) *exitError {
		return r.look(ctx, locks.election(o.name), o.watch)
	})
}

// inquire opens the servers for f, which asks them something, and says how to exit.
func (r *runner) inquire(ctx context.Context, f func(context.Context, *locker) *exitError) error {
	locks, shut, err := r.open()
	if err != nil {
		return err
	}
	defer shut()
	ctx, stop := interruptible(ctx)
	defer stop()

	exit := f(ctx, locks)
	var sig signaled
	if errors.As(context.Cause(ctx), &sig) {
		return &exitError{exitSignal + number(sig.Signal), nil}
	}
	if exit == nil {
		return nil
	}
	if exit.err != nil {
		r.voice.fail(exit.err)
	}
	return &exitError{exit.code, nil}
}

func (r *runner) look(ctx context.Context, e *holdfast.Election, watch bool) *exitError {
	// Also before watching, which would outlive that the server cannot be reached: an address
	// that is wrong is to show.
	status, err := e.Status(ctx)
	if err != nil {
		return r.failure(err)
	}
	if !watch {
		if exit := r.show(status); exit != nil || status.Held() {
			return exit
		}
		return &exitError{exitNone, nil}
	}
	for status, err := range e.Watch(ctx) {
		if err != nil {
			return r.failure(err)
		}
		if exit := r.show(status); exit != nil {
			return exit
		}
	}
	return nil
}

// show prints who leads, if anybody does. It returns how to exit if it cannot.
func (r *runner) show(status holdfast.Status) *exitError {
	now := time.Now()
	key := r.ownKey()
	text := fmt.Sprintf("%s  nobody leads %q (key %s)\n", now.Format(time.DateTime), r.name, printable.Line(key, maxShown))
	leader, leads := status.Holder()
	if leads {
		text = fmt.Sprintf("%s  %s leads %q\n", now.Format(time.DateTime), r.describeOne(leader), r.name)
	}
	seen := sight{Time: now, Name: r.name, Key: key, Server: r.report.Server}
	if leads {
		seen.Leader = newOccupant(leader, len(status.Waiters))
	}
	return r.answer(text, seen)
}

// answer prints the answer to what was asked: the text, or with --json the value. It returns how to exit if it cannot.
func (r *runner) answer(text string, value any) *exitError {
	if r.json != "" {
		var line bytes.Buffer
		if err := writeJSON(&line, value); err != nil {
			return &exitError{exitInternal, err}
		}
		text = line.String()
	}
	if _, err := io.WriteString(r.stdout, text); err != nil {
		return unwritten(err)
	}
	return nil
}
