// Package screen writes lines and, on a terminal, a picture below them that is redrawn. It can record what it shows.
package screen

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/tty"
)

// Screen writes lines that stay. On a terminal with enough room, a picture stays below them.
type Screen struct {
	out     io.Writer
	columns int // of the terminal; 0 if it is none
	rows    int
	colors  bool

	recording *Recording // or nil

	picture Picture // or nil
	drawn   int     // lines of the picture on the terminal
}

// Picture is drawn below the lines.
type Picture interface {
	// Height is about how many lines it has.
	Height() int
	// Draw returns its lines for a terminal with so many columns.
	Draw(s *Screen, columns int) []string
}

// plainColumns is the width of a recording, and of output that does not go to a terminal.
const plainColumns = 80

// New returns a screen that writes to out.
func New(out io.Writer) *Screen {
	s := &Screen{out: out}
	if f, ok := out.(*os.File); ok {
		// A dumb terminal does not interpret the sequences that move a cursor.
		if columns, rows, ok := tty.Size(f); ok && os.Getenv("TERM") != "dumb" {
			s.columns, s.rows = columns, rows
			s.colors = os.Getenv("NO_COLOR") == ""
		}
	}
	return s
}

// Record returns a recording of what the screen shows from now on.
func (s *Screen) Record() *Recording {
	s.recording = new(Recording)
	return s.recording
}

// Style returns a text in the style of an ANSI code, if the screen or its recording has styles.
func (s *Screen) Style(code, text string) string {
	if !s.colors && s.recording == nil {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// styled matches a text in a style of Style.
var styled = regexp.MustCompile(`\x1b\[([\d;]+)m(.*?)\x1b\[0m`)

// Bold, Dim, Red, Green and Yellow return a text in that style.
func (s *Screen) Bold(text string) string   { return s.Style("1", text) }
func (s *Screen) Dim(text string) string    { return s.Style("2", text) }
func (s *Screen) Red(text string) string    { return s.Style("1;31", text) }
func (s *Screen) Green(text string) string  { return s.Style("1;32", text) }
func (s *Screen) Yellow(text string) string { return s.Style("1;33", text) }

// Line writes a line that stays.
func (s *Screen) Line(text string) {
	s.recording.addLine(text)
	s.write(s.erase() + text + "\n" + s.draw())
}

// Show shows a picture from now on.
func (s *Screen) Show(p Picture) { s.picture = p }

// Redraw draws the picture again.
func (s *Screen) Redraw() {
	if s.picture != nil {
		s.recording.addFrame(s)
	}
	if s.isLive() {
		s.write(s.erase() + s.draw())
	}
}

// Finish leaves the picture as it is. If there was no terminal, or no room, it is drawn now.
func (s *Screen) Finish() {
	if s.picture == nil {
		return
	}
	rows := s.picture.Draw(s, plainColumns)
	if s.isLive() {
		s.Redraw()
	} else {
		s.write(strings.Join(rows, "\n") + "\n")
	}
	s.recording.finish(rows)
	s.picture, s.drawn = nil, 0
}

// isLive reports whether there is a picture, and room to redraw it.
func (s *Screen) isLive() bool {
	return s.picture != nil && s.columns >= 40 && s.rows > s.picture.Height()+4
}

// write writes everything at once, so that nothing flickers. It ignores errors: the demo's exit code still counts.
func (s *Screen) write(text string) {
	if !s.colors {
		text = styled.ReplaceAllString(text, "$2")
	}
	_, _ = io.WriteString(s.out, text)
}

// erase returns what removes the picture from the terminal.
func (s *Screen) erase() string {
	if s.drawn == 0 {
		return ""
	}
	up := fmt.Sprintf("\x1b[%dA\r\x1b[J", s.drawn)
	s.drawn = 0
	return up
}

// draw returns what draws the picture.
func (s *Screen) draw() string {
	if !s.isLive() {
		return ""
	}
	lines := s.picture.Draw(s, s.columns)
	s.drawn = len(lines)
	return strings.Join(lines, "\n") + "\n"
}
