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

// elsewhere tells of locks under other prefixes. It says nothing of those that the user may not see, nor if it takes too long.
func (o *lsFlags) elsewhere(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, elsewhereTime)
	defer cancel()
	own := cmp.Or(o.prefix, "holdfast:")
	if o.pattern != "" && o.count(ctx, own) != 0 {
		return
	}
	for _, prefix := range o.servers.Prefixes(ctx, own, mostPrefixes) {
		if n := o.count(ctx, prefix); n > 0 {
			locks := "locks"
			if n == 1 {
				locks = "lock"
			}
			o.console.Notef("%d %s under %q: holdfast ls --prefix %s", n, locks, prefix, shellWord(prefix))
		}
	}
}

// count returns how many locks of a prefix are in use; -1 if that is not known.
func (o *lsFlags) count(ctx context.Context, prefix string) (n int) {
	cfg := o.config(prefix)
	cfg.Logger = slog.New(slog.DiscardHandler)
	locks, err := o.servers.Locks(cfg, 0)
	if err != nil {
		return -1
	}
	defer func() { _ = locks.Close(connect.CloseTime) }()
	for _, err := range locks.Inspector().List(ctx, "") {
		if err != nil {
			return -1
		}
		n++
	}
	return n
}
