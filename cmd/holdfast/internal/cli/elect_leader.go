package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/internal/printable"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/job"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
)

// checkLeader refuses what cannot be used with --leader and --watch.
func (o *electFlags) checkLeader() error {
	if o.leader && o.watch {
		return exitcode.Usagef("--leader and --watch: choose one")
	}
	question := "--leader"
	if o.watch {
		question = "--watch"
	}
	return o.takeNameToAsk(question, "holdfast elect NAME "+question,
		"again", "terms", "ttl", "max-runtime", "on-lost", "kill-after", "lost-exit-code", "meta", "shell")
}

// takeNameToAsk takes the election's name for a question, which runs no command, and refuses the flags that it does not use.
// question is its flag, usage how to ask.
func (o *electFlags) takeNameToAsk(question, usage string, unused ...string) error {
	f := o.flags
	for _, name := range unused {
		if f.Changed(name) {
			return exitcode.Usagef("--%s cannot be used with %s", name, question)
		}
	}
	switch {
	case f.ArgsLenAtDash() >= 0 && f.NArg() > f.ArgsLenAtDash():
		return exitcode.Usagef("%s runs no command: leave out -- and what follows", question)
	case f.NArg() != 1:
		return exitcode.Usagef("want one NAME, not %d arguments: %s", f.NArg(), usage)
	case f.Arg(0) == "":
		return exitcode.Usagef("NAME is empty")
	case o.json != "" && o.json != job.ToStderr:
		return exitcode.Usagef("with %s, --json goes to standard output: leave out =FILE", question)
	}
	o.name = f.Arg(0)
	return nil
}

// leadership is the answer to --leader and --watch.
type leadership struct {
	Time   time.Time   `json:"time"`
	Name   string      `json:"name"`
	Key    string      `json:"key"` // of the lock that a leader holds
	Server string      `json:"server"`
	Leader *job.Holder `json:"leader"` // null if nobody leads
	// Candidates are the first of the waiting candidates, in order.
	Candidates []lockstatus.Waiter `json:"candidates,omitempty"`
}

// tellLeader answers --leader and --watch.
func (o *electFlags) tellLeader(ctx context.Context, stdout, stderr io.Writer) error {
	q := newQuestion(&o.jobFlags, stdout, stderr)
	closeAll, err := o.openFor(q.Run, o.checkStrict)
	if err != nil {
		return err
	}
	defer closeAll()
	candidacy := election.New(q.Locks.Mutex(o.name, holdfast.Options(), holdfast.Options()))
	return q.ask(ctx, func(ctx context.Context) *exitcode.Error {
		// Watching waits for a server that cannot be reached. Asking first tells of a wrong address.
		status, err := candidacy.Status(ctx)
		if err != nil {
			return q.Failure(err)
		}
		if o.watch {
			return o.showAll(ctx, q, candidacy)
		}
		if exit := o.show(q, status); exit != nil || status.Held() {
			return exit
		}
		return &exitcode.Error{Code: exitcode.None}
	})
}

// showAll prints who leads, now and after every change, until ctx ends.
func (o *electFlags) showAll(ctx context.Context, q *question, candidacy *election.Election) *exitcode.Error {
	for status, err := range candidacy.Watch(ctx) {
		if err != nil {
			return q.Failure(err)
		}
		if exit := o.show(q, status); exit != nil {
			return exit
		}
	}
	return nil
}

// show prints who leads, if anybody does.
func (o *electFlags) show(q *question, status holdfast.Status) *exitcode.Error {
	answer := leadership{Time: time.Now(), Name: o.name, Key: o.keyOf(o.name), Server: q.Servers.Addr(), Candidates: lockstatus.NewWaiters(status.Waiters)}
	text := fmt.Sprintf("nobody leads %q (key %s)", o.name, printable.Line(answer.Key, job.MaxShown))
	if leader, leads := status.Holder(); leads {
		answer.Leader = job.NewHolder(leader, status.Waiting)
		text = fmt.Sprintf("%s leads %q", job.Describe(leader, answer.Key), o.name)
	}
	if len(status.Waiters) > 0 {
		text += fmt.Sprintf("; %d waiting, first %s", status.Waiting, job.DescribeWaiter(status.Waiters[0]))
	}
	return q.answer(answer.Time.Format(console.TimeFormat)+"  "+text+"\n", answer)
}
