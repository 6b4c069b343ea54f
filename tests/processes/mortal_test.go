//go:build unix

package processes

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/child"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// mortal is a worker that wants the lock "a" once, and says "PID granted FENCE" and,
// 5 ms later, "PID released FENCE".
//
//	mortal ADDR TTL
func mortal(args []string) {
	ttl, err := time.ParseDuration(args[1])
	must(err)
	machine.EndWatch() // a thousand of them would leave no time for anything else
	c := dial(args[0])
	lease, err := c.Mutex("a", holdfast.TTL(ttl)).Acquire(context.Background())
	for errors.Is(err, holdfast.ErrUnavailable) { // for so many at once
		lease, err = c.Mutex("a", holdfast.TTL(ttl)).Acquire(context.Background())
	}
	must(err)
	machine.Watch()
	granted := time.Now()
	fmt.Println(os.Getpid(), "granted", lease.Fence())
	time.Sleep(5 * time.Millisecond)
	// On a busy machine an answer may be late, and on one that stood still a claim may be over before its
	// renewal.
	if err := lease.Release(context.Background()); !excused(err, lease, granted) {
		must(err)
	}
	fmt.Println(os.Getpid(), "released", lease.Fence())
	must(c.Close(context.Background()))
}

// crowd is processes that use one lock.
type crowd struct {
	members []*exec.Cmd
	number  map[int]int   // of a member in members, by pid
	said    <-chan saying // by any of them
}

// saying is a line of one of them: "PID WORD NUMBER".
type saying struct {
	pid    int
	word   string
	number uint64
}

// gather starts n mortals.
func gather(t *testing.T, program string, n int, args ...string) *crowd {
	t.Helper()
	out, in, err := os.Pipe() // one for all: a line is written at once
	expect.OK(t, err)
	defer in.Close()
	said := make(chan saying, 2*n)
	c := &crowd{number: map[int]int{}, said: said}
	t.Cleanup(func() {
		for i := range c.members {
			c.kill(i)
			_ = c.members[i].Wait()
		}
		out.Close()
	})
	for range n {
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), roleVariable+"=mortal", "GOMAXPROCS=1", "GORACE=atexit_sleep_ms=0")
		cmd.Stdout, cmd.Stderr = in, os.Stderr
		expect.OK(t, child.Start(cmd))
		c.members = append(c.members, cmd)
		c.number[cmd.Process.Pid] = len(c.members) - 1
	}
	go func() {
		defer close(said)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var s saying
			if _, err := fmt.Sscan(lines.Text(), &s.pid, &s.word, &s.number); err != nil {
				t.Errorf("a worker says %q", lines.Text())
			}
			said <- s
		}
	}()
	return c
}

func (c *crowd) kill(i int) { _ = c.members[i].Process.Kill() }

// queue returns the members in the server's queue, in order.
func (c *crowd) queue(t *testing.T, b *backend.Backend) (order []int) {
	t.Helper()
	reply := expect.Of(b.Server.Do("ZRANGEBYSCORE", "holdfast:{a}:q", 0, "+inf")).OK(t)
	for _, member := range reply.([]any) {
		parts := strings.SplitN(member.(string), "\n", 4)
		var info struct {
			PID int `json:"p"`
		}
		if err := json.Unmarshal([]byte(parts[len(parts)-1]), &info); err != nil {
			t.Fatalf("%q: %v", member, err)
		}
		order = append(order, c.number[info.PID])
	}
	return order
}

// light builds this test without the race detector, which takes 16 MB in each process.
func light(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "mortal")
	if out, err := exec.Command("go", "test", "-c", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}
	return program
}

// Fault: A crowd of processes wants one lock, and half of it is killed on the way to the queue, in it, when its turn
// comes or with the lock. The other half gets the lock in the order of the queue.
//
// Bug: A dead head of the queue stalls those behind it.
func TestACrowdThatDies(t *testing.T) {
	program, each := os.Args[0], backend.EachReal // it mostly waits for leases of the dead to end
	if soak.Long() {
		program, each = light(t), backend.EachRealInTurn
	}
	each(t, func(t *testing.T, b *backend.Backend) {
		size := 20
		switch {
		case soak.Long():
			size = 1000
		case b.Name == server.One(t).Name:
			size = 100
		}
		const ttl = 2 * time.Second
		fate := rand.Perm(size)
		early := func(i int) bool { return fate[i] < size/8 }
		survives := func(i int) bool { return fate[i] >= size/2 }

		blocker := backend.Acquire(t, b.Client(t, nil).Mutex("a", holdfast.TTL(time.Minute)))
		begun := time.Now()
		c := gather(t, program, size, b.Server.Addr(), ttl.String())
		for i := range size {
			if early(i) {
				time.AfterFunc(rand.N(300*time.Millisecond), func() { c.kill(i) })
			}
		}
		var order []int
		for present := map[int]bool{}; ; time.Sleep(20 * time.Millisecond) {
			order = c.queue(t, b)
			for _, i := range order {
				present[i] = true
			}
			missing := 0
			for i := range size {
				if !present[i] && !early(i) {
					missing++
				}
			}
			if missing == 0 {
				break
			}
			if time.Since(begun) > 5*time.Minute {
				t.Fatalf("%d of %d processes are not in the queue\n%s", missing, size, machine.Report(begun))
			}
		}
		gathered := time.Since(begun)

		// The others die at some time before their turn, or around it. A few die while they have the lock.
		// Those behind these live: if both died, nobody would look for up to 36 s, for which only a soak has
		// time.
		holders := 1 + size/200
		deaths := map[int][]int{} // by the number of grants so far
		holding := map[int]bool{}
		place := map[int]int{}
		for p, i := range order {
			place[i] = p
			switch {
			case survives(i) || early(i):
			case len(holding) < holders && p+1 < len(order) && survives(order[p+1]):
				holding[i] = true
			default:
				last := p / 3
				if soak.Long() {
					last = p
				}
				n := 1 + rand.IntN(last+1)
				deaths[n] = append(deaths[n], i)
			}
		}
		begun = time.Now()
		backend.Release(t, blocker)
		grants, killed, left := 0, 0, size-size/2
		for last, before := blocker.Fence(), -1; left > 0; {
			var s saying
			var ok bool
			select {
			case s, ok = <-c.said:
				if !ok {
					t.Fatalf("all have ended, and %d survivors were not served", left)
				}
			case <-time.After(2 * time.Minute):
				t.Fatalf("%d survivors wait for two minutes after %d grants\n%s", left, grants, machine.Report(begun))
			}
			i := c.number[s.pid]
			if s.word == "released" {
				if survives(i) {
					left--
				}
				continue
			}
			grants++
			expect.Rises(t, last, s.number)
			if place[i] <= before {
				t.Errorf("the process in place %d is served after that in place %d", place[i], before)
			}
			last, before = s.number, place[i]
			if holding[i] {
				deaths[grants] = append(deaths[grants], i)
			}
			for _, victim := range deaths[grants] {
				c.kill(victim)
				killed++
			}
		}
		t.Logf("%d processes, in the queue after %s: %d killed before, %d after; %d granted in %s; all %d survivors were served, in order",
			size, gathered.Round(time.Millisecond), size/8, killed, grants, time.Since(begun).Round(time.Millisecond), size-size/2)
		for i, cmd := range c.members {
			if !survives(i) {
				c.kill(i)
			}
			if err := cmd.Wait(); err != nil && survives(i) {
				t.Errorf("process %d: %v", i, err)
			}
		}
		// The last of those killed may have left a lock, and nobody to look at the queue.
		rdb, newcomer := b.Redis(t), b.Client(t, nil).Mutex("a")
		backend.Eventually(t, "a newcomer gets the lock", func() bool {
			lease, err := newcomer.TryAcquire(t.Context())
			return err == nil && lease.Release(t.Context()) == nil
		})
		// A tombstone is left if an answer was not heard.
		if rdb.Exists(t.Context(), "holdfast:{a}").Val() != 0 || rdb.ZCount(t.Context(), "holdfast:{a}:q", "0", "+inf").Val() != 0 {
			t.Error("the lock or waiters are left")
		}
		backend.Eventually(t, "nothing is left of the queue", func() bool {
			return rdb.Exists(t.Context(), "holdfast:{a}", "holdfast:{a}:q").Val() == 0
		})
		backend.Eventually(t, "the subscriptions are gone", func() bool {
			return len(backend.Channels(t, rdb)) == 0
		})
	})
}
