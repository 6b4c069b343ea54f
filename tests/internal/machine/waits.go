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

// wait is how long a thread waited for a processor.
type wait struct {
	by      time.Duration
	process string // whose thread it was
	at      time.Time
}

func (w wait) String() string {
	if w.by < starved {
		return ""
	}
	return fmt.Sprintf("; %s could run, and waited for a processor for %v", w.process, w.by.Round(time.Millisecond))
}

// waits watches the threads of a process and of its descendants while somebody wants to know. It sees nothing on systems other
// than Linux.
type waits struct {
	proc string // /proc
	pid  string

	mu      sync.Mutex
	users   int
	stop    chan struct{}            // closed when the last user ends
	threads map[string]time.Duration // how long each has waited, by its folder
	long    []wait                   // that were as long as starved, while there are users
}

var processes = &waits{proc: "/proc", pid: strconv.Itoa(os.Getpid())}

// begin watches until end is called. What threads have waited before does not count.
func (w *waits) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users++; w.users > 1 {
		return
	}
	w.threads, w.stop = map[string]time.Duration{}, make(chan struct{})
	w.look(w.pid)
	w.long = nil
	go w.watch(w.stop)
}

func (w *waits) watch(stop chan struct{}) {
	ticker := time.NewTicker(sample)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			w.mu.Lock()
			w.look(w.pid)
			w.mu.Unlock()
		case <-stop:
			return
		}
	}
}

// end ends what begin began. It returns the longest wait since then, if it was as long as starved.
func (w *waits) end(since time.Time) (longest wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look(w.pid)
	for _, one := range w.long {
		if one.by > longest.by && !one.at.Before(since) {
			longest = one
		}
	}
	if w.users--; w.users == 0 {
		close(w.stop)
	}
	return longest
}

// look notes which threads of a process and of its descendants have waited for long since the last look. It ignores what it
// cannot read: a process that has ended, or a system that does not count.
func (w *waits) look(pid string) {
	folder := filepath.Join(w.proc, pid, "task")
	threads, _ := os.ReadDir(folder)
	for _, entry := range threads {
		thread := filepath.Join(folder, entry.Name())
		if _, waited, err := schedule(thread); err == nil {
			if by := waited - w.threads[thread]; by >= starved {
				name, _ := os.ReadFile(filepath.Join(thread, "comm"))
				w.long = append(w.long, wait{by, strings.TrimSpace(string(name)) + " (process " + pid + ")", time.Now()})
			}
			w.threads[thread] = waited
		}
		children, _ := os.ReadFile(filepath.Join(thread, "children"))
		for _, child := range strings.Fields(string(children)) {
			w.look(child)
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
