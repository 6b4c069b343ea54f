package campaign

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/harness"
	"github.com/holdfast-go/holdfast/tests/internal/history"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/resp"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Scene is what a fault can reach: the history under way and, of several servers, one.
type Scene struct {
	ctx     context.Context // ends when the history is given up
	random  *rand.Rand
	plan    *Plan
	server  *server.Server
	clock   Clock       // nil without one
	turns   *sync.Mutex // held while a process is paused or ended
	power   *sync.Mutex // held while the server is paused or ended; the same as turns if there is only one server
	harness *harness.TB
	proxies []*proxy.Proxy // in front of the server, one for each process
	cast    *cast
	strange *strangers
	strikes *atomic.Int64
}

// struck records that the fault has happened.
func (s *Scene) struck() { s.strikes.Add(1) }

// sleep waits for d, or until the history is given up.
func (s *Scene) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
	}
}

func (s *Scene) between(low, high time.Duration) time.Duration {
	return low + time.Duration(s.random.Int64N(int64(max(high-low, 1))))
}

// do sends the server a command that is the fault. The other fault of the pair may make it fail.
func (s *Scene) do(args ...any) {
	if _, err := s.server.Do(args...); err == nil {
		s.struck()
	}
}

// undo sends a command that ends the fault until the server accepts it: the other fault of the pair may be in
// the way.
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

// links returns the connections of some processes to the server: of one, or of all.
func (s *Scene) links() []*proxy.Proxy {
	if s.random.IntN(2) == 0 {
		return s.proxies
	}
	i := s.random.IntN(len(s.proxies))
	return s.proxies[i : i+1]
}

// link returns the connection of one process to the server.
func (s *Scene) link() *proxy.Proxy { return s.proxies[s.random.IntN(len(s.proxies))] }

// requests match what acquires, renews or releases a lock: scripts, transactions, and DELIFEQ. The pipe writes command names in upper
// case, client libraries in lower case.
var requests = []proxy.Match{proxy.Containing("evalsha"), proxy.Containing("EVAL"), proxy.Containing("MULTI"), proxy.Containing("DELIFEQ"), proxy.Containing("delifeq")}

// request returns a match for one of the next few such requests.
func (s *Scene) request() proxy.Match {
	skip := s.random.IntN(4) // not always the first
	return func(request []byte) bool {
		if !slices.ContainsFunc(requests, func(is proxy.Match) bool { return is(request) }) {
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

// admin returns a connection for several commands, or nil if the server accepts none now.
func (s *Scene) admin() *resp.Conn {
	c, err := s.server.Dial()
	if err != nil {
		return nil
	}
	return c
}

// appendOnly returns the folder of the server's log of writes.
func (s *Scene) appendOnly() string { return filepath.Join(s.server.Dir(), "appendonlydir") }

// exchange replaces the log of a server that has ended with a copy, or with nothing.
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

// strangers are programs that lock with SET NX PX and release with a script that
// compares and deletes. Their events have process 0 and no fence.
type strangers struct {
	mu     sync.Mutex
	events []history.Event
}

const compareAndDelete = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"

// poll makes a stranger try to hold a lock, again and again for a while.
func (g *strangers) poll(s *Scene, n *Name) {
	c := s.admin()
	if c == nil {
		return
	}
	defer c.Close()
	ttl := s.plan.ShortTTL
	end := time.Now().Add(4 * s.aWhile())
	for i := 0; time.Now().Before(end); i++ {
		token := fmt.Sprint("stranger ", i, " ", s.random.Uint64())
		asked := history.Now()
		reply, err := c.Do("SET", n.Key, token, "NX", "PX", ttl.Milliseconds())
		granted := history.Now()
		if err != nil {
			return
		}
		if reply == nil {
			s.sleep(s.between(time.Millisecond, 10*time.Millisecond))
			continue
		}
		s.struck()
		deadline := asked + int64(ttl-ttl/100-2*time.Millisecond)
		s.sleep(s.between(0, 4*time.Millisecond))
		released := history.Now()
		g.add(history.Event{Name: n.Name, Asked: asked, Granted: granted, Released: released, Deadline: deadline})
		if s.random.IntN(8) == 0 {
			continue // it crashes, and its lock expires
		}
		if _, err := c.Do("EVAL", compareAndDelete, 1, n.Key, token); err != nil {
			return
		}
	}
}

func (g *strangers) add(e history.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e.ID = uint64(len(g.events))
	g.events = append(g.events, e)
}
