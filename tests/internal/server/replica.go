package server

import (
	"fmt"
	"strings"
	"testing"
)

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
	if err != nil {
		tb.Fatal(err)
	}
	return replica
}

// AwaitInStep waits until a master's replicas have everything that it has written.
func (s *Server) AwaitInStep() {
	s.tb.Helper()
	err := s.awaitFor(agreeTimeout, "replicas in step", func() error {
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
	if err != nil {
		s.tb.Fatal(err)
	}
}

// SentinelGroup is a master with a replica and a sentinel that watches both.
type SentinelGroup struct {
	Name     string // of the master, by which clients ask the sentinel for it
	Master   *Server
	Replica  *Server
	Sentinel *Server
}

// StartSentinel is StartSentinels with one replica and one sentinel.
func StartSentinel(tb testing.TB, bin Binary, opts ...Option) *SentinelGroup {
	tb.Helper()
	g := StartSentinels(tb, bin, 1, 1, opts...)
	return &SentinelGroup{g.Name, g.Servers[0], g.Servers[1], g.Watchers[0]}
}
