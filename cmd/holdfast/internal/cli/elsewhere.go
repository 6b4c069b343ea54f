package cli

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor"
)

// mostPrefixes is the maximum number of other prefixes to look at.
const mostPrefixes = 5

// elsewhere tells which other prefixes have locks in use, if this one has none. If name is not "", it looks only for the lock of that
// name. It leaves out prefixes that the user may not read, and those that it does not find in 10 seconds.
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
			tell("%s under %q: holdfast ls --prefix %s", doctor.Count(n, "lock"), prefix, shellWord(prefix))
		}
	}
}

// isPattern reports whether a text stands for several names.
func isPattern(text string) bool { return text == "" || strings.ContainsAny(text, `*?[\`) }

// count returns the number of locks in use under a prefix. It stops at most, unless that is 0. If name is not "", it counts only the lock
// of that name.
func (o *serverFlags) count(ctx context.Context, prefix, name string, most int64) (n int64, err error) {
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
