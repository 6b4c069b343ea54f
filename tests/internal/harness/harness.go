// Package harness has a testing.TB for programs that are not tests, and for attempts of a test.
package harness

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// TB is a testing.TB with failures and cleanups of its own. In a program it is that of servers and proxies, whose failures are the
// machine's and not the locks'.
type TB struct {
	testing.TB // has what is not here

	mu       sync.Mutex
	failures []error
	cleanups []func()
}

// New returns the TB of a program.
func New() *TB { return &TB{TB: program{}} }

// program has what TB needs of a test in a program. Methods that it lacks are not called.
type program struct{ testing.TB }

func (program) Helper()             {}
func (program) Log(...any)          {}
func (program) Logf(string, ...any) {}
func (program) Failed() bool        { return false }
func (program) Name() string        { return "holdfast" }

func (h *TB) Fail()                             { h.Error("failed") }
func (h *TB) FailNow()                          { h.Fatal("failed") }
func (h *TB) Error(args ...any)                 { h.note(errors.New(strings.TrimSpace(fmt.Sprintln(args...)))) }
func (h *TB) Errorf(format string, args ...any) { h.note(fmt.Errorf(format, args...)) }

// Fatal ends the goroutine, as that of a test does.
func (h *TB) Fatal(args ...any) {
	h.Error(args...)
	runtime.Goexit()
}

func (h *TB) Fatalf(format string, args ...any) {
	h.Errorf(format, args...)
	runtime.Goexit()
}

// Skipf fails in a program.
func (h *TB) Skipf(format string, args ...any) {
	if _, is := h.TB.(program); is {
		h.Fatalf(format, args...)
	}
	h.TB.Skipf(format, args...)
}

func (h *TB) Failed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.failures) > 0 || h.TB.Failed()
}

func (h *TB) Cleanup(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cleanups = append(h.cleanups, f)
}

func (h *TB) TempDir() string {
	dir, err := os.MkdirTemp("", "holdfast")
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (h *TB) note(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures = append(h.failures, err)
}

// Guard calls f on a goroutine, which Fatal may end, and waits for it.
func (h *TB) Guard(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// Err returns the failures.
func (h *TB) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return errors.Join(h.failures...)
}

// Close runs the cleanups, the latest first.
func (h *TB) Close() {
	for {
		h.mu.Lock()
		n := len(h.cleanups)
		if n == 0 {
			h.mu.Unlock()
			return
		}
		f := h.cleanups[n-1]
		h.cleanups = h.cleanups[:n-1]
		h.mu.Unlock()
		h.Guard(f)
	}
}
