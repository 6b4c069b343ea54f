package topology

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastrueidis"
	"github.com/holdfast-go/holdfast/holdfastvalkey"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// ofURL returns openers of clients for a server's URL, one for each adapter.
func ofURL(url string) map[string]opener {
	return map[string]opener{
		"go-redis": func(t *testing.T) drivertest.Driver {
			o := expect.Of(redis.ParseURL(url)).OK(t)
			return goRedis(t, redis.NewClient(o))
		},
		"rueidis": func(t *testing.T) drivertest.Driver {
			o := expect.Of(rueidis.ParseURL(url)).OK(t)
			return drivertest.Of(holdfastrueidis.NewDriver(o))
		},
		"valkey": func(t *testing.T) drivertest.Driver {
			o := expect.Of(valkey.ParseURL(url)).OK(t)
			return drivertest.Of(holdfastvalkey.NewDriver(o))
		},
	}
}

// occupied requires that exactly the wanted databases of a server have keys.
func occupied(t *testing.T, s *server.Server, want map[int]bool) {
	t.Helper()
	for db, want := range want {
		rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), DB: db})
		n, err := rdb.DBSize(t.Context()).Result()
		if (n > 0) != want || err != nil {
			t.Errorf("database %d has %d keys, %v", db, n, err)
		}
		_ = rdb.Close()
	}
}

// Every kind of lock works over a Unix socket, and in a database other than the first, together with locks of
// the same names in another one.
func TestEveryKindOverASocketAndInDatabases(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		dir, err := os.MkdirTemp("", "holdfast") // a socket's name may have 107 characters
		expect.OK(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		socket := filepath.Join(dir, "s")
		s := server.Start(t, bin, server.Conf("unixsocket", socket))
		overTCP, overSocket := ofURL("redis://"+s.Addr()+"/3"), ofURL("unix://"+socket+"?db=4")
		for adapter := range overTCP {
			three, four := newPlay(t, overTCP[adapter]), newPlay(t, overSocket[adapter])
			for db, open := range map[int]opener{3: overTCP[adapter], 4: overSocket[adapter]} {
				if s, err := open.client(t, nil).RWMutex("{a}/rw").Status(t.Context()); err != nil || !s.Held() || len(s.Waiters) != 1 || s.Waiters[0].PID != os.Getpid() {
					t.Errorf("%s: in the database %d the status of a lock with one waiter is %+v, %v", adapter, db, s, err)
				}
			}
			three.passes("a play in another database, " + adapter)
			four.passes("a play over TCP, " + adapter)
		}
		occupied(t, s, map[int]bool{0: false, 1: false, 3: true, 4: true})
	})
}

// Every kind of lock works for a user whose root permissions allow nothing: each command is allowed by one of several selectors.
func TestEveryKindWithSelectors(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		s := server.Start(t, bin)
		if _, err := s.Do("ACL", "SETUSER", "u", "on", ">x", "resetkeys", "resetchannels", "-@all",
			"(~* +@read +@write +@scripting)", "(&* +@pubsub)", "(+time +ping)"); err != nil {
			t.Fatal(err)
		}
		for adapter, open := range ofURL("redis://u:x@" + s.Addr()) {
			p := newPlay(t, open)
			expect.Equal(t, adapter+": scripts were refused", s.Rejections()["evalsha"], 0)
			p.passes("a while, " + adapter)
		}
	})
}

// Every kind of lock works in a Cluster's database other than the first, which Valkey has since 9, together
// with locks of the same names in the first, across failovers and moves of their slot.
func TestEveryKindInADatabaseOfACluster(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		if !bin.MovesAtomically() { // Clusters have had databases since then
			t.Skipf("SKIPPED: %s has one database in a Cluster; Valkey 9 can have more", bin.Name)
		}
		c := server.StartReplicatedCluster(t, bin, 3, server.Conf("cluster-databases", "16"))
		first, third := clusterOf(c), clusterAt(c, 3, nil)
		slot := slotOf("{a}/any")
		for what, replace := range map[string]func(){
			"a failover that was asked for": func() {
				master := c.Owner(slot)
				c.Failover(c.ReplicaOf(master))
				c.Owner(slot, master)
			},
			"the move of the slot by the server": func() { c.MoveAtomically(slot, otherMaster(c, slot)) },
		} {
			one, other := newPlay(t, first), newPlay(t, third)
			replace()
			one.passes(what)
			other.passes(what + ", in another database")
		}
		p := newPlay(t, third)
		dead := fails(c, slot, (*server.Server).Kill)
		p.passes("the master's death, in another database")
		occupied(t, c.Owner(slot, dead), map[int]bool{1: false, 3: true})
	})
}
