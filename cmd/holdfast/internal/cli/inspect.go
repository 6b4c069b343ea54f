package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/printable"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
)

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
			err = printResult(stdout, o.json, lockstatus.NewReport(s, quorum), lockstatus.Text(s, o.servers.Addr(), quorum)+o.next(s))
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

// next says how an operator can free the lock. It returns "" if the lock is free, or if break cannot take it.
func (o *serverFlags) next(s holdfast.Status) string {
	h, held := s.Holder()
	if !held || h.Grant == "" || s.Kind == holdfast.KindLatch || s.Kind == holdfast.KindBarrier {
		return ""
	}
	return "To ask the first holder to let go, or to take the lock and hand it on:\n" +
		"    " + o.hint("revoke", o.prefix, s.Name, "--grant", h.Grant) + "\n    " + o.hint("break", o.prefix, s.Name, "--grant", h.Grant) + "\n"
}

// hint returns a command that works if it is pasted into a shell. If name is "", it is about all locks under the prefix.
func (o *serverFlags) hint(command, prefix, name string, flags ...string) string {
	words := []string{"holdfast", command}
	if prefix != "" || os.Getenv("HOLDFAST_PREFIX") != "" {
		words = append(words, "--prefix", shellWord(cmp.Or(prefix, "holdfast:")))
	}
	if len(o.servers.Secrets()) == 0 {
		for _, url := range o.redis {
			words = append(words, "--redis", shellWord(url))
		}
	}
	words = append(words, flags...)
	if strings.HasPrefix(name, "-") {
		words = append(words, "--")
	}
	return strings.TrimSuffix(strings.Join(append(words, shellWord(name)), " "), " ''")
}

// mostPrefixes bounds how many other prefixes elsewhere looks at.
const mostPrefixes = 5

// elsewhere tells which other prefixes have locks in use, if this one has none. Unless name is "", it looks only for the lock of that
// name. It leaves out prefixes that the user may not read, and those that it does not find within 10 seconds.
func (o *serverFlags) elsewhere(ctx context.Context, name string, tell func(format string, args ...any)) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if n, err := o.count(ctx, o.prefix, name, 1); err != nil || n > 0 {
		return
	}
	for _, prefix := range o.servers.Prefixes(ctx, cmp.Or(o.prefix, "holdfast:"), mostPrefixes) {
		switch n, err := o.count(ctx, prefix, name, 0); {
		case err != nil || n == 0:
		case name != "":
			tell("%q is in use under %q: %s", name, prefix, o.hint("show", prefix, name))
		default:
			tell("%s under %q: %s", console.Count(n, "lock"), prefix, o.hint("ls", prefix, ""))
		}
	}
}

// isPattern reports whether a PATTERN can match several names.
func isPattern(text string) bool { return text == "" || strings.ContainsAny(text, `*?[\`) }

// count returns the number of locks in use under a prefix. It stops at most, unless that is 0. Unless name is "", it counts only the
// lock of that name.
func (o *serverFlags) count(ctx context.Context, prefix, name string, most int) (n int, err error) {
	cfg := o.config()
	cfg.Prefix, cfg.Logger = prefix, slog.New(slog.DiscardHandler)
	locks, err := o.servers.Locks(cfg, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = locks.Close(connect.CloseTime) }()
	if name != "" {
		s, err := locks.Inspector().Get(ctx, name)
		if err == nil && (s.Held() || s.Waiting > 0) {
			n = 1
		}
		return n, err
	}
	for _, err := range locks.Inspector().List(ctx, "") {
		if err != nil {
			return 0, err
		}
		if n++; n == most {
			break
		}
	}
	return n, nil
}

type breakFlags struct {
	serverFlags
	grant  string
	reason string
}

func (o *breakFlags) defineBreak(f *pflag.FlagSet) {
	o.role = "breaker"
	f.StringVar(&o.grant, "grant", "", "the grant `ID` of the holder that is meant, as holdfast show prints it")
	f.StringVar(&o.reason, "reason", "", "`TEXT` for the record and for the holder")
	f.StringVar(&o.by, "by", "", "who does it, for the record and for the holder: `NAME` (default USER@HOST)")
	o.define(f)
	o.defineJSON()
}

// act calls f, which breaks or revokes the lock of a holder, and adds to f's error what to do next.
func (o *breakFlags) act(ctx context.Context, stderr io.Writer, f func(context.Context, *inspect.Inspector, holdfast.Holder) error) error {
	name := o.flags.Arg(0)
	o.by = cmp.Or(o.by, operator())
	return o.inspect(ctx, stderr, func(ctx context.Context, in *inspect.Inspector) error {
		if o.grant == "" {
			return exitcode.Usagef("want --grant ID, the grant id of the holder that is meant; %s says it", o.hint("show", o.prefix, name))
		}
		err := f(ctx, in, holdfast.Holder{Name: name, Grant: o.grant})
		switch {
		case errors.Is(err, holdfast.ErrNotHeld):
			o.console.Error(fmt.Errorf("%w on %s", err, o.servers.Addr()))
			if !o.json {
				o.elsewhere(ctx, name, o.console.Notef)
			}
			return &exitcode.Error{Code: exitcode.None}
		case errors.Is(err, inspect.ErrChanged):
			return exitcode.Errorf(exitcode.Busy, "%w; %s says all about it", err, o.hint("show", o.prefix, name))
		case errors.Is(err, holdfast.ErrAmbiguous):
			return fmt.Errorf("%w; %s says what was broken", err, o.hint("breaks", o.prefix, name))
		}
		return err
	})
}

// operator returns USER@HOST of this process.
func operator() string {
	host, _ := os.Hostname()
	u, err := user.Current()
	if err != nil {
		u = &user.User{Username: "unknown"}
	}
	return u.Username + "@" + cmp.Or(host, "unknown")
}

func breakLock(f *pflag.FlagSet) action {
	o := &breakFlags{}
	o.defineBreak(f)
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		return o.act(ctx, stderr, func(ctx context.Context, in *inspect.Inspector, holder holdfast.Holder) error {
			b, err := in.Break(ctx, holder, o.reason)
			if b.Name == "" {
				return err
			}
			text := fmt.Sprintf("%q is taken from %s, %s; the lock's fence is above %d now (%s)\n",
				b.Name, lockstatus.OwnerOf(b.Holder), lockstatus.GrantOf(b.Holder), b.Fence, o.hint("show", o.prefix, b.Name))
			// An error beside a result means that the break could not be recorded.
			return cmp.Or(printResult(stdout, o.json, newBreakReport(b), text), err)
		})
	}
}

func revoke(f *pflag.FlagSet) action {
	o := &breakFlags{}
	o.defineBreak(f)
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		return o.act(ctx, stderr, func(ctx context.Context, in *inspect.Inspector, holder holdfast.Holder) error {
			if err := in.Revoke(ctx, holder, o.reason); err != nil {
				return err
			}
			done := map[string]string{"name": holder.Name, "grant": o.grant, "by": o.by, "reason": o.reason}
			text := fmt.Sprintf("the holder of %q with grant %s is asked to let go\n", holder.Name, o.grant)
			return printResult(stdout, o.json, done, text)
		})
	}
}

// breakReport is what --json prints for a break.
type breakReport struct {
	Name   string             `json:"name"`
	Holder lockstatus.Process `json:"holder"`
	By     string             `json:"by"`
	Reason string             `json:"reason"`
	Time   time.Time          `json:"time"`
	Fence  uint64             `json:"fence"` // above the fences of all earlier grants
}

func newBreakReport(b inspect.Broken) breakReport {
	return breakReport{b.Name, lockstatus.NewHolder(b.Holder), b.By, b.Reason, b.Time, b.Fence}
}

func breaks(f *pflag.FlagSet) action {
	o := &serverFlags{role: "inspector"}
	limit := f.IntP("limit", "n", 20, "the latest `N`; 0: all that are on record")
	o.define(f)
	o.defineJSON()
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		if *limit < 0 {
			return exitcode.Usagef("--limit %d: want a number of breaks, or 0 for all", *limit)
		}
		return o.inspect(ctx, stderr, func(ctx context.Context, in *inspect.Inspector) error {
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
