package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/child"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// benching is a bench under way.
type benching struct {
	*child.Process
	t      testing.TB
	stdout bytes.Buffer
	stderr bytes.Buffer
}

func bench(t testing.TB, url string, args ...string) *benching {
	t.Helper()
	uses(t)
	b := &benching{t: t}
	cmd := exec.Command("bench", append([]string{"-json"}, args...)...)
	cmd.Env = append(os.Environ(), "HOLDFAST_REDIS="+url, "GORACE=atexit_sleep_ms=0")
	cmd.Stdout, cmd.Stderr = &b.stdout, &b.stderr
	b.Process = expect.Of(child.Run(cmd)).OK(t)
	t.Cleanup(b.Kill)
	return b
}

// benchReport is the part of a report that tests read.
type benchReport struct {
	Mode     string
	Results  []benchResult
	LeftOut  []string `json:"left_out"`
	Faults   []string
	Error    string
	ExitCode int `json:"exit_code"`
}

type benchResult struct {
	Experiment     string
	Leases         int
	Holdfast, Bare struct{ Overlaps, Lost int }
}

func (r benchReport) of(experiment string) (all []benchResult) {
	for _, result := range r.Results {
		if result.Experiment == experiment {
			all = append(all, result)
		}
	}
	return all
}

// ends requires that the bench ends with that exit code, and returns the report.
func (b *benching) ends(code int) (r benchReport) {
	b.t.Helper()
	if !b.EndsWithin(2 * hang) {
		b.t.Fatal("it does not end")
	}
	if got := b.ProcessState.ExitCode(); got != code {
		b.t.Fatalf("exit code %d, want %d: %s%s", got, code, &b.stdout, &b.stderr)
	}
	if err := json.Unmarshal(b.stdout.Bytes(), &r); err != nil {
		b.t.Fatalf("%v: %s%s", err, &b.stdout, &b.stderr)
	}
	if r.ExitCode != code || (r.Error != "") != (code != 0) {
		b.t.Errorf("the report of exit code %d: %+v", code, r)
	}
	return r
}

// reaches waits until a key of that part of the run exists.
func (b *benching) reaches(s *server.Server, part string) {
	b.t.Helper()
	for limit := time.Now().Add(2 * hang); len(benchKeys(b.t, part, s)) == 0; time.Sleep(time.Millisecond) {
		if b.HasEnded() {
			b.t.Fatalf("it ends before %s: %s%s", part, &b.stdout, &b.stderr)
		}
		if time.Now().After(limit) {
			b.t.Fatalf("it does not get to %s", part)
		}
	}
}

// benchKeys returns the keys with this prefix that benches left on the servers.
func benchKeys(t testing.TB, part string, servers ...*server.Server) (all []string) {
	t.Helper()
	for _, s := range servers {
		reply := expect.Of(s.Do("KEYS", "holdfast:{bench:*:"+part+"*")).OK(t)
		for _, key := range reply.([]any) {
			all = append(all, fmt.Sprint(key))
		}
	}
	return all
}

// A bench that is interrupted, or whose server dies, reports what it has measured until then. After an interrupt it leaves nothing behind.
func TestBenchEndsEarly(t *testing.T) {
	long(t)
	for part, c := range map[string]struct {
		takes           string // long enough to hear the wanted line in that part
		dies            bool
		free, contended bool
	}{
		"free-bare":          {takes: "2m"},
		"contended":          {takes: "10s", free: true},
		"held":               {takes: "10s", free: true, contended: true},
		"free-":              {takes: "2m", dies: true},
		"contended-bare":     {takes: "8s", dies: true, free: true},
		"contended-Holdfast": {takes: "8s", dies: true, free: true},
		"held-":              {takes: "10s", dies: true, free: true, contended: true},
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			machine.UndisturbedTest(t, func(t testing.TB) {
				s := server.Start(t, server.One(t))
				b := bench(t, "redis://"+s.Addr(), "-for", c.takes, "-leases", "300")
				b.reaches(s, part)
				code, says := 130, "interrupt"
				if c.dies {
					s.Kill()
					code, says = 69, "server is unavailable"
				} else if err := b.Cmd.Process.Signal(os.Interrupt); err != nil {
					t.Fatal(err)
				}
				r := b.ends(code)
				if !strings.Contains(r.Error, says) || len(r.Faults) > 0 || c.dies && len(r.LeftOut) == 0 {
					t.Errorf("the report: %+v", r)
				}
				contended := len(r.of("contended")) > 0
				if (len(r.of("free")) > 0) != c.free || c.contended && !contended || !c.dies && !c.contended && contended {
					t.Errorf("the report differs from what was measured until then: %s", &b.stdout)
				}
				if c.dies {
					expect.Contains(t, "it says", b.stderr.String(), s.Addr()+": server is unavailable")
				} else if keys := benchKeys(t, "", s); len(keys) > 0 {
					t.Errorf("left behind: %v", keys)
				}
			})
		})
	}
}

// If the server forgets locks, two hold one at once, and the bench reports that. (With Holdfast it takes luck:
// the holder's own goroutines come next, and are told of the loss.)
func TestBenchFindsOverlaps(t *testing.T) {
	long(t)
	machine.UndisturbedTest(t, func(t testing.TB) {
		s := server.Start(t, server.One(t))
		b := bench(t, "redis://"+s.Addr(), "-for", "10s", "-leases", "0")
		b.reaches(s, "contended")
		const forget = `for _, key in ipairs(redis.call("KEYS", "holdfast:{bench:*:contended*}")) do redis.call("DEL", key) end`
		for !b.EndsWithin(time.Millisecond) {
			expect.OK(t, expect.ErrOf(s.Do("EVAL", forget, "0")))
		}
		r := b.ends(1)
		c := r.of("contended")
		if len(c) != 1 || c[0].Holdfast.Overlaps+c[0].Holdfast.Lost == 0 || c[0].Bare.Overlaps == 0 || len(r.Faults) < 2 {
			t.Fatalf("the report: %s", &b.stdout)
		}
		const want = "overlaps of two holders of the bare lock"
		if !strings.Contains(r.Error, want) || !strings.Contains(b.stderr.String(), want) {
			t.Errorf("not told: %q, %s", r.Error, &b.stderr)
		}
	})
}

// Behind sentinels; and by a locker, also in a Cluster. A locker lacks only the permission for the server's CPU time: no other command of a
// bench is refused.
func TestBenchOfEachTopology(t *testing.T) {
	long(t)
	for mode, start := range map[string]func(t testing.TB) (url string, servers []*server.Server, leftOut string){
		"sentinel": func(t testing.TB) (string, []*server.Server, string) {
			g := server.StartSentinels(t, server.One(t), 1, 1)
			return "redis+sentinel://" + g.Addrs()[0] + "?master_name=" + g.Name, g.Servers[:1], ""
		},
		"server": func(t testing.TB) (string, []*server.Server, string) {
			s := server.Start(t, server.One(t))
			order(t, s, append([]any{"ACL", "SETUSER", "locker", "on", ">" + canary}, documented(t, "locker")...)...)
			return as("locker", s), []*server.Server{s}, "server CPU: this user may not send INFO"
		},
		"cluster": func(t testing.TB) (string, []*server.Server, string) {
			nodes := server.StartCluster(t, server.One(t), 3)
			for _, s := range nodes {
				order(t, s, append([]any{"ACL", "SETUSER", "locker", "on", ">" + canary}, documented(t, "locker-cluster")...)...)
			}
			return strings.Replace(as("locker", nodes[0]), "redis:", "redis+cluster:", 1), nodes, "server CPU: a Cluster has several servers"
		},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			machine.UndisturbedTest(t, func(t testing.TB) {
				url, servers, leftOut := start(t)
				b := bench(t, url, "-for", "3s", "-leases", "50")
				r := b.ends(0)
				held := r.of("held")
				if r.Mode != mode || len(r.of("free")) != 4 || len(r.of("contended")) != 1 || len(held) != 1 || held[0].Leases != 50 {
					t.Errorf("the report: %s", &b.stdout)
				}
				if leftOut != "" && !slices.Contains(r.LeftOut, leftOut) {
					t.Errorf("left out: %q", r.LeftOut)
				}
				for _, s := range servers {
					// The library asks for INFO and CONFIG when it checks for unsafe settings, for every locker.
					for command, n := range s.Rejections() {
						if n > 0 && !strings.HasPrefix(command, "info") && !strings.HasPrefix(command, "config") {
							t.Errorf("%d of %s were refused", n, command)
						}
					}
				}
				expect.Same(t, "left behind", benchKeys(t, "", servers...), nil)
			})
		})
	}
}

// On a terminal it shows its progress, in a line that is gone at the end.
func TestBenchShowsProgress(t *testing.T) {
	long(t)
	term := openTerminal(t, server.Start(t, server.One(t)))
	term.send("TERM=xterm bench -for 1s -leases 10 >report; echo code $?\n")
	term.expect(`free, 1 goroutine: round 1 of 1 \.\.\.\x1b\[K`)
	term.expect(`free, 8 goroutines: round 1 of 1 \.\.\.\x1b\[K`)
	term.expect(`contended: round 1 of 1 \.\.\.\x1b\[K`)
	term.expect(`held: 10 leases \.\.\.\x1b\[Kcode 0`)
	if text, err := os.ReadFile(filepath.Join(term.dir, "report")); err != nil || bytes.ContainsRune(text, '\x1b') || !bytes.Contains(text, []byte("held: 10 of 10 leases")) {
		t.Errorf("%v: the report is %q", err, text)
	}
}
