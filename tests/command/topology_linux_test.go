package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// deployment is a master that a test replaces.
type deployment struct {
	url     string
	master  *server.Server
	here    func(name string) bool // whether the master has the lock of that name
	replace func() *server.Server  // kills the master, and returns the next one
}

// inDeployments runs a test behind Sentinel and in a Cluster.
func inDeployments(t *testing.T, f func(t testing.TB, d deployment)) {
	long(t)
	for name, start := range map[string]func(t testing.TB) deployment{
		"Sentinel": func(t testing.TB) deployment {
			g := server.StartSentinels(t, server.One(t), 2, 3)
			master, addrs := g.Servers[0], g.Addrs()
			url := "redis+sentinel://" + addrs[0] + "?master_name=" + g.Name + "&addr=" + addrs[1] + "&addr=" + addrs[2]
			return deployment{url, master, func(string) bool { return true }, func() *server.Server {
				master.Kill()
				return g.NextMaster(master)
			}}
		},
		"Cluster": func(t testing.TB) deployment {
			c := server.StartReplicatedCluster(t, server.One(t), 3)
			slot := func(name string) int { return int(keys.Slot("holdfast:{" + name + "}")) }
			mine := slot("job")
			master, addrs := c.Owner(mine), c.Addrs()
			here := func(name string) bool { return c.Owner(slot(name)) == master }
			return deployment{"redis+cluster://" + addrs[0] + "?addr=" + addrs[1] + "&addr=" + addrs[2], master, here, func() *server.Server {
				master.Kill()
				return c.Owner(mine, master)
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine.UndisturbedTest(t, func(t testing.TB) { f(t, start(t)) })
		})
	}
}

// Fault: The master, behind Sentinel or in a Cluster, dies under holdfast run and holdfast elect. The job goes on, and the next waits for
// it.
func TestRunOutlastsAFailover(t *testing.T) {
	inDeployments(t, func(t testing.TB, d deployment) {
		var first, second []*trial
		for _, command := range []string{"run", "elect"} {
			name := command
			for !d.here(name) {
				name += "-"
			}
			a := beginAs(t, command, name, d.master, patient+"; exit 3", "--redis="+d.url, "--ttl=1h")
			a.up()
			b := beginAs(t, command, name, d.master, "echo $HOLDFAST_FENCE >$DIR/fence; touch $DIR/up; exit 4", "--redis="+d.url, "--ttl=1h")
			b.waits(d.master, "q", 1)
			first, second = append(first, a), append(second, b)
		}
		d.master.AwaitInStep()
		d.replace()
		for i := range first {
			expect.Equal(t, first[i].name+": both jobs run", second[i].file("up"), false)
			first[i].end()
		}
		for i := range first {
			first[i].exits(3)
			second[i].exits(4) // in less than the lock's TTL
			first[i].before(second[i])
		}
	})
}

// Fault: The master, behind Sentinel or in a Cluster, dies while tickets stand for locks. They stay valid.
func TestTicketsOutlastAFailover(t *testing.T) {
	inDeployments(t, func(t testing.TB, d deployment) {
		dir := t.TempDir()
		there := func(name string) bool {
			_, err := os.Lstat(filepath.Join(dir, name))
			return err == nil
		}
		holdfast := func(want int, command, ticket string, more ...string) {
			t.Helper()
			args := append([]string{command, "--redis", d.url, "--ticket", filepath.Join(dir, ticket)}, more...)
			if code, _, said := invoke(t, nil, args...); code != want {
				t.Fatalf("holdfast %s of %s: exit code %d, want %d: %s", command, ticket, code, want, said)
			}
		}
		var names []string
		for name := "job"; len(names) < 2; name += "-" {
			if d.here(name) {
				names = append(names, name)
				holdfast(0, "acquire", name, "--ttl", "1h", name)
			}
		}
		known, valid := names[0], names[1]

		order(t, d.master, "DEL", "holdfast:{"+known+"}")
		if holdfast(79, "release", known); there(known) {
			t.Error("the master that gave a ticket does not know the lock, and the ticket stays")
		}
		holdfast(0, "renew", valid, "--ttl", "1h")
		d.master.AwaitInStep()
		d.replace()
		holdfast(0, "renew", valid, "--ttl", "1h")
		if holdfast(0, "release", valid); there(valid) {
			t.Error("a ticket that was used stays")
		}
	})
}

// In a Cluster, where each lock has a fence counter of its own, ls tells of the locks of other prefixes, too.
func TestLsTellsOfOtherPrefixesInACluster(t *testing.T) {
	long(t)
	url := "redis+cluster://" + server.StartReplicatedCluster(t, server.One(t), 3).Addrs()[0]
	list := []string{"holdfast", "ls", "--prefix", "holdfast:", "--redis", url}
	code, _, said := invoke(t, nil, append([]string{"run", "--redis", url, "--prefix", "shop:", "order", "--"}, list...)...)
	if code != 1 || !strings.Contains(said, `holdfast: 1 lock under "shop:": holdfast ls --prefix shop:`) {
		t.Errorf("exit code %d: %s", code, said)
	}
}
