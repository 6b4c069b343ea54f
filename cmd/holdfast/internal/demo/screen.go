package demo

import (
	"io"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
)

// screen writes lines, with colors if it is a terminal.
type screen struct {
	console.Styles
	out io.Writer
}

func newScreen(out io.Writer) *screen { return &screen{console.Styles(console.HasStyles(out)), out} }

// line writes a line. It ignores errors: even without a reader, the demo's exit code counts.
func (s *screen) line(text string) { _, _ = io.WriteString(s.out, text+"\n") }
