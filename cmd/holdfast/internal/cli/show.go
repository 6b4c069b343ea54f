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

const showHelp = `Says all that the server knows about the lock NAME, of whatever kind: who holds it, since
when, until when, by which grant and with which fence and notes, and who waits for it, in
order. If there is no lock of that name, it looks at the one with that exact key (holdfast
run --key, --redisson). If nobody holds it or waits for it, the exit code is 1, and a line
names each other prefix under which somebody does.

  holdfast show orders/42
  holdfast show --json orders/42 | jq .waiting

Of those that wait, the first 1,000 are shown. Processes that died without leaving the
queue are among them until it would be their turn. Who waits for a lock of a quorum is not
known.
`

func show(f *pflag.FlagSet) action {
	o := &serverFlags{role: "inspector"}
	o.define(f)
	o.defineJSON()
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		return o.inspect(ctx, stderr, func(ctx context.Context, in *inspect.Inspector) error {
			s, err := in.Get(ctx, f.Arg(0))
			if err != nil {
				return err
			}
			quorum := o.servers.AreQuorum()
			err = printResult(stdout, o.json, lockstatus.NewReport(s, quorum), lockstatus.Text(s, quorum)+o.next(s))
			if err != nil || s.Held() || s.Waiting > 0 {
				return err
			}
			if !o.json {
				o.elsewhere(ctx, f.Arg(0), o.console.Notef)
			}
			return &exitcode.Error{Code: exitcode.None}
		})
	}
}

// next says how to free the lock, if it is held by somebody whom an operator can break.
func (o *serverFlags) next(s holdfast.Status) string {
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
	return "To ask the first holder to let go, or to take the lock and hand it on:\n" +
		"    holdfast revoke " + arguments + "    holdfast break " + arguments
}
