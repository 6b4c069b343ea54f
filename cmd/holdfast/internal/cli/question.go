package cli

import (
	"context"
	"io"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/job"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/signals"
)

// A question is put to the servers of a run, and runs no command: --leader and --watch.
type question struct {
	*job.Run
	json bool
}

// newQuestion returns a question with these flags.
func newQuestion(o *jobFlags, stdout, stderr io.Writer) *question {
	return &question{
		Run:  &job.Run{Name: o.name, Console: console.New(stderr, o.level()), Streams: job.Streams{Out: stdout, Err: stderr}, Advice: o.advice},
		json: o.json != "",
	}
}

// ask calls f, which asks the servers, and returns how to exit. A signal ends f's context.
func (q *question) ask(ctx context.Context, f func(ctx context.Context) *exitcode.Error) error {
	ctx, stop := signals.Context(ctx)
	defer stop()
	exit := f(ctx)
	if exit := interrupted(ctx); exit != nil {
		return exit
	}
	if exit == nil {
		return nil
	}
	if exit.Err != nil {
		q.Console.Error(exit.Err)
	}
	return &exitcode.Error{Code: exit.Code}
}

// answer prints an answer: the text, or with --json the value. It returns how to exit if it cannot.
func (q *question) answer(text string, value any) *exitcode.Error {
	if err := printResult(q.Streams.Out, q.json, value, text); err != nil {
		return exitcode.As(err)
	}
	return nil
}
