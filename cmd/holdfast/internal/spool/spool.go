// Package spool has a writer that does not block for long, for processes that must stay able to act at a deadline.
package spool

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// Writer is a writer in front of another one, which may block: the other end of a pipe may be stopped, and ^S stops a terminal. It keeps
// what was written, and passes it on, in order, when it can.
type Writer struct {
	to       io.Writer
	patience time.Duration
	queue    chan message
	dropped  atomic.Int64 // number of messages for which there was no room

	mu     sync.Mutex
	last   chan struct{} // closed when the latest message has been passed on; nil before the first
	closed bool
}

type message struct {
	text   []byte
	passed chan struct{}
}

// most is how many messages a Writer keeps.
const most = 1024

// New returns a Writer in front of to. Write waits at most patience for a message to be passed on, so that it stays in order with what
// other processes write.
func New(to io.Writer, patience time.Duration) *Writer {
	w := &Writer{to: to, patience: patience, queue: make(chan message, most)}
	go w.run()
	return w
}

// Write never fails. It does not wait behind a message for which an earlier Write has waited in vain.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return len(p), nil
	}
	m := message{bytes.Clone(p), make(chan struct{})}
	select {
	case w.queue <- m:
	default:
		w.dropped.Add(1)
		return len(p), nil
	}
	before := w.last
	w.last = m.passed
	if before != nil {
		select {
		case <-before:
		default:
			return len(p), nil
		}
	}
	select {
	case <-m.passed:
	case <-time.After(w.patience):
	}
	return len(p), nil
}

func (w *Writer) run() {
	for m := range w.queue {
		_, _ = w.to.Write(m.text) // an error cannot be reported
		if len(w.queue) == 0 {
			if n := w.dropped.Swap(0); n > 0 {
				_, _ = fmt.Fprintf(w.to, "holdfast: %d messages were dropped\n", n)
			}
		}
		close(m.passed)
	}
}

// Flush waits until everything has been passed on, or until a signal asks the program to end.
func (w *Writer) Flush(received <-chan os.Signal) {
	w.mu.Lock()
	last := w.last
	w.mu.Unlock()
	if last != nil {
		terminal.Await(last, received)
	}
}

// Close waits until everything has been passed on, or has failed. It drops what is written later.
func (w *Writer) Close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.queue)
	}
	w.mu.Unlock()
	w.Flush(nil)
}
