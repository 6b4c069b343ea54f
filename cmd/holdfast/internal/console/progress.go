package console

import (
	"io"
	"os"
	"sync"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/tty"
)

// Progress is a writer with a last line that says what is being done, if it writes to a terminal. Other output takes
// the place of that line.
type Progress struct {
	w        io.Writer
	terminal bool

	mu    sync.Mutex
	shown bool
}

// NewProgress returns a Progress that writes to w.
func NewProgress(w io.Writer) *Progress {
	return &Progress{w: w, terminal: IsTerminal(w) && os.Getenv("TERM") != "dumb"}
}

// Show replaces the last line. An empty text removes it.
func (p *Progress) Show(text string) {
	if !p.terminal {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	if text != "" {
		p.shown = true
		_, _ = io.WriteString(p.w, text+" ...")
	}
}

func (p *Progress) clear() {
	if p.shown {
		p.shown = false
		_, _ = io.WriteString(p.w, "\r\x1b[K")
	}
}

// Write removes the last line, and writes.
func (p *Progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	return p.w.Write(text)
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && tty.IsTerminal(f)
}

// HasStyles reports whether a stream is a terminal that shows bold type and colors, and its user wants them.
func HasStyles(stream any) bool {
	return IsTerminal(stream) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
