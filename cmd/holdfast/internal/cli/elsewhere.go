package cli

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
)

const (
	// elsewhereTime bounds the search for locks of other prefixes, which begins when the user has been told that there are none.
	elsewhereTime = 10 * time.Second
	// mostPrefixes is how many other prefixes are looked at.
	mostPrefixes = 5
)

// elsewhere tells of locks under other prefixes, or only of those of a name, unless that is "". It says nothing of those that the
// user may not see, nor if it takes too long.
func (o *lookFlags) elsewhere(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, elsewhereTime)
	defer cancel()
	for _, prefix := range o.servers.Prefixes(ctx, cmp.Or(o.prefix, "holdfast:"), mostPrefixes) {
		switch n := o.count(ctx, prefix, name); {
		case n > 0 && name != "":
			o.console.Notef("%q is in use under %q: holdfast show --prefix %s %s", name, prefix, shellWord(prefix), shellWord(name))
		case n == 1:
			o.console.Notef("1 lock under %q: holdfast ls --prefix %s", prefix, shellWord(prefix))
		case n > 1:
			o.console.Notef("%d locks under %q: holdfast ls --prefix %s", n, prefix, shellWord(prefix))
		}
	}
}

// count returns how many locks of a prefix are in use, or of one name unless that is ""; -1 if that is not known.
func (o *lookFlags) count(ctx context.Context, prefix, name string) (n int) {
	cfg := o.config(prefix)
	cfg.Logger = slog.New(slog.DiscardHandler)
	locks, err := o.servers.Locks(cfg, 0)
	if err != nil {
		return -1
	}
	defer func() { _ = locks.Close(connect.CloseTime) }()
	if name != "" {
		s, err := locks.Inspector().Get(ctx, name)
		switch {
		case err != nil:
			return -1
		case s.Held() || s.Waiting > 0:
			return 1
		}
		return 0
	}
	for _, err := range locks.Inspector().List(ctx, "") {
		if err != nil {
			return -1
		}
		n++
	}
	return n
}
