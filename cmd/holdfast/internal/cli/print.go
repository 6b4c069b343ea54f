package cli

import (
	"cmp"
	"context"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/internal/printable"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// printText writes a text. Its error has an exit code.
func printText(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return exitcode.OfOutput(err)
	}
	return nil
}

func printJSON(w io.Writer, value any) error {
	line, err := output.JSON(value)
	if err != nil {
		return exitcode.OfOutput(err)
	}
	return printText(w, string(line))
}

// printResult writes a text or, if asJSON is set, a value.
func printResult(w io.Writer, asJSON bool, value any, text string) error {
	if asJSON {
		return printJSON(w, value)
	}
	return printText(w, text)
}

// outcome is what --json prints for a command that does one thing with one lock. Outcome says what was done or, if that failed, is
// busy, lost, broken, interrupted or failed.
type outcome struct {
	Name     string              `json:"name,omitempty"`
	Server   string              `json:"server"`
	Outcome  string              `json:"outcome"`
	ExitCode int                 `json:"exit_code"`
	Parties  int                 `json:"parties,omitempty"`
	Phase    uint64              `json:"phase,omitempty"` // of a barrier
	Fence    uint64              `json:"fence,omitempty"`
	TTL      int64               `json:"ttl_ms,omitempty"`
	Expires  *time.Time          `json:"expires,omitempty"` // or later; by this machine's clock
	Ticket   string              `json:"ticket,omitempty"`  // its file
	Waited   int64               `json:"waited_ms"`
	Holder   *lockstatus.Process `json:"holder,omitempty"` // who holds the lock instead
	Error    string              `json:"error,omitempty"`

	began time.Time
}

// keepsFor records that a ticket keeps the lock for ttl, counted from began.
func (r *outcome) keepsFor(ttl time.Duration, began time.Time) {
	expires := began.Add(ttl)
	r.TTL, r.Expires = ttl.Milliseconds(), &expires
}

// print prints a text or, with --json, the outcome.
func (o *serverFlags) print(stdout io.Writer, r *outcome, text string) error {
	r.Waited = time.Since(r.began).Milliseconds()
	return printResult(stdout, o.json, r, text)
}

// do is use for a command with an outcome. f completes and prints the outcome of success, do that of an error.
func (o *serverFlags) do(ctx context.Context, stdout, stderr io.Writer, r *outcome, f func(context.Context, *connect.Locks) error) error {
	return o.use(ctx, stderr, func(ctx context.Context, locks *connect.Locks) error {
		r.Server, r.began = o.servers.Addr(), time.Now()
		err := f(ctx, locks)
		if err == nil {
			return nil
		}
		exit := o.exit(ctx, err)
		outcomes := map[int]string{exitcode.Busy: "busy", exitcode.Lost: "lost", exitcode.Broken: "broken"}
		r.ExitCode, r.Outcome = exit.Code, cmp.Or(outcomes[exit.Code], "failed")
		if exit.Code > exitcode.Signal {
			r.Outcome = "interrupted"
		}
		if exit.Err != nil {
			r.Error = o.console.Redact(exit.Err.Error())
		}
		if o.json {
			_ = o.print(stdout, r, "") // the exit code is that of the first error
		}
		return exit
	})
}

// shellWord quotes a text as one word of a command line that users may copy into a shell.
func shellWord(text string) string {
	isPlain := func(r rune) bool {
		return r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("_-./:@%+,", r)
	}
	switch {
	case text != "" && !strings.HasPrefix(text, "-") && !strings.ContainsFunc(text, func(r rune) bool { return !isPlain(r) }):
		return text
	case printable.Line(text, len(text)) == text:
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return "$'" + strings.ReplaceAll(printable.Line(strings.ReplaceAll(text, `\`, `\\`), 2*len(text)), "'", `\'`) + "'"
}
