package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Sentinels is a master with replicas, and the sentinels that watch them.
type Sentinels struct {
	Name     string    // of the master, as clients ask the sentinels for it
	Servers  []*Server // that hold data; the first is the master at the start
	Watchers []*Server // the sentinels

	tb testing.TB
}

// StartSentinels starts a master with so many replicas, and so many sentinels of
// which a majority has to agree, and waits until all know each other. Sentinels take
// a server for down after a second and a half: on a busy machine one that is well may not
// answer for half a second. The options go to master and replicas.
func StartSentinels(tb testing.TB, bin Binary, replicas, sentinels int, opts ...Option) *Sentinels {
	tb.Helper()
	g := &Sentinels{Name: "holdfast", tb: tb}
	master := Start(tb, bin, opts...)
	g.Servers = append(g.Servers, master)
	for range replicas {
		g.Servers = append(g.Servers, StartReplica(tb, bin, master, opts...))
	}
	for range sentinels {
		g.Watchers = append(g.Watchers, Start(tb, bin,
			func(s *Server) { s.sentinel = true },
			Conf("sentinel monitor", fmt.Sprintf("%s 127.0.0.1 %d %d", g.Name, master.port, sentinels/2+1)),
			Conf("sentinel down-after-milliseconds", g.Name+" 1500"),
			Conf("sentinel failover-timeout", g.Name+" 3000"),
			Conf("sentinel parallel-syncs", g.Name+" 2"),
		))
	}
	for _, w := range g.Watchers {
		if err := w.awaitFor(agreeTimeout, "sight of the others", func() error { return g.sees(w, replicas, sentinels-1) }); err != nil {
			tb.Fatal(err)
		}
	}
	return g
}

func (g *Sentinels) sees(w *Server, replicas, others int) error {
	for kind, want := range map[string]int{"REPLICAS": replicas, "SENTINELS": others} {
		reply, err := w.Do("SENTINEL", kind, g.Name)
		if err != nil {
			return err
		}
		if all, _ := reply.([]any); len(all) != want {
			return fmt.Errorf("the sentinel knows %d %s, not %d", len(all), strings.ToLower(kind), want)
		}
	}
	return nil
}

// Addrs are the sentinels' addresses.
func (g *Sentinels) Addrs() []string {
	var addrs []string
	for _, w := range g.Watchers {
		addrs = append(addrs, w.Addr())
	}
	return addrs
}

// Failover has a sentinel make a replica the master, as an operator does, and waits until
// it has. It asks again while the sentinel is not ready for that, after another failover, and
// when it gives up, since the others have made what it chose a replica again.
func (g *Sentinels) Failover() {
	g.tb.Helper()
	w, old := g.Watchers[0], ""
	err := w.awaitFor(agreeTimeout, "failover", func() error {
		master, err := g.named(w)
		switch {
		case err != nil:
			return err
		case old == "":
			old = master
		case master != old:
			return nil
		}
		if _, err := w.Do("SENTINEL", "FAILOVER", g.Name); err != nil {
			return err
		}
		return fmt.Errorf("the sentinel names %s still", old)
	})
	if err != nil {
		g.tb.Fatal(err)
	}
}

// named is the address of the master that a sentinel names.
func (g *Sentinels) named(w *Server) (string, error) {
	reply, err := w.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", g.Name)
	return join(reply), err
}

// NextMaster waits until all sentinels name another master than old, which itself
// says that it is, and returns it.
func (g *Sentinels) NextMaster(old *Server) *Server {
	g.tb.Helper()
	var master *Server
	err := g.Watchers[0].awaitFor(agreeTimeout, "failover", func() error {
		for _, w := range g.Watchers {
			addr, err := g.named(w)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(g.Servers, func(s *Server) bool { return s.Addr() == addr })
			if i < 0 || g.Servers[i] == old {
				return fmt.Errorf("sentinel %s names %s", w.Addr(), addr)
			}
			master = g.Servers[i]
		}
		return hasRole(master, "master")
	})
	if err != nil {
		g.tb.Fatal(err)
	}
	return master
}

// AwaitReplica waits until s is a replica that is in step with its master. On a busy machine
// sentinels may have taken its master for down, and s for the next; they are told to choose another then.
func (g *Sentinels) AwaitReplica(s *Server) {
	g.tb.Helper()
	err := s.awaitFor(agreeTimeout, "role of a replica", func() error {
		err := hasRole(s, "slave")
		if err == nil {
			return nil
		}
		if named, unknown := g.named(g.Watchers[0]); unknown == nil && named == s.Addr() {
			_, _ = g.Watchers[0].Do("SENTINEL", "FAILOVER", g.Name) // refused while one is under way
		}
		return err
	})
	if err != nil {
		g.tb.Fatal(err)
	}
}

// hasRole reports as an error that a server has another role, or, of a replica, that
// it has no link to its master.
func hasRole(s *Server, want string) error {
	info, err := s.info("replication")
	if err != nil {
		return err
	}
	if info["role"] != want {
		return fmt.Errorf("%s is a %s", s.Addr(), info["role"])
	}
	if want == "slave" && info["master_link_status"] != "up" {
		return fmt.Errorf("the link of %s to its master is %s", s.Addr(), info["master_link_status"])
	}
	return nil
}

// join makes an address of the host and port of a reply.
func join(reply any) string {
	var parts []string
	all, _ := reply.([]any)
	for _, part := range all {
		parts = append(parts, fmt.Sprint(part))
	}
	return strings.Join(parts, ":")
}

// Forsake makes replicas miss what master writes from now on, until Resume: they are
// paused, and their links are closed, so that nothing waits for them in a socket.
func Forsake(master *Server, replicas ...*Server) {
	master.tb.Helper()
	for _, r := range replicas {
		r.Pause()
	}
	reply, err := master.Do("CLIENT", "KILL", "TYPE", "replica")
	if err != nil || reply != int64(len(replicas)) {
		master.tb.Fatalf("%s: links of replicas killed: %v, %v", master.bin.Name, reply, err)
	}
}
