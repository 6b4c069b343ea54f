package cli

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor"
)

const (
	// elsewhereTime bounds the search for locks under other prefixes.
	elsewhereTime = 10 * time.Second
	// mostPrefixes is the maximum number of other prefixes to look at.
	mostPrefixes = 5
)

// elsewhere tells which other prefixes have locks in use, if this one has none. If name is not "", it looks only for the lock of that
// name. It leaves out prefixes that the user may not read, and those that it does not find within elsewhereTime.
func (o *lookFlags) elsewhere(ctx context.Context, name string, tell func(format string, args ...any)) {
	ctx, cancel := context.WithTimeout(ctx, elsewhereTime)
	defer cancel()
	if n, err := o.count(ctx, o.prefix, name, 1); err != nil || n > 0 {
		return
	}
	for _, prefix := range o.servers.Prefixes(ctx, cmp.Or(o.prefix, "holdfast:"), mostPrefixes) {
		switch n, err := o.count(ctx, prefix, name, math.MaxInt64); {
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

// count returns the number of locks in use under a prefix, or most if there are more. If name is not "", it counts only the lock of
// that name.
func (o *lookFlags) count(ctx context.Context, prefix, name string, most int64) (n int64, err error) {
	cfg := o.config(o.servers, prefix)
	cfg.Logger = slog.New(slog.DiscardHandler)
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
