package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A machine on which many want the processors may let a thread that could run wait for seconds, above all one that has run much,
// and wake up sleepers at once meanwhile. The watch does not see that. Linux counts how long each thread has waited.

const (
	// starved is how long a thread must have waited for a processor to excuse a test with timeouts of a second or more.
	starved = 750 * time.Millisecond

	// sample is how often the counts are read. A thread that waited for less than that, again and again, is not starved.
	sample = starved / 3
)

// wait is the longest time for which a thread waited for a processor.
type wait struct {
	by      time.Duration
	process string // whose thread it was
}

func (w wait) String() string {
	if w.by < starved {
		return ""
	}
	return fmt.Sprintf("; %s could run, and waited for a processor for %v", w.process, w.by.Round(time.Millisecond))
}

// waits watches the threads of a process and of its descendants. It sees nothing on systems other than Linux.
type waits struct {
	proc    string // /proc
	pid     int
	stop    chan struct{}
	done    sync.WaitGroup
	threads map[string]time.Duration // how long each has waited, by its folder
	longest wait
}

func watchWaits() *waits {
	w := newWaits("/proc", os.Getpid())
	if virtual(time.Now()) {
		return w
	}
	w.done.Go(func() {
		ticker := time.NewTicker(sample)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				w.look()
			case <-w.stop:
				w.look()
				return
			}
		}
	})
	return w
}

// newWaits takes note of what the threads that exist have waited already.
func newWaits(proc string, pid int) *waits {
	w := &waits{proc: proc, pid: pid, stop: make(chan struct{}), threads: map[string]time.Duration{}}
	w.look()
	w.longest = wait{}
	return w
}

// end returns the longest wait since the watch began.
func (w *waits) end() wait {
	close(w.stop)
	w.done.Wait()
	return w.longest
}

func (w *waits) look() { w.lookAt(strconv.Itoa(w.pid)) }

// lookAt ignores what it cannot read: a process that has ended, or a system that does not count.
func (w *waits) lookAt(pid string) {
	threads, _ := filepath.Glob(filepath.Join(w.proc, pid, "task", "*"))
	for _, thread := range threads {
		if _, waited, err := schedule(thread); err == nil {
			if by := waited - w.threads[thread]; by > w.longest.by {
				name, _ := os.ReadFile(filepath.Join(thread, "comm"))
				w.longest = wait{by, strings.TrimSpace(string(name)) + " (process " + pid + ")"}
			}
			w.threads[thread] = waited
		}
		children, _ := os.ReadFile(filepath.Join(thread, "children"))
		for _, child := range strings.Fields(string(children)) {
			w.lookAt(child)
		}
	}
}

// schedule returns how long a thread, or the first one of a process, has run, and how long it has waited for a processor.
func schedule(folder string) (ran, waited time.Duration, err error) {
	text, err := os.ReadFile(filepath.Join(folder, "schedstat"))
	if err != nil {
		return 0, 0, err
	}
	_, err = fmt.Sscan(string(text), &ran, &waited)
	return ran, waited, err
}

// Waited says how long a process has run, and waited for a processor, for the log of a test that failed; nothing where the
// system does not count.
func Waited(pid int) string {
	ran, waited, err := schedule(filepath.Join("/proc", strconv.Itoa(pid)))
	if err != nil {
		return ""
	}
	return fmt.Sprintf("it has run for %v, and waited for a processor for %v", ran.Round(time.Millisecond), waited.Round(time.Millisecond))
}
