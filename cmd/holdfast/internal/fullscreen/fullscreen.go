// Package fullscreen draws on the whole terminal.
package fullscreen

import (
	"context"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// Screen is a terminal that is drawn on as a whole. What it showed before comes back at the end.
type Screen struct {
	console.Styles
	Signals chan os.Signal // receives Suspend when ^Z asks the program to stop, which then calls Suspend, and Resize
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
	return &Screen{f: f, Styles: os.Getenv("NO_COLOR") == "", Signals: make(chan os.Signal, 2)}
}

// Begin takes the terminal.
func (s *Screen) Begin() {
	receive(s.Signals, terminal.Resize, terminal.Suspend)
	s.write(take)
}

// End gives the terminal back.
func (s *Screen) End() {
	s.write(giveBack)
	signal.Stop(s.Signals)
}

// Suspend gives the terminal back, and stops this program's job. It takes the terminal again when the job continues in the foreground, or
// when ctx has ended.
func (s *Screen) Suspend(ctx context.Context) {
	s.write(giveBack)
	continued := make(chan os.Signal, 1)
	receive(continued, terminal.Continue)
	defer signal.Stop(continued)
	own := terminal.Open()
	defer own.Close()
	for ctx.Err() == nil {
		terminal.StopGroup()
		select {
		case <-continued:
		case <-time.After(time.Second): // not stopped: no shell could continue this job
		case <-ctx.Done():
		}
		if own == nil || own.Foreground(terminal.OwnGroup()) {
			break
		}
	}
	s.write(take)
}

// receive makes c receive these signals, except those that are ignored.
func receive(c chan<- os.Signal, wanted ...os.Signal) {
	for _, sig := range terminal.Signals() {
		if slices.Contains(wanted, sig) {
			signal.Notify(c, sig)
		}
	}
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
