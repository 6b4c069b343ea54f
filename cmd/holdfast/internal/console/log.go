package console

import (
	"context"
	"log/slog"
	"strings"
)

// Logger returns a logger whose warnings and errors become notes. It drops those about lost leases and outages, which the
// command reports itself, together with what it does about them.
func (c *Console) Logger() *slog.Logger { return slog.New(logHandler{c}) }

// logHandler handles the library's records, which have no groups.
type logHandler struct{ c *Console }

func (h logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.c.level >= Normal
}

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "holdfast: lease lost" || r.Message == "holdfast: server does not answer" {
		return nil
	}
	parts := []string{strings.TrimPrefix(r.Message, "holdfast: ")}
	r.Attrs(func(a slog.Attr) bool {
		parts = append(parts, a.Key+": "+a.Value.String())
		return true
	})
	h.c.Warnf("%s", strings.Join(parts, "; "))
	return nil
}

func (h logHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h logHandler) WithGroup(string) slog.Handler { return h }
