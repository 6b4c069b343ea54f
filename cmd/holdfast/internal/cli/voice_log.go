package cli

import (
	"context"
	"log/slog"
	"strings"
)

// logger returns a logger whose records the voice says, as the library's warnings are.
func (v *voice) logger() *slog.Logger { return slog.New(logHandler{v}) }

// logHandler says one note a record. It is for the library's, which have no groups.
type logHandler struct{ v *voice }

func (h logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && !h.v.quiet
}

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	parts := []string{strings.TrimPrefix(r.Message, "holdfast: ")}
	r.Attrs(func(a slog.Attr) bool {
		parts = append(parts, a.Key+": "+a.Value.String())
		return true
	})
	h.v.note("warning: %s", strings.Join(parts, "; "))
	return nil
}

func (h logHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h logHandler) WithGroup(string) slog.Handler { return h }
