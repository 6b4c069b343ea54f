package engine

import (
	"context"
	"log/slog"
	"sync"
)

// warning describes something about the server that makes locks unsafe or slow.
type warning struct {
	what        string // identifies the warning: each is given once
	seen        string // the evidence, as the server gives it
	consequence string
	remedy      string
}

// warnings remembers the warnings that were given.
type warnings struct {
	mu    sync.Mutex
	given map[string]struct{}
}

// isFirst reports whether it is called for the first time with what.
func (w *warnings) isFirst(what string) bool {
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

// warn logs a warning, once. A slow logger delays only Close.
func (c *Client) warn(w warning) {
	if !c.warnings.isFirst(w.what) {
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
			slog.String("more", "run holdfast doctor to examine the server"))
	})
}
