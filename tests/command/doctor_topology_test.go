package command

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/inputs"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/resp"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// The doctor examines a master and its replica, reached in each way that a program may use.
func TestDoctorOfReplication(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		master := b.Server
		replica := server.StartReplica(t, master.Binary(), master)
		doctor(t, "redis://"+replica.Addr(), func(d *diagnosis) {
			d.expect("replication", isProblem, "replica of "+master.Addr())
			d.expect("trial", isProblem, "read-only")
		})
		url := "redis://" + master.Addr()
		doctor(t, url, func(d *diagnosis) {
			d.expect("replication", isWarning, "master with 1 replica, min-replicas-to-write 0")
		})
		order(t, master, "CONFIG", "SET", "min-replicas-to-write", "1")
		doctor(t, url, func(d *diagnosis) {
			d.expect("replication", isOK, "master with 1 replica, min-replicas-to-write 1")
		})
		order(t, master, "CONFIG", "SET", "min-replicas-max-lag", "60")
		doctor(t, url, func(d *diagnosis) { d.expect("replication", isNote, "min-replicas-max-lag 60") }, "--ttl", "15s")
		order(t, master, "CONFIG", "SET", "min-replicas-to-write", "2")
		doctor(t, url, func(d *diagnosis) {
			d.expect("replication", isProblem, "1 of them in time; min-replicas-to-write 2")
			d.expect("trial", isProblem, "NOREPLICAS")
		})
		server.StartReplica(t, master.Binary(), master)
		order(t, master, "CONFIG", "SET", "min-replicas-to-write", "1", "min-replicas-max-lag", "10")
		doctor(t, url, func(d *diagnosis) {
			d.expect("replication", isNote, "master with 2 replicas, min-replicas-to-write 1")
		})
	})
}

// The doctor examines every master, and names the one on which it found something.
func TestDoctorOfACluster(t *testing.T) {
	long(t)
	bin := server.One(t)
	nodes := server.StartCluster(t, bin, 3, server.Conf("cluster-require-full-coverage", "no"))
	order(t, nodes[1], "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "volatile-ttl")
	doctor(t, "redis+cluster://"+nodes[0].Addr(), func(d *diagnosis) {
		d.on(d.expect("eviction", isProblem, "volatile-ttl"), nodes[1].Addr())
		if d.Mode != "cluster" || len(d.Servers) != 3 {
			d.complain("%s, %q", d.Mode, d.Servers)
		}
		if f := d.expect("replication", isWarning, "master with 0 replicas"); len(f.Servers) != 3 {
			d.complain("no replicas: found on %q", f.Servers)
		}
		d.expect("topology", isOK, "3 masters, 0 replicas, all slots served")
		d.expect("acl", isOK, "")
		passed := map[string]int{}
		for _, f := range d.Findings {
			if f.Severity == isOK {
				passed[f.ID] += len(f.Servers)
			}
		}
		for _, id := range []string{"trial", "pubsub", "latency", "clock"} {
			if passed[id] != 3 {
				d.complain("%s: good on %d of 3 servers", id, passed[id])
			}
		}
		lock := func(key string) bool { return !strings.HasPrefix(key, "holdfast:f{") } // fence counters stay
		if all := left(t, nodes...); slices.ContainsFunc(all, lock) {
			d.complain("left behind: %q", all)
		}
	})

	// In a Cluster, cluster-node-timeout decides how soon a master is replaced.
	c := server.StartReplicatedCluster(t, bin, 3)
	c.Patience(30 * time.Second)
	doctor(t, "redis+cluster://"+c.Addrs()[0], func(d *diagnosis) {
		f := d.expect("failover", isWarning, "cluster-node-timeout 30000, TTL 15s")
		for _, want := range []string{"a TTL of 52.5s would do", "on each node, CONFIG SET cluster-node-timeout 5000"} {
			if !strings.Contains(f.Remedy, want) {
				d.complain("the remedy is %q", f.Remedy)
			}
		}
	}, "--ttl", "15s")

	// Here it is reached as if it were a single server.
	doctor(t, "redis://"+nodes[0].Addr(), func(d *diagnosis) { d.expect("topology", isProblem, "part of a Cluster") })
}

// A master is down, and no other has its slots.
func TestDoctorOfAClusterWithAHole(t *testing.T) {
	long(t)
	nodes := server.StartCluster(t, server.One(t), 3)
	nodes[2].Kill()
	others := nodes[:2]
	for _, s := range others {
		order(t, s, "CONFIG", "SET", "cluster-node-timeout", "500")
	}
	all := func(field string) func() bool {
		return func() bool {
			return !slices.ContainsFunc(others, func(s *server.Server) bool {
				text, err := s.Do("CLUSTER", "INFO")
				return err != nil || !strings.Contains(text.(string), field+"\r\n")
			})
		}
	}
	backend.Eventually(t, "the others agree that it failed", all("cluster_slots_fail:5462"))
	for _, s := range others { // if the machine stands still, they must not consider each other failed
		order(t, s, "CONFIG", "SET", "cluster-node-timeout", "60000")
	}
	backend.Eventually(t, "the others do without it", func() bool { return all("cluster_state:fail")() && all("cluster_slots_ok:10922")() })
	doctor(t, "redis+cluster://"+nodes[0].Addr(), func(d *diagnosis) {
		d.expect("topology", isProblem, "cluster_state fail, 10922 of 16384 slots served")
		d.on(d.expect("topology", isWarning, "cannot be reached"), nodes[2].Addr())
		d.expect("trial", isProblem, "")
	})
}

// The doctor examines a master and a replica behind a sentinel.
func TestDoctorBehindASentinel(t *testing.T) {
	long(t)
	g := server.StartSentinels(t, server.One(t), 1, 1)
	// A stall of the machine must not cause a failover here.
	order(t, g.Watchers[0], "SENTINEL", "SET", g.Name, "down-after-milliseconds", "60000")
	order(t, g.Servers[1], "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "volatile-lru")
	backend.Eventually(t, "the replica follows", func() bool { return g.Servers[1].Info("replication")["master_link_status"] == "up" })
	url := "redis+sentinel://" + g.Watchers[0].Addr() + "?master_name=" + g.Name
	doctor(t, url, func(d *diagnosis) {
		if want := []string{g.Servers[0].Addr(), g.Servers[1].Addr()}; d.Mode != "sentinel" || !slices.Equal(d.Servers, want) {
			d.complain("%s, %q; want %q", d.Mode, d.Servers, want)
		}
		d.on(d.expect("eviction", isProblem, "volatile-lru"), g.Servers[1].Addr())
		d.expect("topology", isNote, "1 of 1 sentinel in the URL")
		d.on(d.expect("failover", isOK, "down-after-milliseconds 60000, TTL 24h0m0s: leases outlast a failover"), g.Watchers[0].Addr())
		d.expect("replication", isWarning, "min-replicas-to-write 0")
		d.expect("replication", isOK, "replica of "+g.Servers[0].Addr())
		d.expect("trial", isOK, "")
	})
	doctor(t, url+"&addr=127.0.0.1:1", func(d *diagnosis) {
		d.expect("topology", isWarning, "1 of 2 sentinels in the URL answer")
	})
}

// The doctor gives one warning about the recipe for one replica and three sentinels. The recipe prints it.
func TestDoctorOfOneReplicaAndThreeSentinels(t *testing.T) {
	long(t)
	expect.OK(t, inputs.In("../../docs/guides"))
	page := expect.Of(os.ReadFile("../../docs/guides/cluster-sentinel.md")).OK(t)
	_, rest, found := strings.Cut(string(page), "```text\n")
	printed, _, _ := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the recipe prints nothing")
	}
	g := server.StartSentinels(t, server.One(t), 1, 3, server.Conf("appendonly", "yes"))
	for _, w := range g.Watchers {
		order(t, w, "SENTINEL", "SET", g.Name, "down-after-milliseconds", "5000", "failover-timeout", "20000")
	}
	url := "redis+sentinel://" + g.Addrs()[0] + "?master_name=" + g.Name + "&addr=" + strings.Join(g.Addrs()[1:], "&addr=")
	machine.Undisturbed(t, func() error {
		code, stdout, stderr := runDoctor(t, url, "--ttl", "25s")
		if code != 1 || !strings.Contains(stdout, printed) || !strings.Contains(stdout, "\n0 problems, 1 warning, ") {
			return fmt.Errorf("exit code %d; want 1, and one warning: %s%s%s", code, printed, stdout, stderr)
		}
		return nil
	})
}

// accepting serves connections to a local address until the test ends.
func accepting(t testing.TB, serve func(net.Conn)) (addr string) {
	t.Helper()
	l := expect.Of(net.Listen("tcp", "127.0.0.1:0")).OK(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// answering serves connections on which each request gets this answer.
func answering(t testing.TB, answer string) (addr string) {
	return accepting(t, func(client net.Conn) {
		for requests := bufio.NewReader(client); ; {
			if _, err := resp.ReadRequest(requests); err != nil {
				return
			}
			if _, err := io.WriteString(client, answer); err != nil {
				return
			}
		}
	})
}

// repeating is the answer of a server that knows no command, and repeats the first 128 characters of the password, as servers do.
func repeating(password string) string {
	return fmt.Sprintf("-ERR unknown \x1b[31m\a\u202e command 'HELLO', with args beginning with: '3' 'AUTH' '%.128s'\r\n", password)
}

// between passes connections on to target. request and reply, if not nil, see what passes, and return what is passed on; replies in the
// chunks in which they arrive.
func between(
	t *testing.T, target func() string, request func(client net.Conn, raw []byte) []byte, reply func([]byte) []byte,
) (addr string) {
	return accepting(t, func(client net.Conn) {
		server, err := net.Dial("tcp", target())
		if err != nil {
			return
		}
		defer server.Close()
		go func() {
			defer client.Close()
			for buffer := make([]byte, 64<<10); ; {
				n, err := server.Read(buffer)
				raw := buffer[:n]
				if reply != nil && n > 0 {
					raw = reply(raw)
				}
				if _, lost := client.Write(raw); err != nil || lost != nil {
					return
				}
			}
		}()
		for requests := bufio.NewReader(client); ; {
			raw, err := resp.ReadRequest(requests)
			if err != nil {
				return
			}
			if request != nil {
				raw = request(client, raw)
			}
			if _, err := server.Write(raw); err != nil {
				return
			}
		}
	})
}

// Something between the doctor and a server can make that look like another server.
func TestDoctorThroughSomethingElse(t *testing.T) {
	long(t)
	s, other := server.Start(t, server.One(t)), server.Start(t, server.One(t))
	one := func() string { return s.Addr() }
	var turn atomic.Int64
	subscribe := []byte("*2\r\n$9\r\nsubscribe\r\n")
	change := regexp.MustCompile(`(?i)^\*\d+\r\n\$\d\r\n(evalsha|delifeq|multi)\r\n`)
	old := regexp.MustCompile(`(\$7\r\nversion\r\n\$\d+\r\n)\d`)
	kind := regexp.MustCompile(`(\$6\r\nserver\r\n\$\d+\r\n)[rv]`) // the first letter of redis or valkey
	for what, c := range map[string]struct {
		addr  string
		judge func(d *diagnosis)
		flags []string
	}{
		"a balancer": {
			addr: between(t, func() string { return []string{s.Addr(), other.Addr()}[turn.Add(1)%2] }, nil, nil),
			judge: func(d *diagnosis) {
				if f := d.expect("identity", isProblem, "lead to 2 servers"); f.Consequence != "each of them grants the same lock" {
					d.complain("%+v", f)
				}
			},
		},
		"a proxy that keeps subscriptions": {
			addr: between(t, one, func(client net.Conn, raw []byte) []byte {
				channel, is := bytes.CutPrefix(raw, subscribe)
				if !is {
					return raw
				}
				_, _ = fmt.Fprintf(client, "*3\r\n$9\r\nsubscribe\r\n%s:1\r\n", channel)
				return nil
			}, nil),
			judge: func(d *diagnosis) { d.expect("pubsub", isWarning, "the server does not have it: a proxy keeps it") },
		},
		"a slow way": { // A lock is acquired and released in 180 ms at least, which is more than a third of the TTL.
			addr: between(t, one, func(_ net.Conn, raw []byte) []byte {
				if change.Match(raw) {
					time.Sleep(90 * time.Millisecond)
				}
				return raw
			}, nil),
			judge: func(d *diagnosis) { d.expect("latency", isProblem, "p99") },
			flags: []string{"--ttl", "500ms"},
		},
		"an old version": {
			addr:  between(t, one, nil, func(p []byte) []byte { return old.ReplaceAll(p, []byte("${1}2")) }),
			judge: func(d *diagnosis) { d.expect("version", isProblem, "or later is needed") },
		},
		"an unknown server": {
			addr: between(t, one, nil, func(p []byte) []byte { return kind.ReplaceAll(p, []byte("${1}b")) }),
			judge: func(d *diagnosis) {
				d.expect("version", isNote, map[bool]string{true: "balkey", false: "bedis"}[s.Binary().Valkey])
			},
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			doctor(t, "redis://"+c.addr+"?protocol=2", c.judge, c.flags...)
		})
	}
}

// Whatever a server says, the report's texts can be printed, and its errors show no part of a password that
// they repeat.
func TestDoctorReportsWhatServersSayEscaped(t *testing.T) {
	t.Parallel()
	password := strings.Repeat(canary+"-", 16)
	s := server.Start(t, server.One(t), server.Conf("requirepass", password))
	addr := between(t, func() string { return s.Addr() }, func(client net.Conn, raw []byte) []byte {
		if !bytes.Contains(raw, []byte("\r\nconfig\r\n")) {
			return raw
		}
		_, _ = io.WriteString(client, repeating(password))
		return nil
	}, nil)
	doctor(t, "redis://default:"+password+"@"+addr, func(d *diagnosis) {
		d.expect("persistence", isWarning, `snapshots unknown (CONFIG GET: ERR unknown \x1b[31m\a\u202e command`)
		for _, f := range d.Findings {
			if text := f.Saw + f.Consequence + f.Remedy; strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				d.complain("%s: it is shown as %q", f.ID, text)
			}
		}
	})
}

// Fault: A server announces a reply for which go-redis would allocate gigabytes. The command closes the connection.
func TestRepliesThatDoNotFitInMemory(t *testing.T) {
	t.Parallel()
	addr := answering(t, "*2000000\r\n") // few enough for a command that takes them
	for _, args := range [][]string{{"doctor"}, {"run", "--wait=1s", "x", "--", "true"}, {"ls"}, {"ls", "--redis=redis+cluster://" + addr}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			code, _, stderr := invoke(t, []string{"HOLDFAST_REDIS=redis://" + addr}, args...)
			if code != 69 || !strings.Contains(stderr, "length exceeds the limit") {
				t.Errorf("exit code %d: %s", code, stderr)
			}
		})
	}
}
