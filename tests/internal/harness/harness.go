// Package harness lets programs that are not tests use the tests' servers and proxies.
package harness

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
)

// TB is the testing.TB of servers and proxies in a program. It collects the failures that they report, which
// are the machine's and not the locks'.
type TB struct {
	testing.TB // nil: methods that TB lacks are not called

	mu       sync.Mutex
	trouble  []error
	cleanups []func()
}

// fatal is the panic with which Fatal leaves; Guard catches it.
type fatal struct{ error }

func (h *TB) Helper() {}

func (h *TB) Error(args ...any) { h.note(errors.New(fmt.Sprint(args...))) }

func (h *TB) Errorf(format string, args ...any) { h.note(fmt.Errorf(format, args...)) }

func (h *TB) Fatal(args ...any) { panic(fatal{errors.New(fmt.Sprint(args...))}) }

func (h *TB) Fatalf(format string, args ...any) { panic(fatal{fmt.Errorf(format, args...)}) }

func (h *TB) Skipf(format string, args ...any) { h.Fatalf(format, args...) }

func (h *TB) Log(...any) {}

func (h *TB) Logf(string, ...any) {}

func (h *TB) Failed() bool { return false }

func (h *TB) Name() string { return "holdfast" }

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
	h.trouble = append(h.trouble, err)
}

// Guard calls f and records a fatal failure that it reports.
func (h *TB) Guard(f func()) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case fatal:
			h.note(p.error)
		default:
			panic(p)
		}
	}()
	f()
}

// Err returns what was reported.
func (h *TB) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return errors.Join(h.trouble...)
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
