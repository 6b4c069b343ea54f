package campaign

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/harness"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/resp"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Scene is what a fault can reach: the history that is going on. Of several servers, one.
type Scene struct {
	ctx     context.Context // ends when the history is given up
	random  *rand.Rand
	plan    *Plan
	server  *server.Server
	clock   Clock       // nil without one
	turns   *sync.Mutex // held by whoever pauses or ends a process
	power   *sync.Mutex // held by whoever pauses or ends the server; the same, where it is the only one
	harness *harness.TB
	proxies []*proxy.Proxy // before the server, one for each process
	cast    *cast
	strange *strangers
	strikes *atomic.Int64
}

// struck notes that the fault has come about.
func (s *Scene) struck() { s.strikes.Add(1) }

// sleep waits, unless the history is given up.
func (s *Scene) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
	}
}

func (s *Scene) between(low, high time.Duration) time.Duration {
	return low + time.Duration(s.random.Int64N(int64(max(high-low, 1))))
}

// do sends a command that is the fault to the server. The other fault of the pair may
// have ended that.
func (s *Scene) do(args ...any) {
	if _, err := s.server.Do(args...); err == nil {
		s.struck()
	}
}

// undo sends a command that ends the fault, until the server takes it: the other fault
// of the pair may be in the way.
func (s *Scene) undo(args ...any) {
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		_, err := s.server.Do(args...)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			s.harness.Fatalf("%v: %v", args, err)
		}
	}
}

// set changes a setting of the server for a while.
func (s *Scene) set(d time.Duration, name, value, usual string) {
	s.do("CONFIG", "SET", name, value)
	s.sleep(d)
	s.undo("CONFIG", "SET", name, usual)
}

// links are the ways of some processes to the server: of one, or of all.
func (s *Scene) links() []*proxy.Proxy {
	if s.random.IntN(2) == 0 {
		return s.proxies
	}
	i := s.random.IntN(len(s.proxies))
	return s.proxies[i : i+1]
}

// link is the way of one process to the server.
func (s *Scene) link() *proxy.Proxy { return s.proxies[s.random.IntN(len(s.proxies))] }

// script matches one of the next scripts that are sent, or a command that stands in for one.
func (s *Scene) script() proxy.Match {
	skip := s.random.IntN(4) // not always the first
	evalsha, delifeq := proxy.Containing("evalsha"), proxy.Containing("delifeq")
	return func(request []byte) bool {
		if !evalsha(request) && !delifeq(request) {
			return false
		}
		if skip--; skip >= 0 {
			return false
		}
		s.struck()
		return true
	}
}

func (s *Scene) after() proxy.After {
	if s.random.IntN(2) == 0 {
		return proxy.Hang
	}
	return proxy.Cut
}

// lock chooses one of the locks.
func (s *Scene) lock() *Name { return &s.plan.Names[s.random.IntN(len(s.plan.Names))] }

// admin returns a connection for several commands, or nil if the server has none now.
func (s *Scene) admin() *resp.Conn {
	c, err := s.server.Dial()
	if err != nil {
		return nil
	}
	return c
}

// appendOnly is the folder of the server's log of writes.
func (s *Scene) appendOnly() string { return filepath.Join(s.server.Dir(), "appendonlydir") }

// exchange replaces the log of a server that has ended: by a copy, or by nothing.
func (s *Scene) exchange(copied string) {
	if err := os.RemoveAll(s.appendOnly()); err != nil {
		s.harness.Error(err)
	}
	if copied == "" {
		return
	}
	if err := os.CopyFS(s.appendOnly(), os.DirFS(copied)); err != nil {
		s.harness.Error(err)
	}
}
