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

// On a machine with too much to do, a thread that could run may wait for a processor for seconds, above all one that has run a
// lot, while sleepers are woken up at once. The watch over sleepers does not see that. Linux counts how long each thread has waited.

const (
	// starved is the wait for a processor that excuses a test with timeouts of a second or more.
	starved = 750 * time.Millisecond

	// sample is the time between two looks at the counts. Only waits within one sample add up.
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

// waits watches the threads of a process and of its descendants, while it has users. It sees nothing except on Linux.
type waits struct {
	proc string // /proc
	pid  string

	mu      sync.Mutex
	users   int
	stop    chan struct{}            // closed when the last user ends
	threads map[string]time.Duration // how long each has waited, by its folder
	long    []wait                   // waits of at least starved, since there are users
}

var processes = &waits{proc: "/proc", pid: strconv.Itoa(os.Getpid())}

// begin watches until end is called. Earlier waits do not count.
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

// end ends the watch that begin began. It returns the longest wait since then, if that was at least starved.
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
// cannot read, such as a process that has ended.
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

// schedule returns how long a thread has run and how long it has waited for a processor. The folder of a process stands for its
// first thread.
func schedule(folder string) (ran, waited time.Duration, err error) {
	text, err := os.ReadFile(filepath.Join(folder, "schedstat"))
	if err != nil {
		return 0, 0, err
	}
	_, err = fmt.Sscan(string(text), &ran, &waited)
	return ran, waited, err
}

// Waited says how long a process has run and waited for a processor, for the log of a test that failed. It returns "" on systems
// that do not count.
func Waited(pid int) string {
	ran, waited, err := schedule(filepath.Join("/proc", strconv.Itoa(pid)))
	if err != nil {
		return ""
	}
	return fmt.Sprintf("it has run for %v, and waited for a processor for %v", ran.Round(time.Millisecond), waited.Round(time.Millisecond))
}
