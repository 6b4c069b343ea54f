package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
)

// showFlags are the flags and arguments of holdfast show.
type showFlags struct {
	lookFlags
	name string
}

const showHelp = `Usage: holdfast show [flags] NAME

Says all that the server knows about the lock NAME, of whatever kind: who holds it, since
when, until when, by which grant and with which fence and notes, and who waits for it, in
order. If there is no lock of that name, it looks at the one with that exact key (holdfast
run --key, --redisson).

  holdfast show orders/42
  holdfast show --json orders/42 | jq .waiting

Flags:
{flags}

The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, redis://127.0.0.1:6379.

Of those that wait, the first 1,000 are shown. Processes that died without leaving the
queue are among them until it would be their turn. Who waits for a lock of a quorum is not
known.

Exit codes: 0 somebody holds it or waits for it, 1 nobody does, 64 wrong usage,
69 unavailable, 77 refused, 78 wrong configuration.
`

func show(f *pflag.FlagSet) action {
	o := &showFlags{}
	o.define(f, "print it as one line of JSON, as holdfast ls --json does")
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		o.name = f.Arg(0)
		return o.look(ctx, stderr, func(ctx context.Context, in *inspect.Inspector) error { return o.tell(ctx, in, stdout) })
	}
}

// tell prints what is known of the lock.
func (o *showFlags) tell(ctx context.Context, in *inspect.Inspector, stdout io.Writer) error {
	s, err := in.Get(ctx, o.name)
	if err != nil {
		return err
	}
	text := lockstatus.Text(s, o.servers.AreQuorum()) + o.next(s)
	if err := printResult(stdout, o.json, o.report(s), text); err != nil || s.Held() || s.Waiting > 0 {
		return err
	}
	if !o.json {
		o.elsewhere(ctx, o.name, o.console.Notef)
	}
	return &exitcode.Error{Code: exitcode.None}
}

// next says how to free the lock, if it is held by somebody whom an operator can break.
func (o *showFlags) next(s holdfast.Status) string {
	h, held := s.Holder()
	if !held || h.Grant == "" || s.Kind == holdfast.KindLatch || s.Kind == holdfast.KindBarrier {
		return ""
	}
	var words []string
	if o.prefix != "" {
		words = append(words, "--prefix", shellWord(o.prefix))
	}
	if len(o.servers.Secrets()) == 0 {
		for _, url := range o.redis {
			words = append(words, "--redis", shellWord(url))
		}
	}
	words = append(words, "--grant", h.Grant)
	if strings.HasPrefix(s.Name, "-") {
		words = append(words, "--")
	}
	words = append(words, shellWord(s.Name))
	arguments := strings.Join(words, " ") + "\n"
	return "To ask the first holder to let go, or to take the lock and hand it on:\n    holdfast revoke " + arguments + "    holdfast break " + arguments
}
