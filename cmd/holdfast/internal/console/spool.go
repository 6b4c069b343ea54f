package console

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/signals"
)

// Spool is a writer that does not block for long, for programs that hold a lock. If nobody reads the output, as on a
// terminal after ^S, it keeps what was written and writes it, in order, when it can.
type Spool struct {
	w io.Writer

	mu      sync.Mutex
	waiting [][]byte
	size    int           // of waiting, in bytes
	dropped int           // number of writes for which there was no room
	done    chan struct{} // closed when everything is written; nil if nothing waits
	stuck   bool          // a Write has timed out since done was made
}

const (
	maxSpooled = 1 << 20                // bound of Spool.size
	writeTime  = 100 * time.Millisecond // how long Write waits, so that its text and the command's output stay in order
)

// NewSpool returns a spool in front of w.
func NewSpool(w io.Writer) *Spool { return &Spool{w: w} }

// Write never fails.
func (s *Spool) Write(p []byte) (int, error) {
	s.mu.Lock()
	if s.size+len(p) > maxSpooled {
		s.dropped++
		s.mu.Unlock()
		return len(p), nil
	}
	s.waiting = append(s.waiting, bytes.Clone(p))
	s.size += len(p)
	if s.done == nil {
		s.done = make(chan struct{})
		go s.drain()
	}
	done, stuck := s.done, s.stuck
	s.mu.Unlock()
	if stuck {
		return len(p), nil
	}
	timer := time.NewTimer(writeTime)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		s.mu.Lock()
		s.stuck = s.done != nil
		s.mu.Unlock()
	}
	return len(p), nil
}

// Flush waits until everything is written, or until a signal asks the program to end.
func (s *Spool) Flush(received <-chan os.Signal) {
	s.mu.Lock()
	done := s.done
	s.mu.Unlock()
	if done != nil {
		signals.Await(done, received)
	}
}

func (s *Spool) drain() {
	for {
		s.mu.Lock()
		if len(s.waiting) == 0 && s.dropped == 0 {
			close(s.done)
			s.done, s.stuck = nil, false
			s.mu.Unlock()
			return
		}
		var next []byte
		if len(s.waiting) > 0 {
			next, s.waiting = s.waiting[0], s.waiting[1:]
			s.size -= len(next)
		} else {
			next = fmt.Appendf(nil, "holdfast: %d messages were dropped\n", s.dropped)
			s.dropped = 0
		}
		s.mu.Unlock()
		_, _ = s.w.Write(next) // An error cannot be reported: this is where errors are reported.
	}
}
