//go:build unix

package examples

import (
	"net/http"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// One scheduler leads at a time: it hands over when it is interrupted, and is replaced when it is paused. What it ordered before is
// refused if it arrives late.
func TestSchedulersReplaceEachOther(t *testing.T) {
	s := server.Alone(t)
	worker := start(t, "scheduler", "-serve", "127.0.0.1:0")
	url := worker.url()
	candidate := func(ttl string) *process {
		return start(t, "scheduler", "-addr", s.Addr(), "-worker", url, "-every", "10ms", "-ttl", ttl)
	}
	// leads waits until a process leads and the worker hears of it, and returns the fence.
	leads := func(p *process) string {
		t.Helper()
		fence := p.says("leading, under fence ")
		worker.says("fence " + fence)
		return fence
	}

	first := candidate("10m") // after it, somebody leads soon only if it gives the lock back
	leads(first)
	second := candidate("5s")
	second.says("standing for election")
	first.interrupt()
	stale := leads(second)

	third := candidate("5s")
	third.says("standing for election")
	second.signal(syscall.SIGSTOP)
	leads(third)
	status, text := send(t, "POST", url+"/jobs/report", fence.HeaderFence, stale, fence.HeaderLock, "scheduler", fence.HeaderOwner, "late")
	if status != http.StatusPreconditionFailed {
		t.Errorf("a late order is answered %d: %s", status, text)
	}
	worker.says("refused: ")
	second.signal(syscall.SIGCONT)
	second.says("no longer leading")
	third.kill()
	second.interrupt()
	worker.interrupt()
}
