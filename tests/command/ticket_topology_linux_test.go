package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// ticketsOutlast uses tickets before and after the master is replaced. here describes the master; replace returns the next one.
func ticketsOutlast(t testing.TB, url string, master *server.Server, here func(name string) bool, replace func() *server.Server) {
	t.Helper()
	uses(t)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	there := func(name string) bool {
		_, err := os.Lstat(file(name))
		return err == nil
	}
	holdfast := func(want int, command, ticket string, more ...string) {
		t.Helper()
		args := append([]string{command, "--redis", url, "--ttl", "1h", "--ticket", file(ticket)}, more...)
		if command == "release" {
			args = append([]string{command, "--redis", url, "--ticket", file(ticket)}, more...)
		}
		said, err := exec.Command("holdfast", args...).CombinedOutput()
		code := 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if code != want {
			t.Fatalf("holdfast %s of %s: exit code %d, want %d: %s", command, ticket, code, want, said)
		}
	}
	deleted := func(from *server.Server, name string) {
		t.Helper()
		if n, err := from.Do("DEL", "holdfast:{"+name+"}"); err != nil || fmt.Sprint(n) != "1" {
			t.Fatalf("DEL of lock %s: %v, %v", name, n, err)
		}
	}
	var names []string
	for n := 0; len(names) < 3; n++ {
		if name := fmt.Sprint("job-", n); here(name) {
			names = append(names, name)
			holdfast(0, "acquire", name, name)
		}
	}
	known, kept, valid := names[0], names[1], names[2]

	deleted(master, known)
	if holdfast(79, "release", known); there(known) {
		t.Error("the master that gave a ticket does not know the lock, and the ticket stays")
	}
	holdfast(0, "renew", valid)
	master.AwaitInStep()
	next := replace()
	holdfast(0, "renew", valid)
	if holdfast(0, "release", valid); there(valid) {
		t.Error("a ticket that was used stays")
	}
	deleted(next, kept)
	if holdfast(79, "release", kept); !there(kept) {
		t.Error("another master than the one that gave a ticket does not know the lock, and the ticket was removed")
	}
}

// Fault: The master behind Sentinel dies while tickets stand for locks. They stay valid, and none is removed because the next master does not know its lock.
func TestTicketsOutlastASentinelFailover(t *testing.T) {
	long(t)
	t.Parallel()
	machine.UndisturbedTest(t, func(t testing.TB) {
		g := server.StartSentinels(t, server.One(t), 2, 3)
		master, addrs := g.Servers[0], g.Addrs()
		anywhere := func(string) bool { return true }
		ticketsOutlast(t, "redis+sentinel://"+addrs[0]+"?master_name="+g.Name+"&addr="+addrs[1]+"&addr="+addrs[2], master, anywhere, func() *server.Server {
			master.Kill()
			return g.NextMaster(master)
		})
	})
}

// Fault: A Cluster's master dies while tickets stand for locks. They stay valid, and none is removed because the next master does not know its lock.
func TestTicketsOutlastAClusterFailover(t *testing.T) {
	long(t)
	t.Parallel()
	machine.UndisturbedTest(t, func(t testing.TB) {
		c := server.StartReplicatedCluster(t, server.One(t), 3)
		slot := func(name string) int { return int(keys.Slot("holdfast:{" + name + "}")) }
		mine := slot("job-0")
		master, addrs := c.Owner(mine), c.Addrs()
		here := func(name string) bool { return c.Owner(slot(name)) == master }
		ticketsOutlast(t, "redis+cluster://"+addrs[0]+"?addr="+addrs[1]+"&addr="+addrs[2], master, here, func() *server.Server {
			master.Kill()
			return c.Owner(mine, master)
		})
	})
}
