package main

import (
	"io"
	"os"
	"sync"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
)

// progress is a writer that shows, if it writes to a terminal, what is being done in the last line. Other output replaces that line.
type progress struct {
	w        io.Writer
	terminal bool

	mu    sync.Mutex
	shown bool
}

// newProgress returns a progress that writes to w.
func newProgress(w io.Writer) *progress {
	return &progress{w: w, terminal: console.IsTerminal(w) && os.Getenv("TERM") != "dumb"}
}

// show replaces the last line. An empty text removes it.
func (p *progress) show(text string) {
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

func (p *progress) clear() {
	if p.shown {
		p.shown = false
		_, _ = io.WriteString(p.w, "\r\x1b[K")
	}
}

// Write removes the last line, and writes.
func (p *progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	return p.w.Write(text)
}
