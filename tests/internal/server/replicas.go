package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// Sentinels is a master with replicas, and the sentinels that watch them.
type Sentinels struct {
	Name     string    // of the master, by which clients ask the sentinels for it
	Servers  []*Server // the servers with data; the first is the master at the start
	Watchers []*Server // the sentinels

	tb testing.TB
}

// StartSentinels starts a master with replicas, and sentinels of which a majority has to agree. It waits until
// all know each other. Sentinels consider a server down after a second and a half: on a busy machine a healthy
// one may not answer for half a second. The options apply to master and replicas.
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
		w.agree("sight of the others", func() error { return g.sees(w, replicas, sentinels-1) })
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

// Addrs returns the sentinels' addresses.
func (g *Sentinels) Addrs() []string {
	var addrs []string
	for _, w := range g.Watchers {
		addrs = append(addrs, w.Addr())
	}
	return addrs
}

// Failover makes a sentinel promote a replica, as an operator would, and waits until that is done. It asks
// again while the sentinel is not ready, after another failover, and if the sentinel gives up because the
// others have demoted its choice again.
func (g *Sentinels) Failover() {
	g.tb.Helper()
	w, old := g.Watchers[0], ""
	w.agree("failover", func() error {
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
}

// named returns the address of the master that a sentinel names.
func (g *Sentinels) named(w *Server) (string, error) {
	reply, err := w.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", g.Name)
	return join(reply), err
}

// NextMaster waits until all sentinels name a master other than old, which considers itself one, too, and
// returns it.
func (g *Sentinels) NextMaster(old *Server) *Server {
	g.tb.Helper()
	var master *Server
	g.Watchers[0].agree("failover", func() error {
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
	return master
}

// AwaitReplica waits until s is a replica in step with its master. On a busy machine sentinels may have
// considered its master down, and made s the next; then they are told to choose another.
func (g *Sentinels) AwaitReplica(s *Server) {
	g.tb.Helper()
	s.agree("role of a replica", func() error {
		err := hasRole(s, "slave")
		if err == nil {
			return nil
		}
		if named, unknown := g.named(g.Watchers[0]); unknown == nil && named == s.Addr() {
			_, _ = g.Watchers[0].Do("SENTINEL", "FAILOVER", g.Name) // refused while a failover is under way
		}
		return err
	})
}

// hasRole returns an error if a server has another role or, for a replica, no link to its master.
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

// join returns the address in a reply that has a host and a port.
func join(reply any) string {
	var parts []string
	all, _ := reply.([]any)
	for _, part := range all {
		parts = append(parts, fmt.Sprint(part))
	}
	return strings.Join(parts, ":")
}

// Forsake makes replicas miss everything that master writes from now on, until Resume: it pauses them and
// closes their links, so that nothing waits for them in a socket.
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

// StartReplica starts a replica of master and waits until the master
// sends it every write.
func StartReplica(tb testing.TB, bin Binary, master *Server, opts ...Option) *Server {
	tb.Helper()
	opts = append([]Option{Conf("replicaof", fmt.Sprintf("127.0.0.1 %d", master.port))}, opts...)
	replica := Start(tb, bin, opts...)
	err := replica.await("link to its master", func() error {
		// The replica reports the link as up earlier than the master, which holds its writes back until it
		// knows that the replica has loaded.
		info, err := master.info("replication")
		if err != nil {
			return err
		}
		for _, value := range info {
			if strings.Contains(value, fmt.Sprintf("port=%d,state=online", replica.port)) {
				return nil
			}
		}
		return fmt.Errorf("its master says %v", info)
	})
	expect.OK(tb, err)
	return replica
}

// AwaitInStep waits until a master's replicas have everything that it has written.
func (s *Server) AwaitInStep() {
	s.tb.Helper()
	s.agree("replicas in step", func() error {
		info, err := s.info("replication")
		if err != nil {
			return err
		}
		for i := 0; ; i++ {
			replica, ok := info[fmt.Sprint("slave", i)]
			if !ok && i > 0 {
				return nil
			}
			// One that still waits for its first copy is at 0, and so is a master that has written nothing since.
			online := strings.Contains(replica, ",state=online,")
			if !online || !strings.Contains(replica, ",offset="+info["master_repl_offset"]+",") {
				return fmt.Errorf("replica %d is %q, the master at %s", i, replica, info["master_repl_offset"])
			}
		}
	})
}
