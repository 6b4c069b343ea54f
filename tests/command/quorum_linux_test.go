package command

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// nodePassword is the nodes' password. No output shows it.
const nodePassword = "canary-8642"

// nodes are the servers of a quorum.
type nodes []*server.Server

// startNodes starts nodes, and admits them.
func startNodes(t testing.TB, n int) nodes {
	t.Helper()
	var all nodes
	for range n {
		all = append(all, server.Start(t, server.One(t), server.Conf("requirepass", nodePassword)))
	}
	if code, stdout, stderr := invoke(t, all.env(), "init"); code != 0 || stderr != "" || !strings.Contains(stdout, fmt.Sprintf("a quorum of %d nodes, %d of which must agree", n, n/2+1)) {
		t.Fatalf("init: exit code %d: %s%s", code, stdout, stderr)
	}
	return all
}

// env returns the variable that names the nodes.
func (n nodes) env() []string {
	var urls []string
	for _, s := range n {
		urls = append(urls, "redis://:"+nodePassword+"@"+s.Addr())
	}
	return []string{"HOLDFAST_REDIS=" + strings.Join(urls, " ")}
}

// Addr returns what begin puts after redis://: the first node, followed by the others.
func (n nodes) Addr() string {
	return strings.TrimPrefix(n.env()[0], "HOLDFAST_REDIS=redis://")
}

// patientNodes are flags for a slow machine.
var patientNodes = []string{"--ttl=12s", "--kill-after=1s", "--node-timeout=3s"}

// Fault: A majority of the nodes of holdfast run is killed. The job is ended in time.
func TestQuorumRunsEndWithoutAMajority(t *testing.T) {
	long(t)
	t.Parallel()
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
	t.Parallel()
	machine.UndisturbedTest(t, func(t testing.TB) {
		all := startNodes(t, 3)
		master := server.Start(t, server.One(t), server.Conf("requirepass", nodePassword))
		replica := server.StartReplica(t, server.One(t), master, server.Conf("requirepass", nodePassword), server.Conf("masterauth", nodePassword))
		type report struct {
			Mode, Worst string
			Servers     []string
			Findings    []struct {
				ID, Severity, Saw string
				Servers           []string
			}
		}
		examine := func(env []string, code int) (r report) {
			t.Helper()
			got, stdout, stderr := invoke(t, env, "doctor", "--clock=0", "--json")
			if err := json.Unmarshal([]byte(stdout), &r); err != nil || got != code || r.Mode != "quorum" {
				t.Errorf("exit code %d, want %d, mode %s: %v: %s", got, code, r.Mode, err, stderr)
			}
			if strings.Contains(stdout+stderr, nodePassword) {
				t.Errorf("the password is shown: %s%s", stdout, stderr)
			}
			return r
		}
		has := func(r report, severity, saw string, servers ...string) {
			t.Helper()
			for _, f := range r.Findings {
				if f.ID == "quorum" && f.Severity == severity && strings.Contains(f.Saw, saw) && fmt.Sprint(f.Servers) == fmt.Sprint(servers) {
					return
				}
			}
			t.Errorf("no %s about %q of %v in %+v", severity, saw, servers, r.Findings[:8])
		}
		a, b, c := all[0].Addr(), all[1].Addr(), all[2].Addr()

		good := examine(all.env(), 1) // because nothing is persisted
		has(good, "ok", "admitted, and not in quarantine", a, b, c)
		has(good, "note", "3 of 3 nodes are on 127.0.0.1", a, b, c)
		if good.Worst != "warning" || fmt.Sprint(good.Servers) != fmt.Sprint([]string{a, b, c}) {
			t.Errorf("%s of %v", good.Worst, good.Servers)
		}
		has(examine(all[:2].env(), 2), "problem", "2 nodes: a quorum has 3 to 31", a, b)
		five := examine(append(all, master, replica).env(), 2)
		has(five, "problem", master.Addr()+" and "+replica.Addr()+" are master and replica", master.Addr(), replica.Addr())
		twice := all.env()
		twice[0] += " redis://:" + nodePassword + "@" + strings.Replace(a, "127.0.0.1", "localhost", 1) + ", redis://127.0.0.1:1"
		has(examine(twice, 2), "problem", a+" and localhost", a, strings.Replace(a, "127.0.0.1", "localhost", 1))

		if code, _, stderr := invoke(t, twice, "init"); code != 78 || !strings.Contains(stderr, " are the same server; name each server once") {
			t.Errorf("init of a server with two names: exit code %d: %s", code, stderr)
		}
		all[2].Kill()
		one := examine(all.env(), 1)
		has(one, "warning", "connection refused", c)
		all[2].Restart()
		has(examine(all.env(), 1), "warning", "not admitted yet", c)
		all[1].Restart()
		has(examine(all.env(), 2), "problem", "not admitted yet", b, c)
		for _, s := range all {
			s.Kill()
		}
		code, stdout, stderr := invoke(t, all.env(), "doctor")
		if code != 69 || stdout != "" || !strings.Contains(stderr, a) || !strings.Contains(stderr, c) || strings.Contains(stderr, nodePassword) {
			t.Errorf("without any node: exit code %d: %s%s", code, stdout, stderr)
		}
	})
}
