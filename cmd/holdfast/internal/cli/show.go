package cli

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"

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

// next says how an operator can free the lock. It returns "" if the lock is free, or if break cannot take it.
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
			tell("%q is in use under %q: holdfast show --prefix %s %s", name, prefix, shellWord(prefix), shellWord(name))
		default:
			tell("%s under %q: holdfast ls --prefix %s", console.Count(n, "lock"), prefix, shellWord(prefix))
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
