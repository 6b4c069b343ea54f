package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/tests/server"
)

// outlast runs a job that ends when it is told to, and has another wait for the same
// lock. The master is replaced while the one runs and the other waits.
func outlast(t *testing.T, url string, master *server.Server, replace func()) {
	t.Helper()
	first := begin(t, master, "echo $HOLDFAST_FENCE >$DIR/fence; touch $DIR/up; until [ -e $DIR/go ]; do sleep 0.05; done; exit 3", "--redis="+url, "--ttl=1m")
	first.up()
	second := begin(t, master, "echo $HOLDFAST_FENCE >$DIR/fence; touch $DIR/up; exit 4", "--redis="+url, "--ttl=1m", "--wait=1m")
	second.until("it waits", 20*time.Second, func() bool {
		n, _ := master.Do("EXISTS", "holdfast:{"+t.Name()+"}:q")
		return n == int64(1)
	})
	master.AwaitInStep()
	replace()
	if second.file("up") {
		t.Error("both jobs run")
	}
	if err := os.WriteFile(filepath.Join(first.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first.exits(3)
	second.exits(4) // in less than the lock's TTL
	if a, b := first.fence(), second.fence(); len(a) > len(b) || len(a) == len(b) && a >= b {
		t.Errorf("fence %s follows %s", b, a)
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

func TestRunOutlastsASentinelFailover(t *testing.T) {
	t.Parallel()
	g := server.StartSentinels(t, server.One(t), 2, 3)
	master := g.Servers[0]
	addrs := g.Addrs()
	outlast(t, "redis+sentinel://"+addrs[0]+"?master_name="+g.Name+"&addr="+addrs[1]+"&addr="+addrs[2], master, func() {
		master.Kill()
		g.NextMaster(master)
	})
}

func TestRunOutlastsAClusterFailover(t *testing.T) {
	t.Parallel()
	c := server.StartReplicatedCluster(t, server.One(t), 3)
	slot := int(keys.Slot("holdfast:{" + t.Name() + "}"))
	master := c.Owner(slot)
	addrs := c.Addrs()
	outlast(t, "redis+cluster://"+addrs[0]+"?addr="+addrs[1]+"&addr="+addrs[2], master, func() {
		master.Kill()
		c.Owner(slot, master)
	})
}
