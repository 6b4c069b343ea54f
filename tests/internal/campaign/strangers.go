package campaign

import (
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/history"
)

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
