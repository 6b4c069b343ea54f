package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// showFlags are the flags and arguments of holdfast show.
type showFlags struct {
	lookFlags
	name string
}

func newShowFlags() *showFlags {
	o := &showFlags{lookFlags: newLookFlags("show")}
	o.define("print it as one line of JSON, as holdfast ls --json does")
	return o
}

func showHelp(w io.Writer) {
	fmt.Fprintf(w, `Usage: holdfast show [flags] NAME

Says all that the server knows about the lock NAME, of whatever kind: who holds it, since
when, until when, by which grant and with which fence and notes, and who waits for it, in
order. If there is no lock of that name, it looks at the one with that exact key (holdfast
run --key, --redisson).

  holdfast show orders/42
  holdfast show --json orders/42 | jq .waiting

Flags:
%s
The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, %s.

Of those that wait, the first 1,000 are shown. Processes that died without leaving the
queue are among them until it would be their turn. Who waits for a lock of a quorum is not
known.

Exit codes: 0 somebody holds it or waits for it, 1 nobody does, %d wrong usage,
%d unavailable, %d refused, %d wrong configuration.
`, newShowFlags().flags.FlagUsages(), connect.Default, exitcode.Usage, exitcode.Unavailable, exitcode.Denied, exitcode.Config)
}

func (o *showFlags) parse(args []string) error {
	if err := parse(o.flags, args); err != nil {
		return err
	}
	if n := o.flags.NArg(); n != 1 {
		return exitcode.Usagef("want one NAME, not %d arguments: holdfast show [flags] NAME", n)
	}
	if o.name = o.flags.Arg(0); o.name == "" {
		return exitcode.Usagef("NAME is empty")
	}
	return nil
}

func show(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) error {
	o := newShowFlags()
	if err := o.parse(args); err != nil {
		return err
	}
	return o.look(ctx, stderr, func(ctx context.Context, in *inspect.Inspector) error {
		s, err := in.Get(ctx, o.name)
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if o.json {
			err = output.WriteJSON(&text, o.report(s))
		} else {
			err = lockstatus.Write(&text, s, o.servers.AreQuorum())
			text.WriteString(o.next(s))
		}
		if err == nil {
			_, err = stdout.Write(text.Bytes())
		}
		switch {
		case err != nil:
			return exitcode.OfOutput(err)
		case !s.Held() && s.Waiting == 0:
			if !o.json {
				o.elsewhere(ctx, o.name, o.console.Notef)
			}
			return &exitcode.Error{Code: exitcode.None}
		}
		return nil
	})
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
