package campaign

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
)

// harness is the testing.TB of servers and proxies in a campaign, which is no test. It
// collects what they report: trouble of the machine, not of the locks.
type harness struct {
	testing.TB // nil: what is not implemented here is not used

	mu       sync.Mutex
	trouble  []error
	cleanups []func()
}

// fatal is the panic with which Fatal leaves; guard catches it.
type fatal struct{ error }

func (h *harness) Helper() {}

func (h *harness) Error(args ...any) { h.note(errors.New(fmt.Sprint(args...))) }

func (h *harness) Errorf(format string, args ...any) { h.note(fmt.Errorf(format, args...)) }

func (h *harness) Fatal(args ...any) { panic(fatal{errors.New(fmt.Sprint(args...))}) }

func (h *harness) Fatalf(format string, args ...any) { panic(fatal{fmt.Errorf(format, args...)}) }

func (h *harness) Skipf(format string, args ...any) { h.Fatalf(format, args...) }

func (h *harness) Log(...any) {}

func (h *harness) Logf(string, ...any) {}

func (h *harness) Failed() bool { return false }

func (h *harness) Name() string { return "campaign" }

func (h *harness) Cleanup(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cleanups = append(h.cleanups, f)
}

func (h *harness) TempDir() string {
	dir, err := os.MkdirTemp("", "campaign")
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (h *harness) note(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trouble = append(h.trouble, err)
}

// guard calls f and notes what it reports as fatal.
func (h *harness) guard(f func()) {
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

// err returns what was reported.
func (h *harness) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return errors.Join(h.trouble...)
}

// close runs the cleanups, the latest first.
func (h *harness) close() {
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
		h.guard(f)
	}
}
