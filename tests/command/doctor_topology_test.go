package command

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/inputs"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
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
