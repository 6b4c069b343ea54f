// Package fullscreen draws on the whole terminal.
package fullscreen

import (
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// Screen is a terminal that is drawn on as a whole. What it showed before comes back at the end.
type Screen struct {
	console.Styles
	Resized chan os.Signal // receives a value when the terminal's size has changed
	f       *os.File
}

// Escape sequences that take the terminal and give it back.
const (
	take     = "\x1b[?1049h\x1b[?25l" // another screen, no cursor
	giveBack = "\x1b[?25h\x1b[?1049l"
)

// Of returns the screen of a terminal. It returns nil if w is no terminal, or cannot be drawn on.
func Of(w io.Writer) *Screen {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return nil
	}
	if _, _, ok := terminal.Size(f); !ok {
		return nil
	}
	return &Screen{f: f, Styles: os.Getenv("NO_COLOR") == "", Resized: make(chan os.Signal, 1)}
}

// Begin takes the terminal. From then on ^Z does nothing: a program that stops would leave the shell with the other screen.
func (s *Screen) Begin() {
	signal.Ignore(terminal.Suspend)
	signal.Notify(s.Resized, terminal.Resize)
	s.write(take)
}

// End gives the terminal back.
func (s *Screen) End() {
	s.write(giveBack)
	signal.Stop(s.Resized)
}

// Draw replaces everything by the lines that draw returns. They must fit the size of the terminal.
func (s *Screen) Draw(draw func(s *Screen, columns, rows int) []string) {
	columns, rows, _ := terminal.Size(s.f)
	if columns <= 0 || rows <= 0 {
		columns, rows = 80, 24
	}
	// Each line is replaced in place, so that nothing flickers. It is erased first: after a line that fills the terminal, the cursor
	// is still on that line's last character. A line feed after the last row would scroll.
	lines := draw(s, columns, rows)
	text := "\x1b[H\x1b[K" + strings.Join(lines, "\r\n\x1b[K")
	if len(lines) < rows {
		text += "\r\n\x1b[J"
	}
	s.write(text)
}

// write writes everything at once. It ignores errors: if the terminal hangs up, a signal ends the program.
func (s *Screen) write(text string) { _, _ = io.WriteString(s.f, text) }
