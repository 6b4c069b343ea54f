// Package screen writes lines with styles. It can record what it shows.
package screen

import (
	"io"
	"regexp"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
)

// Screen writes lines, with colors if it is a terminal.
type Screen struct {
	out       io.Writer
	colors    bool
	recording *Recording // or nil
}

// New returns a screen that writes to out.
func New(out io.Writer) *Screen {
	return &Screen{out: out, colors: console.HasStyles(out)}
}

// Record returns a recording of what the screen shows from now on.
func (s *Screen) Record() *Recording {
	s.recording = new(Recording)
	return s.recording
}

// Style returns a text in the style of an ANSI code. Line removes the style if the screen has no colors.
func (s *Screen) Style(code, text string) string { return "\x1b[" + code + "m" + text + "\x1b[0m" }

// styled matches a text in a style of Style.
var styled = regexp.MustCompile(`\x1b\[([\d;]+)m(.*?)\x1b\[0m`)

// Bold, Dim, Red, Green and Yellow return a text in that style.
func (s *Screen) Bold(text string) string   { return s.Style("1", text) }
func (s *Screen) Dim(text string) string    { return s.Style("2", text) }
func (s *Screen) Red(text string) string    { return s.Style("1;31", text) }
func (s *Screen) Green(text string) string  { return s.Style("1;32", text) }
func (s *Screen) Yellow(text string) string { return s.Style("1;33", text) }

// Line writes a line. It ignores errors: the demo's exit code still counts.
func (s *Screen) Line(text string) {
	if s.recording != nil {
		s.recording.add(text)
	}
	if !s.colors {
		text = styled.ReplaceAllString(text, "$2")
	}
	_, _ = io.WriteString(s.out, text+"\n")
}
