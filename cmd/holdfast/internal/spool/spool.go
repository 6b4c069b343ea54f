// Package spool has a writer that does not block for long, for processes that have to act at a deadline.
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

// Writer passes messages on to another writer, in order. While that writer blocks, as a pipe does whose reader is stopped, or a terminal
// after ^S, it keeps them. If it has too many, it drops new ones, and later writes how many.
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

// most is how many messages a Writer keeps, whatever their size.
const most = 1024

// New returns a Writer that passes on to to. Write waits up to patience until its message has been passed on, so that the message stays in
// order with what other processes write. If patience is 0, it is not written how many were dropped, since a program may read the messages.
func New(to io.Writer, patience time.Duration) *Writer {
	w := &Writer{to: to, patience: patience, queue: make(chan message, most)}
	go w.run()
	return w
}

// Write never fails. While an earlier message has not been passed on, it does not wait.
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
			if n := w.dropped.Swap(0); n > 0 && w.patience > 0 {
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
