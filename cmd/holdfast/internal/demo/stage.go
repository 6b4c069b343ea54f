package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// stage shows what happens: on a terminal with a picture that is drawn again and
// again below the lines that stay, otherwise with plain lines.
type stage struct {
	out     io.Writer
	columns int // of the terminal; 0 if it is none
	rows    int
	colors  bool

	lanes *lanes // while there is a picture
	drawn int    // lines of it on the screen
}

// plainColumns is the width of what is written to a file.
const plainColumns = 80

func newStage(cfg Config) *stage {
	s := &stage{out: cfg.Out}
	if cfg.JSON {
		s.out = io.Discard
	} else if f, ok := cfg.Out.(*os.File); ok {
		if columns, rows, ok := terminalSize(f); ok {
			s.columns, s.rows = columns, rows
			s.colors = os.Getenv("NO_COLOR") == ""
		}
	}
	return s
}

func (s *stage) style(code, text string) string {
	if !s.colors {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *stage) bold(text string) string   { return s.style("1", text) }
func (s *stage) dim(text string) string    { return s.style("2", text) }
func (s *stage) red(text string) string    { return s.style("1;31", text) }
func (s *stage) green(text string) string  { return s.style("1;32", text) }
func (s *stage) yellow(text string) string { return s.style("1;33", text) }

// line writes a line that stays, above the picture.
func (s *stage) line(text string) {
	s.write(s.erased() + text + "\n" + s.picture())
}

// redraw brings the picture up to date.
func (s *stage) redraw() {
	if s.lanes != nil && s.live() {
		s.write(s.erased() + s.picture())
	}
}

// live reports whether the picture has room to be drawn again.
func (s *stage) live() bool { return s.lanes != nil && s.columns >= 40 && s.rows > s.lanes.workers+4 }

// write writes at once, so that nothing flickers. Where output has come to an
// end, the demo goes on: its exit code still tells.
func (s *stage) write(text string) { _, _ = io.WriteString(s.out, text) }

// erased returns what takes the picture off the screen.
func (s *stage) erased() string {
	if s.drawn == 0 {
		return ""
	}
	up := fmt.Sprintf("\x1b[%dA\r\x1b[J", s.drawn)
	s.drawn = 0
	return up
}

// picture returns the picture as it is now.
func (s *stage) picture() string {
	if !s.live() {
		return ""
	}
	lines := s.lanes.draw(s, s.columns)
	s.drawn = len(lines)
	return strings.Join(lines, "\n") + "\n"
}

// open says what is about to happen.
func (s *stage) open(cfg Config, where string) {
	s.line(fmt.Sprintf("%s  %d processes, %s, lease time %s",
		s.bold("Holdfast demo"), cfg.Workers, where, short(ttl)))
}

// close ends the picture: what is on the screen stays there; where there was no
// room or no terminal, it is written now.
func (s *stage) close() {
	if s.lanes == nil {
		return
	}
	s.lanes.ended = now()
	if s.live() {
		s.redraw()
	} else {
		s.write(strings.Join(s.lanes.draw(s, max(s.columns, plainColumns)), "\n") + "\n")
	}
	s.lanes, s.drawn = nil, 0
}

// lottery opens the first act.
func (s *stage) lottery(cfg Config) {
	s.line("")
	if cfg.NoLock {
		s.line(s.bold("The lottery, without a lock"))
	} else {
		s.line(s.bold("1  The lottery"))
	}
	s.line(s.dim(fmt.Sprintf("   %d processes race to draw %d winners from %d entrants. A draw reads a list in",
		cfg.Workers, places, len(entrants))))
	if cfg.NoLock {
		s.line(s.dim("   Redis, takes its time, and writes it back, over what others wrote meanwhile."))
	} else {
		s.line(s.dim("   Redis, takes its time, and writes it back: without a lock, draws collide."))
	}
	s.line("")
}

// winner shows a draw.
func (s *stage) winner(e event) {
	s.line(fmt.Sprintf("   %2d  %-22s %s", e.Place, e.Winner, s.dim(fmt.Sprintf("drawn by worker %d", e.Worker))))
}

// ledger opens the second act.
func (s *stage) ledger(h *history, workers int) {
	s.line("")
	s.line(s.bold("2  The ledger, and two accidents"))
	s.line(s.dim("   Again and again each worker reads a total, adds one, and writes it back."))
	s.line(s.dim("   Each grant has a higher fence than the last; the ledger refuses lower ones."))
	s.line("")
	s.lanes = &lanes{history: h, workers: workers, begun: now()}
	s.say("%d workers at work", workers)
}

// say tells what happens in the second act, and when.
func (s *stage) say(format string, args ...any) {
	s.line(fmt.Sprintf("   %s  %s", s.dim(fmt.Sprintf("%4.1f s", now().sub(s.lanes.begun).Seconds())), fmt.Sprintf(format, args...)))
}

// short writes a duration as people say it.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return trimZeros(fmt.Sprintf("%.2f", d.Seconds())) + " s"
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%d µs", d.Microseconds())
}

func trimZeros(number string) string {
	return strings.TrimSuffix(strings.TrimRight(number, "0"), ".")
}

// thousands writes 1234567 as 1,234,567.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
