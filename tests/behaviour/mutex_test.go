package behaviour

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// asked returns how many scripts have run for locks. The others check a client's subscription, every 5 s, by PUBSUB NUMSUB.
func asked(s *server.Server) int64 {
	ran, checks := s.Scripts()
	return ran - checks
}

func TestAFreeLockCostsOneRoundTrip(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		l := c.Mutex("m")
		backend.Release(t, backend.Acquire(t, l)) // connects to the server, and loads the scripts
		settled(t, b, c)
		const cycles = 20
		var ran map[string]int64
		backend.Eventually(t, "cycles cost a request for each acquire and each release, if the machine does not stand still", func() bool {
			before, scripts := b.Server.CommandStats(), asked(b.Server)
			for range cycles {
				backend.Release(t, backend.Acquire(t, l))
			}
			ran = b.Server.CommandStats()
			for command := range ran {
				ran[command] -= before[command]
			}
			return asked(b.Server)-scripts+ran["exec"]+ran["delifeq"] == 2*cycles && ran["exec"] == cycles
		})
		if n := ran["delifeq"]; n != 0 && n != cycles {
			t.Errorf("%d DELIFEQ for %d cycles; want one for each release", n, cycles)
		}
		for _, command := range []string{"publish", "zadd", "subscribe"} {
			expect.Equal(t, command+" for cycles of a free lock", ran[command], 0)
		}
	})
}

// Each hand-over from client to client costs the same number of commands, however many clients wait.
//
// Bug: Waiting costs the server commands: the more wait, the more a turn takes.
func TestACrowdCostsNoMoreCommands(t *testing.T) {
	virtually(t, func(t *testing.T, b *backend.Backend) {
		for _, n := range []int{3, 50} {
			var locks []*holdfast.Lock
			var counts []func() int64
			for range n {
				c, count := b.Counted(t, nil)
				locks, counts = append(locks, c.Mutex(fmt.Sprint("m", n))), append(counts, count)
			}
			sent := func() (all int64) {
				for _, count := range counts {
					all += count()
				}
				return all
			}
			lease := backend.Acquire(t, locks[0])
			waiting := make([]<-chan *holdfast.Lease, n)
			for i, l := range locks[1:] {
				waiting[i+1] = queue(t, l, i+1)
			}
			const handovers = 150
			before := sent()
			for k := range handovers {
				backend.Release(t, lease)
				lease = backend.Receive(t, waiting[(k+1)%n])
				waiting[k%n] = backend.Start(t, locks[k%n])
				time.Sleep(time.Millisecond) // until it is queued
			}
			if cost := sent() - before; cost > 2*handovers+2 { // the first one may cost more
				t.Errorf("%d clients wait: %d commands for %d hand-overs, want two for each", n-1, cost, handovers)
			}
			for k := handovers; k < handovers+n-1; k++ {
				backend.Release(t, lease)
				lease = backend.Receive(t, waiting[(k+1)%n])
			}
			backend.Release(t, lease)
		}
	})
}
