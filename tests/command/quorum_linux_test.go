package command

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// nodePassword is the nodes' password. No output shows it.
const nodePassword = "canary-8642"

type nodes []*server.Server

func startNodes(t testing.TB, n int) nodes {
	t.Helper()
	var all nodes
	for range n {
		all = append(all, server.Start(t, server.One(t), server.Conf("requirepass", nodePassword)))
	}
	code, stdout, stderr := invoke(t, []string{"HOLDFAST_REDIS=" + all.url()}, "init")
	if code != 0 || stderr != "" || !strings.Contains(stdout, fmt.Sprintf("a quorum of %d nodes, %d of which must agree", n, n/2+1)) {
		t.Fatalf("init: exit code %d: %s%s", code, stdout, stderr)
	}
	return all
}

// url returns what names the nodes.
func (n nodes) url() string {
	var urls []string
	for _, s := range n {
		urls = append(urls, "redis://:"+nodePassword+"@"+s.Addr())
	}
	return strings.Join(urls, " ")
}

// Addr returns what begin puts after redis://: the first node, followed by the others.
func (n nodes) Addr() string { return strings.TrimPrefix(n.url(), "redis://") }

// patientNodes are flags for a slow machine.
var patientNodes = []string{"--ttl=12s", "--kill-after=1s", "--node-timeout=3s"}

// Fault: A majority of the nodes of holdfast run is killed. The job is ended in time.
func TestQuorumRunsEndWithoutAMajority(t *testing.T) {
	long(t)
	machine.UnhurriedTest(t, unit, func(t testing.TB, unit time.Duration) {
		all := startNodes(t, 3)
		r := begin(t, all, stubborn, append(leasesOf(unit), "--node-timeout", (unit*3/4).String())...)
		r.up()
		all[0].Kill()
		all[1].Kill()
		lost := uptime(t)
		r.diedBy(lost + 3*unit)
		r.told()
		r.exits(79)
	})
}

func TestDoctorOfAQuorum(t *testing.T) {
	long(t)
	all := startNodes(t, 3)
	master := server.Start(t, server.One(t), server.Conf("requirepass", nodePassword))
	replica := server.StartReplica(t, server.One(t), master, server.Conf("requirepass", nodePassword), server.Conf("masterauth", nodePassword))
	a, b, c := all[0].Addr(), all[1].Addr(), all[2].Addr()
	alias := strings.Replace(a, "127.0.0.1", "localhost", 1)
	twice := all.url() + " redis://:" + nodePassword + "@" + alias + ", redis://127.0.0.1:1"
	examine := func(url string, code int, severity, saw string, servers ...string) {
		t.Helper()
		doctor(t, url, func(d *diagnosis) {
			if d.ExitCode != code || d.Mode != "quorum" {
				d.complain("exit code %d, want %d, mode %s", d.ExitCode, code, d.Mode)
			}
			d.on(d.expect("quorum", severity, saw), servers...)
		}, "--clock=0")
	}
	examine(all.url(), 1, isOK, "admitted, and not in quarantine", a, b, c) // 1, because nothing is persisted
	examine(all[:2].url(), 2, isProblem, "2 nodes: a quorum has 3 to 31", a, b)
	five, related := append(all[:3:3], master, replica), master.Addr()+" and "+replica.Addr()+" are master and replica"
	examine(five.url(), 2, isProblem, related, master.Addr(), replica.Addr())
	examine(twice, 2, isProblem, a+" and localhost", a, alias)
	if code, _, stderr := runWith(t, twice, "init"); code != 78 || !strings.Contains(stderr, " are the same server; name each server once") {
		t.Errorf("init of a server with two names: exit code %d: %s", code, stderr)
	}
	all[2].Kill()
	examine(all.url(), 1, isWarning, "connection refused", c)
	all[2].Restart()
	examine(all.url(), 1, isWarning, "not admitted yet", c)
	all[1].Restart()
	examine(all.url(), 2, isProblem, "not admitted yet", b, c)
	for _, s := range all {
		s.Kill()
	}
	code, stdout, stderr := runDoctor(t, all.url())
	if code != 69 || stdout != "" || !strings.Contains(stderr, a) || !strings.Contains(stderr, c) {
		t.Errorf("without any node: exit code %d: %s%s", code, stdout, stderr)
	}
}
