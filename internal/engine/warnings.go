package engine

import (
	"context"
	"log/slog"
	"sync"
)

// warning is something about the server that makes locks unsafe, or slow.
type warning struct {
	what        string // the same for the same finding
	seen        string // as the server says it
	consequence string
	remedy      string
}

// warnings are those that were given.
type warnings struct {
	mu    sync.Mutex
	given map[string]struct{}
}

// first reports whether this is the first time for what.
func (w *warnings) first(what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, again := w.given[what]; again {
		return false
	}
	if w.given == nil {
		w.given = map[string]struct{}{}
	}
	w.given[what] = struct{}{}
	return true
}

// warn tells the user of a finding, once. A logger that is slow holds nobody up but
// Close.
func (c *Client) warn(w warning) {
	if !c.warnings.first(w.what) {
		return
	}
	logger := c.cfg.Logger
	if logger == nil {
		logger = slog.Default()
	}
	c.tasks.Run(func() {
		logger.LogAttrs(context.Background(), slog.LevelWarn, "holdfast: "+w.what,
			slog.String("server", c.server.Addr()),
			slog.String("seen", w.seen),
			slog.String("consequence", w.consequence),
			slog.String("remedy", w.remedy),
			slog.String("more", "holdfast doctor examines the server"))
	})
}
