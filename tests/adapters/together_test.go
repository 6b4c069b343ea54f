package adapters

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// count returns how often it has run with its key.
var count = driver.NewScript("test", "return 'run ' .. redis.call('INCR', KEYS[1])")

// outcome is what a driver reported of a call.
type outcome struct {
	reply string
	err   error
}

// evalAll makes a driver run calls at the same time, and returns their outcomes.
func evalAll(t *testing.T, ctx context.Context, d drivertest.Driver, calls []driver.Call) []outcome {
	t.Helper()
	all := make([]outcome, len(calls))
	var running sync.WaitGroup
	for i, call := range calls {
		running.Go(func() { all[i].reply, all[i].err = d.Run(ctx, call) })
	}
	running.Wait()
	return all
}

// counts returns calls of count with each of the keys.
func counts(keys []string) []driver.Call {
	var calls []driver.Call
	for _, key := range keys {
		calls = append(calls, driver.Call{Script: count, Keys: []string{key}})
	}
	return calls
}

// keysOf returns keys in slots of the n-th of three masters that share the slots in order.
func keysOf(n, many int) (all []string) {
	for i := 0; len(all) < many; i++ {
		key := fmt.Sprintf("{k%d}", i)
		if int(keys.Slot(key))*3/16384 == n {
			all = append(all, key)
		}
	}
	return all
}

// runs returns how often count has run with a key.
func runs(t *testing.T, s *server.Server, key string) string {
	t.Helper()
	n := expect.Of(s.Do("GET", key)).OK(t)
	if n == nil {
		return "0"
	}
	return fmt.Sprint(n)
}

// warm makes a driver reach the Cluster, in both of the ways that it may use.
func warm(t *testing.T, d drivertest.Driver) {
	t.Helper()
	t.Cleanup(func() { _ = d.Close() })
	for _, urgent := range []bool{false, true} {
		for n := range 3 {
			expect.OK(t, expect.ErrOf(d.Run(t.Context(), driver.Call{Script: count, Keys: []string{keysOf(n, 1)[0] + "warm"}, Urgent: urgent})))
		}
	}
}

// A driver knows the nodes of a Cluster before it runs a script.
func TestNodesOfACluster(t *testing.T) {
	soak.Nightly(t)
	each(t, func(t *testing.T, a adapter) {
		d := a.cluster(t, addrsOf(server.StartCluster(t, server.One(t), 3)), direct)
		t.Cleanup(func() { _ = d.Close() })
		expect.OK(t, expect.ErrOf(d.Probe(t.Context())))
		backend.Eventually(t, "the driver knows who has a key", func() bool { return d.Node("{k0}") != "" })
		seen := map[string]bool{}
		for n := range 3 {
			all := keysOf(n, 50)
			node := d.Node(all[0])
			if seen[node] || node == "" {
				t.Errorf("master %d is %q, as another", n, node)
			}
			seen[node] = true
			for _, key := range all {
				expect.Equal(t, "the node of "+key, d.Node(key), node)
			}
		}
	})
}

// Fault: A slot moves while scripts run, of which some wait for replicas. Each runs once, on the node to which its key has moved; those
// that wait are followed by WAIT there.
func TestRunDurablyWhileASlotMoves(t *testing.T) {
	soak.Nightly(t)
	each(t, func(t *testing.T, a adapter) {
		for _, bin := range server.Binaries(t) {
			t.Run(bin.Name, func(t *testing.T) {
				c := server.StartReplicatedCluster(t, bin, 3)
				d := a.cluster(t, c.Addrs(), direct)
				warm(t, d)
				want := driver.Durability{Replicas: 1, Timeout: 2 * time.Second}
				key := keysOf(0, 1)[0]
				expect.OK(t, expect.ErrOf(c.Nodes[0].Do("SET", key, "0")))
				m := c.StartMove(int(keys.Slot(key)), c.Nodes[1])
				for round := range 3 { // before its key has moved and after, with the script not loaded, and loaded
					reply, reached, err := d.RunDurably(t.Context(), driver.Call{Script: count, Keys: []string{key}}, want)
					if reply != fmt.Sprint("run ", 3*round+1) || reached.Replicas != 1 || err != nil {
						t.Errorf("round %d: %q, %+v, %v", round, reply, reached, err)
					}
					for i, urgent := range []bool{false, true} {
						reply, err := d.Run(t.Context(), driver.Call{Script: count, Keys: []string{key}, Urgent: urgent})
						if reply != fmt.Sprint("run ", 3*round+2+i) || err != nil {
							t.Errorf("round %d, urgent %v: %q, %v", round, urgent, reply, err)
						}
					}
					m.Key(key)
				}
				// If the keys are not all there, the new node says so, and runs nothing.
				var told driver.ReplyError
				if reply, _, err := d.RunDurably(t.Context(), driver.Call{Script: count, Keys: []string{key, key + "there"}}, want); !errors.As(err, &told) || !strings.HasPrefix(string(told), "TRYAGAIN") {
					t.Errorf("keys of which one is not there: %q, %v; want TRYAGAIN", reply, err)
				}
				m.Finish()
				backend.Eventually(t, "the driver finds the new owner", func() bool {
					reply, _, err := d.RunDurably(t.Context(), driver.Call{Script: count, Keys: []string{key}}, want)
					return err == nil && reply == "run 10"
				})
			})
		}
	})
}

// Fault: A slot moves to a node that has no slots yet, which the driver does not know. A script that waits for replicas runs there, too.
func TestRunDurablyOnANodeWithoutSlots(t *testing.T) {
	soak.Nightly(t)
	each(t, func(t *testing.T, a adapter) {
		bin := server.One(t)
		c := server.StartReplicatedCluster(t, bin, 3)
		empty := server.Start(t, bin, server.Conf("cluster-enabled", "yes"), server.Conf("cluster-announce-ip", "127.0.0.1"))
		d := a.cluster(t, c.Addrs(), direct)
		warm(t, d)
		key := keysOf(0, 1)[0]
		expect.OK(t, expect.ErrOf(c.Nodes[0].Do("SET", key, "0")))
		host, port, _ := net.SplitHostPort(empty.Addr())
		expect.OK(t, expect.ErrOf(c.Nodes[0].Do("CLUSTER", "MEET", host, port)))
		backend.Eventually(t, "the nodes know each other", func() bool {
			known := func(s *server.Server, other string) bool {
				nodes, err := s.Do("CLUSTER", "NODES")
				return err == nil && strings.Contains(fmt.Sprint(nodes), other+"@") && !strings.Contains(fmt.Sprint(nodes), "handshake")
			}
			state, _ := empty.Do("CLUSTER", "INFO")
			return known(c.Nodes[0], empty.Addr()) && known(empty, c.Nodes[0].Addr()) && strings.Contains(fmt.Sprint(state), "cluster_state:ok")
		})
		c.StartMove(int(keys.Slot(key)), empty).Key(key)
		for n := range 2 {
			call, want := driver.Call{Script: count, Keys: []string{key}}, driver.Durability{Timeout: time.Second}
			if reply, _, err := d.RunDurably(t.Context(), call, want); reply != fmt.Sprint("run ", n+1) || err != nil {
				t.Errorf("%q, %v", reply, err)
			}
		}
	})
}

// Fault: Of several scripts that run together one is not loaded, one fails, and some have keys that have moved
// or are about to. Each runs at most once, and each caller is told of its own.
func TestScriptsWhileSlotsMove(t *testing.T) {
	soak.Nightly(t)
	each(t, func(t *testing.T, a adapter) {
		for _, bin := range server.Binaries(t) {
			t.Run(bin.Name, func(t *testing.T) {
				c := server.StartReplicatedCluster(t, bin, 3)
				from, to := c.Nodes[0], c.Nodes[1]
				d := a.cluster(t, c.Addrs(), direct)
				warm(t, d)
				const unloaded, wrong, asked, divided = 1, 3, 6, 8
				moved := []int{4, 5} // another one before each round, of which the driver cannot know yet
				all := keysOf(0, 12)
				slot := func(i int) int { return int(keys.Slot(all[i])) }
				c.StartMove(slot(asked), to)
				expect.OK(t, expect.ErrOf(from.Do("SET", all[divided]+"here", "0")))
				c.StartMove(slot(divided), to)
				var refused int64
				for round := range 2 {
					c.StartMove(slot(moved[round]), to).Finish()
					calls := counts(all)
					calls[unloaded].Script = driver.NewScript("test", count.Source+fmt.Sprintf(" .. '' -- %d", round))
					calls[wrong].Script = driver.NewScript("test", "return redis.error_reply('WRONGTYPE by hand')")
					calls[divided].Keys = []string{all[divided] + "here", all[divided]}
					before := from.Rejections()["evalsha"]
					for i, got := range evalAll(t, t.Context(), d, calls) {
						var reply driver.ReplyError
						told := errors.As(got.err, &reply)
						switch i {
						case wrong:
							if !told || !strings.HasPrefix(string(reply), "WRONGTYPE") {
								t.Errorf("round %d: a script's error is %q, %v", round, got.reply, got.err)
							}
						case divided:
							if !told || !strings.HasPrefix(string(reply), "TRYAGAIN") {
								t.Errorf("round %d: of keys that are not all there is told %q, %v", round, got.reply, got.err)
							}
						default:
							if want := fmt.Sprint("run ", round+1); got.reply != want || got.err != nil {
								t.Errorf("round %d: call %d: %q, %v; want %q", round, i, got.reply, got.err, want)
							}
						}
					}
					n := from.Rejections()["evalsha"] - before
					expect.AtLeast(t, fmt.Sprintf("round %d: scripts that were refused", round), n, 2)
					refused += n
				}
				// A driver that refreshes the slots by itself may know of a slot that has moved, but not of both.
				expect.AtLeast(t, "scripts were refused", refused, 5)
				expect.Equal(t, "runs of a script whose keys are not all there", runs(t, from, all[divided]+"here"), "0")
			})
		}
	})
}

// Fault: A connection breaks while many scripts are on it. Each ran at most once, and every caller is told.
func TestScriptsOnAConnectionThatBreaks(t *testing.T) {
	soak.Nightly(t)
	each(t, func(t *testing.T, a adapter) {
		for name, after := range map[string]proxy.After{"cut": proxy.Cut, "hangs": proxy.Hang} {
			t.Run(name, func(t *testing.T) {
				nodes := server.StartCluster(t, server.One(t), 3)
				p := proxy.New(t, nodes[0].Addr())
				d := a.cluster(t, addrsOf(nodes), through(p, nodes[0]))
				warm(t, d)
				all := keysOf(0, 12)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				trap := p.LoseReply(proxy.Containing("evalsha", all[5]), after)
				began := time.Now()
				told := evalAll(t, ctx, d, counts(all))
				if took := time.Since(began); took > 12*time.Second+machine.HeldUp(began) {
					t.Errorf("it took %s\n%s", took, machine.Report(began))
				}
				trap.Wait(t)
				lost := 0
				for i, got := range told {
					n := runs(t, nodes[0], all[i])
					switch {
					case got.err == nil && (got.reply != "run 1" || n != "1"):
						t.Errorf("call %d ran %s times, and is answered %q", i, n, got.reply)
					case n != "0" && n != "1":
						t.Errorf("call %d ran %s times", i, n)
					case errors.Is(got.err, driver.ErrNotSent):
						t.Errorf("call %d is said not to be sent: %v", i, got.err)
					case i == 5 && got.err == nil:
						t.Errorf("the call whose reply was lost is answered %q", got.reply)
					}
					if n == "1" && got.err != nil {
						lost++
					}
				}
				if lost == 0 {
					t.Error("no script ran whose reply was lost")
				}
			})
		}
	})
}

// through makes connections to one of several servers go through a proxy.
func through(p *proxy.Proxy, s *server.Server) wires {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		if addr == s.Addr() {
			addr = p.Addr()
		}
		return direct(ctx, addr)
	}
}

// Fault: Scripts find no connection. Their callers are told that they were not sent.
func TestScriptsWithoutAConnection(t *testing.T) {
	soak.Nightly(t)
	each(t, func(t *testing.T, a adapter) {
		nodes := server.StartCluster(t, server.One(t), 3)
		p := proxy.New(t, nodes[0].Addr())
		var away atomic.Bool
		dial := through(p, nodes[0])
		d := a.cluster(t, addrsOf(nodes), func(ctx context.Context, addr string) (net.Conn, error) {
			if away.Load() && addr == nodes[0].Addr() {
				return nil, &net.OpError{Op: "dial", Err: errors.New("by hand")}
			}
			return dial(ctx, addr)
		})
		warm(t, d)
		away.Store(true)
		p.Cut()
		all := keysOf(0, 5)
		backend.Eventually(t, "all are said not to be sent", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			unsent := 0
			for _, got := range evalAll(t, ctx, d, counts(all)) {
				if got.err == nil {
					t.Fatalf("answered %q", got.reply)
				}
				if errors.Is(got.err, driver.ErrNotSent) {
					unsent++
				}
			}
			return unsent == len(all)
		})
		for _, key := range all {
			expect.Equal(t, key+": runs of a script that was not sent", runs(t, nodes[0], key), "0")
		}
	})
}

// Fault: A server rejects the credentials of many scripts. All are refused.
func TestScriptsWithAWrongPassword(t *testing.T) {
	s := server.Alone(t)
	d := goRedis(t, redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "nobody", Password: "wrong"}))
	t.Cleanup(func() { _ = d.Close() })
	for i, got := range evalAll(t, t.Context(), d, counts(keysOf(0, 3))) {
		var reply driver.ReplyError
		if !errors.As(got.err, &reply) || !strings.HasPrefix(string(reply), "WRONGPASS") {
			t.Errorf("call %d: %q, %#v", i, got.reply, got.err)
		}
	}
}

// Fault: One master of a Cluster does not answer for minutes. Locks of the others are acquired and released meanwhile.
func TestMasterThatHangsHoldsUpNoOther(t *testing.T) {
	soak.Nightly(t)
	each(t, func(t *testing.T, a adapter) {
		nodes := server.StartCluster(t, server.One(t), 3)
		c, err := holdfast.New(a.cluster(t, addrsOf(nodes), direct), &holdfast.Config{CommandTimeout: 5 * time.Minute, RetryTimeout: 5 * time.Minute})
		expect.OK(t, err)
		backend.CloseWith(t, c)
		const each = 100
		var locks [3][]*holdfast.Lock
		for i := 0; len(locks[0]) < each || len(locks[1]) < each || len(locks[2]) < each; i++ {
			name := fmt.Sprint("job-", i)
			n := int(keys.Slot("holdfast:{"+name+"}")) * 3 / 16384
			locks[n] = append(locks[n], c.Mutex(name))
		}
		// cycle acquires and releases every lock that many times, all at once, and counts the cycles.
		cycle := func(times int, counted *atomic.Int64, some ...[]*holdfast.Lock) {
			var all sync.WaitGroup
			for _, l := range slices.Concat(some...) {
				all.Go(func() {
					for range times {
						lease, err := l.Acquire(t.Context())
						if err == nil {
							err = lease.Release(t.Context())
						}
						if err != nil {
							t.Errorf("%s: %v", l.Name(), err)
							return
						}
						counted.Add(1)
					}
				})
			}
			all.Wait()
		}
		var warm, hung, free atomic.Int64
		cycle(1, &warm, locks[0][:each], locks[1][:each], locks[2][:each]) // it knows the masters
		before := time.Now()
		cycle(10, &warm, locks[1][:each], locks[2][:each])
		usual := time.Since(before)
		nodes[0].Pause()
		var waiting sync.WaitGroup
		waiting.Go(func() { cycle(1, &hung, locks[0][:each]) })
		began, done := time.Now(), make(chan struct{})
		go func() {
			defer close(done)
			cycle(10, &free, locks[1][:each], locks[2][:each])
		}()
		select {
		case <-done:
			// If each of the ten were held up for a second, that would show.
			if took := time.Since(began); took > 5*usual+5*time.Second+2*machine.HeldUp(began) {
				t.Errorf("the cycles with the other masters took %v, and %v before\n%s", took, usual, machine.Report(began))
			}
		case <-time.After(time.Minute):
			t.Errorf("%d of %d cycles with the other masters, after a minute\n%s", free.Load(), 2*10*each, machine.Report(began))
		}
		expect.Equal(t, "cycles with a master that is stopped", hung.Load(), 0)
		nodes[0].Resume()
		waiting.Wait()
		<-done
	})
}

// If no node was ever reached, there is none to send the scripts to, and each caller is told so.
func TestScriptsOfAClusterThatWasNeverReached(t *testing.T) {
	t.Parallel()
	const nobody = "127.0.0.1:1"
	for name, a := range adapters {
		t.Run(name, func(t *testing.T) {
			d := a(t, options{addrs: []string{nobody}, isCluster: true})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			for i, told := range evalAll(t, ctx, d, counts([]string{"{a}1", "{a}2"})) {
				expect.Fails(t, fmt.Sprintf("call %d: %q", i, told.reply), told.err)
			}
			expect.Equal(t, "the key is with", d.Node("{a}1"), "")
			expect.Err(t, "Close", d.Close(), nil)
		})
	}
}
