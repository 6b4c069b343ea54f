//go:build linux

package child

import (
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// A goroutine that ends while it is locked to its thread ends the thread, too, and so would kill a child forked
// there. That a child ends with its parent is shown by package server.
func TestChildOutlivesTheThreadThatAskedForIt(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		started <- Start(cmd)
	}()
	expect.OK(t, <-started)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		t.Errorf("the child ended with the thread: %v", err)
	case <-time.After(200 * time.Millisecond):
		_ = cmd.Process.Kill()
		<-ended
	}
}
