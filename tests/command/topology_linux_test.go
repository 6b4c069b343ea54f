package command

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// kinds are the kinds of locks, each with two jobs. The second waits for the first, and runs although that one
// fails.
var kinds = []struct {
	name, command, queue string
	first, second        []string
}{
	{"plain", "run", "q", nil, nil},
	{"read-write", "run", "rw", []string{"--exclusive"}, []string{"--shared"}},
	{"readers", "run", "rw", []string{"--shared"}, []string{"--exclusive"}},
	{"slots", "run", "sem", []string{"--slots=3", "--weight=2"}, []string{"--slots=3", "--weight=2"}},
	{"owners", "run", "own", []string{"--owner=one"}, []string{"--owner=other"}},
	{"once", "run", "q", []string{"--once=1h"}, []string{"--once=1h"}},
	{"election", "elect", "q", nil, nil},
}

// outlast runs, for each kind of lock, a job that ends when it is told to, and another that waits for the same
// lock. Meanwhile the master, which here describes, is replaced.
func outlast(t testing.TB, url string, master *server.Server, here func(name string) bool, replace func()) {
	t.Helper()
	const job = "echo $HOLDFAST_FENCE >$DIR/fence; touch $DIR/up; "
	var first, second []*trial
	for _, k := range kinds {
		name := t.Name() + "-" + k.name
		for !here(name) {
			name += "-"
		}
		flags := []string{"--redis=" + url, "--ttl=1h"}
		a := beginAs(t, k.command, name, master, job+"until [ -e $DIR/go ]; do sleep 0.05; done; exit 3", append(flags, k.first...)...)
		a.up()
		b := beginAs(t, k.command, name, master, job+"exit 4", append(flags, k.second...)...)
		b.waits(master, k.queue, 1)
		first, second = append(first, a), append(second, b)
	}
	master.AwaitInStep()
	replace()
	for i, k := range kinds {
		if second[i].file("up") {
			t.Errorf("%s: both jobs run", k.name)
		}
		first[i].end()
	}
	for i, k := range kinds {
		first[i].exits(3)
		second[i].exits(4) // in less than the lock's TTL
		if a, b := first[i].fence(), second[i].fence(); len(a) > len(b) || len(a) == len(b) && a >= b {
			t.Errorf("%s: fence %s follows %s", k.name, b, a)
		}
	}
}

func (r *trial) fence() string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "fence"))
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// Fault: The master behind Sentinel dies under holdfast run of each kind, and elect. The job goes on, and the next
// waits for it.
func TestRunOutlastsASentinelFailover(t *testing.T) {
	long(t)
	t.Parallel()
	machine.UndisturbedTest(t, func(t testing.TB) {
		g := server.StartSentinels(t, server.One(t), 2, 3)
		master := g.Servers[0]
		addrs := g.Addrs()
		anywhere := func(string) bool { return true }
		outlast(t, "redis+sentinel://"+addrs[0]+"?master_name="+g.Name+"&addr="+addrs[1]+"&addr="+addrs[2], master, anywhere, func() {
			master.Kill()
			g.NextMaster(master)
		})
	})
}

// Fault: A Cluster's master dies under holdfast run of each kind, and elect. The job goes on, and the next waits for
// it.
func TestRunOutlastsAClusterFailover(t *testing.T) {
	long(t)
	t.Parallel()
	machine.UndisturbedTest(t, func(t testing.TB) {
		c := server.StartReplicatedCluster(t, server.One(t), 3)
		slot := func(name string) int { return int(keys.Slot("holdfast:{" + name + "}")) }
		mine := slot(t.Name())
		master := c.Owner(mine)
		here := func(name string) bool { return c.Owner(slot(name)) == master }
		addrs := c.Addrs()
		outlast(t, "redis+cluster://"+addrs[0]+"?addr="+addrs[1]+"&addr="+addrs[2], master, here, func() {
			master.Kill()
			c.Owner(mine, master)
		})
	})
}

// In a Cluster, where each lock has a fence counter of its own, ls tells of the locks of other prefixes, too.
func TestLsTellsOfOtherPrefixesInACluster(t *testing.T) {
	long(t)
	t.Parallel()
	uses(t)
	c := server.StartReplicatedCluster(t, server.One(t), 3)
	url := "redis+cluster://" + c.Addrs()[0]
	said, err := exec.Command("holdfast", "run", "--redis", url, "--prefix", "shop:", "order", "--", "holdfast", "ls", "--prefix", "holdfast:", "--redis", url).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(said), `holdfast: 1 lock under "shop:": holdfast ls --prefix shop:`) {
		t.Errorf("%v: %s", err, said)
	}
}
