package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// spool is a writer for those who hold a lock: output that nobody reads, as on a terminal after ^S, does
// not keep them. What cannot be written soon is kept, and written in order when it can be.
type spool struct {
	w io.Writer

	mu      sync.Mutex
	waiting [][]byte
	size    int           // of those
	lost    int           // how many were too much
	done    chan struct{} // closed when all is written; nil when nothing waits
	stuck   bool          // a Write has waited in vain
}

const (
	maxSpooled = 1 << 20                // bytes that wait
	soon       = 100 * time.Millisecond // for which a Write waits, so that what others write then comes after it
)

// Write never fails: an error is that of a later time.
func (s *spool) Write(p []byte) (int, error) {
	s.mu.Lock()
	if s.size+len(p) > maxSpooled {
		s.lost++
		s.mu.Unlock()
		return len(p), nil
	}
	s.waiting = append(s.waiting, bytes.Clone(p))
	s.size += len(p)
	if s.done == nil {
		s.done = make(chan struct{})
		go s.pass()
	}
	done, stuck := s.done, s.stuck
	s.mu.Unlock()
	if stuck {
		return len(p), nil
	}
	timer := time.NewTimer(soon)
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

// flush waits until all is written, or a signal that ends programs arrives.
func (s *spool) flush(signals <-chan os.Signal) {
	s.mu.Lock()
	done := s.done
	s.mu.Unlock()
	if done == nil {
		return
	}
	for {
		select {
		case <-done:
			return
		case sig := <-signals:
			if suspends(sig) {
				stopGroup()
			}
			if interrupts(sig) {
				return
			}
		}
	}
}

// pass writes what waits, until nothing does.
func (s *spool) pass() {
	for {
		s.mu.Lock()
		if len(s.waiting) == 0 && s.lost == 0 {
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
			next = fmt.Appendf(nil, "holdfast: %d messages were left out\n", s.lost)
			s.lost = 0
		}
		s.mu.Unlock()
		_, _ = s.w.Write(next) // There is no other place to complain.
	}
}
