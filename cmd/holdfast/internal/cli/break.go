package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/printable"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
)

// breakFlags are the flags and arguments of holdfast break and holdfast revoke.
type breakFlags struct {
	lookFlags
	name   string
	grant  string
	reason string
}

// defineBreak defines the flags that both have. forWhom says for whom the reason is.
func (o *breakFlags) defineBreak(f *pflag.FlagSet, forWhom string) {
	f.StringVar(&o.grant, "grant", "", "the grant `ID` of the holder that is meant, as holdfast show prints it")
	f.StringVar(&o.reason, "reason", "", "`TEXT` "+forWhom)
	f.StringVar(&o.by, "by", "", "who does it, for the record and for the holder: `NAME` (default USER@HOST)")
	o.define(f, "print what was done as one line of JSON")
}

// act calls f, which breaks or revokes a lock.
func (o *breakFlags) act(ctx context.Context, stderr io.Writer, f func(context.Context, *inspect.Inspector, holdfast.Holder) error) error {
	o.name, o.by = o.flags.Arg(0), cmp.Or(o.by, operator())
	if o.grant == "" {
		return exitcode.Usagef("want --grant ID, the grant id of the holder that is meant; holdfast show %s says it", shellWord(o.name))
	}
	return o.look(ctx, stderr, func(ctx context.Context, in *inspect.Inspector) error {
		return f(ctx, in, holdfast.Holder{Name: o.name, Grant: o.grant})
	})
}

// operator names whoever runs holdfast, as USER@HOST.
func operator() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}

const breakHelp = `Usage: holdfast break [flags] NAME --grant ID

Takes the lock NAME, of whatever kind, from the holder with this grant id, hands it to the
next who waits, and tells the holder. If another holds the lock by now, nothing is done.
Others that hold it as well, such as readers, keep it.

The holder may still be at work. Break a lock when you know that its holder hangs or is
gone; to ask a holder that works, there is holdfast revoke.

  holdfast show orders/42                                    # who holds it, and the grant id
  holdfast break orders/42 --grant k3v9x2ab --reason "hangs since 3 am"
  holdfast breaks                                            # what was broken

The holder learns of it at once if its process runs and can reach the server: holdfast run
ends its command (TERM, and KILL after --kill-after, 5s by default), and in a program the
lease ends. Until then, both the command and the next holder may be at work. One that hangs
learns of it when it goes on; only a fence keeps out what it still writes then.

Which holder hangs? One that is stopped does not renew: its TTL only falls from one holdfast
show to the next, and it loses the lock by itself at the end. One that is stuck in its work
goes on renewing: look for long waits (holdfast ls --sort waiters) and old locks (--sort age).

Flags:
{flags}

The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, redis://127.0.0.1:6379. The user
needs the rights of the role breaker in docs/SECURITY.md.

JSON: name, holder (as in holdfast show --json), by, reason, time (the server's), fence:
  the lock's from now on, above those of all grants until then.

Exit codes: 0 done, 1 nobody holds the lock, 75 another grant holds it,
64 wrong usage, 69 unavailable, 77 refused, 78 wrong configuration, 130 interrupted (INT;
also 129, 131, 143): look at holdfast breaks.
`

const revokeHelp = `Usage: holdfast revoke [flags] NAME --grant ID

Asks the holder of the lock NAME with this grant id to let go, and does nothing else.
holdfast run sends TERM to its command, but still keeps the lock for --min-hold; a program
learns of it by Lease.Revoked. The holder keeps the lock until it releases it. If it takes
no notice, use holdfast break.

  holdfast show orders/42                                  # who holds it, and the grant id
  holdfast revoke orders/42 --grant k3v9x2ab --reason "deployment"

Flags:
{flags}

The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, redis://127.0.0.1:6379. The user
needs the rights of the role breaker in docs/SECURITY.md.

JSON: name, grant, by, reason.

Exit codes: 0 the holder is asked, 1 nobody holds the lock, 75 another grant holds it,
64 wrong usage, 69 unavailable, 77 refused, 78 wrong configuration,
130 interrupted (INT; also 129, 131, 143).
`

func breakLock(f *pflag.FlagSet) action {
	o := &breakFlags{}
	o.defineBreak(f, "for the record")
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		return o.act(ctx, stderr, func(ctx context.Context, in *inspect.Inspector, holder holdfast.Holder) error {
			broken, err := in.Break(ctx, holder, o.reason)
			if broken.Name == "" {
				return o.failed(ctx, err)
			}
			text := fmt.Sprintf("%q is taken from %s, %s; the lock's fence is above %d now (holdfast show %s)\n", broken.Name, lockstatus.OwnerOf(broken.Holder), lockstatus.GrantOf(broken.Holder), broken.Fence, shellWord(broken.Name))
			// What is left to report is that the break could not be recorded.
			return cmp.Or(printResult(stdout, o.json, newBreakReport(broken), text), err)
		})
	}
}

func revoke(f *pflag.FlagSet) action {
	o := &breakFlags{}
	o.defineBreak(f, "for the record and for the holder")
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		return o.act(ctx, stderr, func(ctx context.Context, in *inspect.Inspector, holder holdfast.Holder) error {
			if err := in.Revoke(ctx, holder, o.reason); err != nil {
				return o.failed(ctx, err)
			}
			done := struct {
				Name   string `json:"name"`
				Grant  string `json:"grant"`
				By     string `json:"by"`
				Reason string `json:"reason"`
			}{o.name, o.grant, o.by, o.reason}
			return printResult(stdout, o.json, done, fmt.Sprintf("the holder of %q with grant %s is asked to let go\n", o.name, o.grant))
		})
	}
}

// failed gives an error of Break or Revoke its exit code.
func (o *breakFlags) failed(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, holdfast.ErrNotHeld):
		o.console.Error(err)
		if !o.json {
			o.elsewhere(ctx, o.name, o.console.Notef)
		}
		return &exitcode.Error{Code: exitcode.None}
	case errors.Is(err, inspect.ErrChanged):
		o.console.Error(withAdvice{err, fmt.Sprintf("holdfast show %s says all about it", shellWord(o.name))})
		return &exitcode.Error{Code: exitcode.Busy}
	case errors.Is(err, holdfast.ErrAmbiguous):
		return withAdvice{err, "holdfast breaks says what was broken"}
	}
	return err
}

// breakReport is a break, as JSON.
type breakReport struct {
	Name   string            `json:"name"`
	Holder lockstatus.Holder `json:"holder"`
	By     string            `json:"by"`
	Reason string            `json:"reason"`
	Time   time.Time         `json:"time"`
	Fence  uint64            `json:"fence"`
}

func newBreakReport(b inspect.Broken) breakReport {
	return breakReport{b.Name, lockstatus.NewHolder(b.Holder), b.By, b.Reason, b.Time, b.Fence}
}

const breaksHelp = `Usage: holdfast breaks [flags] [NAME]

Lists what was broken, the latest first: which lock, who had it, who broke it, and why. With
NAME only the breaks of that lock. The server keeps about the latest 1,000.

  holdfast breaks
  holdfast breaks --json -n 0 orders/42 | jq -r .reason

Flags:
{flags}

The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, redis://127.0.0.1:6379.

Exit codes: 0 some are listed, 1 none, 64 wrong usage, 69 unavailable, 77 refused,
78 wrong configuration, 130 interrupted (INT; also 129, 131, 143).
`

func breaks(f *pflag.FlagSet) action {
	o := &lookFlags{}
	limit := f.IntP("limit", "n", 20, "the latest `N`; 0: all that are on record")
	o.define(f, "a line of JSON for each break, as holdfast break --json prints it")
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		if *limit < 0 {
			return exitcode.Usagef("--limit %d: want a number of breaks, or 0 for all", *limit)
		}
		return o.look(ctx, stderr, func(ctx context.Context, in *inspect.Inspector) error {
			n := 0
			for b, err := range in.History(ctx) {
				if err != nil {
					return err
				}
				if b.Revoked || f.Arg(0) != "" && b.Name != f.Arg(0) {
					continue
				}
				if err := printResult(stdout, o.json, newBreakReport(b), describeBreak(b)); err != nil {
					return err
				}
				if n++; n == *limit {
					break
				}
			}
			if n == 0 {
				return &exitcode.Error{Code: exitcode.None}
			}
			return nil
		})
	}
}

// describeBreak says what was broken, in two lines.
func describeBreak(b inspect.Broken) string {
	held := ""
	if !b.Holder.Since.IsZero() {
		held = ", held for " + lockstatus.Age(max(b.Time.Sub(b.Holder.Since), 0))
	}
	text := fmt.Sprintf("%s  %s\n    from %s, %s%s; by %s", b.Time.Local().Format(console.TimeFormat), printable.Line(b.Name, 512),
		lockstatus.OwnerOf(b.Holder), lockstatus.GrantOf(b.Holder), held, cmp.Or(printable.Word(b.By, 64), "(unknown)"))
	if reason := strings.TrimSpace(b.Reason); reason != "" {
		text += ": " + printable.Line(reason, 512)
	}
	return text + "\n"
}
