// Package clockshim starts servers whose wall clock the test can move while they run. It works on Linux only,
// and needs a C compiler; elsewhere it skips the tests that use it.
package clockshim

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

//go:embed preload/clock.c
var source []byte

// lookInterval is how long a server may go without reading the clock: Valkey 9.1 adds monotonic time to its
// latest reading for that long.
const lookInterval = time.Millisecond

// Clock is the wall clock of a server.
type Clock struct {
	tb      testing.TB
	library string
	file    string
	offset  time.Duration
}

// New returns a clock that shows the right time. It skips the test if the server's clock cannot be moved.
func New(tb testing.TB) *Clock {
	tb.Helper()
	if err := Available(); err != nil {
		tb.Skipf("SKIPPED: %v", err)
	}
	library := expect.Of(compiled()).OK(tb)
	dir := tb.TempDir()
	c := &Clock{tb: tb, library: filepath.Join(dir, "clock.so"), file: filepath.Join(dir, "settings")}
	expect.OK(tb, os.WriteFile(c.library, library, 0o700))
	c.set(0, 0)
	return c
}

// Available returns nil if a server's clock can be moved, or the reason why it cannot.
func Available() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("a server's clock is moved by LD_PRELOAD, on Linux; this is %s", runtime.GOOS)
	}
	if _, err := exec.LookPath("cc"); err != nil {
		return fmt.Errorf("a server's clock is moved by a library that a C compiler makes: %w", err)
	}
	return nil
}

// Option makes a server use this clock.
func (c *Clock) Option() server.Option {
	return func(s *server.Server) {
		server.Env("LD_PRELOAD", c.library)(s)
		server.Env("HOLDFAST_CLOCK", c.file)(s)
	}
}

// Jump moves the clock by d. The server has read it when Jump returns.
func (c *Clock) Jump(d time.Duration) {
	c.offset += d
	c.set(c.offset, 0)
}

// JumpAtEveryLook moves the clock by d whenever the server reads it, which some servers do at most once a
// millisecond. The next Jump ends that, and counts from the offset before these moves.
func (c *Clock) JumpAtEveryLook(d time.Duration) {
	c.set(c.offset, d)
}

func (c *Clock) set(offset, step time.Duration) {
	c.tb.Helper()
	settings := binary.NativeEndian.AppendUint64(nil, uint64(offset.Microseconds()))
	settings = binary.NativeEndian.AppendUint64(settings, uint64(step.Microseconds()))
	f, err := os.OpenFile(c.file, os.O_WRONLY|os.O_CREATE, 0o600) // not truncated: a server has it mapped
	if err == nil {
		_, err = f.Write(settings)
		err = errors.Join(err, f.Close())
	}
	expect.OK(c.tb, err)
	time.Sleep(2 * lookInterval)
}

// compiled returns the library that is preloaded. It is compiled once in each process.
var compiled = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "clockshim")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	input, output := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(input, source, 0o600); err != nil {
		return nil, err
	}
	out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", output, input).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("cc: %w: %s", err, out)
	}
	return os.ReadFile(output)
})
