package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/child"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// benching is a holdfast bench under way.
type benching struct {
	t      testing.TB
	cmd    *exec.Cmd
	done   chan struct{}
	stdout bytes.Buffer
	stderr bytes.Buffer
}

func bench(t testing.TB, url string, args ...string) *benching {
	t.Helper()
	uses(t)
	b := &benching{t: t, done: make(chan struct{})}
	b.cmd = exec.Command("holdfast", append([]string{"bench", "--json"}, args...)...)
	b.cmd.Env = append(os.Environ(), "HOLDFAST_REDIS="+url, "GORACE=atexit_sleep_ms=0")
	b.cmd.Stdout, b.cmd.Stderr = &b.stdout, &b.stderr
	if err := child.Start(b.cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(b.done)
		_ = b.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = b.cmd.Process.Kill()
		<-b.done
	})
	return b
}

// benchReport is the part of a report that tests read.
type benchReport struct {
	Mode, Keys string
	Free       []struct{ Goroutines int }
	Contended  *struct{ Holdfast, Bare struct{ Overlaps, Lost int } }
	Held       *struct{ Leases, Lost int }
	LeftOut    []string `json:"left_out"`
	Faults     []string
	Error      string
	ExitCode   int `json:"exit_code"`
}

// ends requires that the bench ends with that exit code, and returns the report.
func (b *benching) ends(code int) (r benchReport) {
	b.t.Helper()
	select {
	case <-b.done:
	case <-time.After(2 * hang):
		b.t.Fatal("it does not end")
	}
	if got := b.cmd.ProcessState.ExitCode(); got != code {
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
		select {
		case <-b.done:
			b.t.Fatalf("it ends before %s: %s%s", part, &b.stdout, &b.stderr)
		default:
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
		reply, err := s.Do("KEYS", "holdfast:{bench:*:"+part+"*")
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range reply.([]any) {
			all = append(all, fmt.Sprint(key))
		}
	}
	return all
}

func TestBenchStopsWhenItIsAskedTo(t *testing.T) {
	long(t)
	t.Parallel()
	for _, c := range []struct {
		part, takes     string // long enough to hear the wanted line in that part
		free, contended bool
	}{
		{"free-bare", "2m", false, false},
		{"contended", "10s", true, false},
		{"held", "10s", true, true},
	} {
		t.Run(c.part, func(t *testing.T) {
			t.Parallel()
			machine.UndisturbedTest(t, func(t testing.TB) {
				s := server.Start(t, server.One(t))
				b := bench(t, "redis://"+s.Addr(), "--for", c.takes, "--leases", "300", "--goroutines", "4")
				b.reaches(s, c.part)
				asked := time.Now()
				if err := b.cmd.Process.Signal(os.Interrupt); err != nil {
					t.Fatal(err)
				}
				r := b.ends(130)
				t.Logf("it took %s to end", time.Since(asked))
				if !strings.Contains(r.Error, "interrupt") || len(r.Faults) > 0 {
					t.Errorf("the report: %+v", r)
				}
				if (len(r.Free) > 0) != c.free || (r.Contended != nil) != c.contended {
					t.Errorf("the report differs from what was measured until then: %s", &b.stdout)
				}
				if keys := benchKeys(t, "", s); len(keys) > 0 {
					t.Errorf("left behind: %v", keys)
				}
			})
		})
	}
}

func TestBenchWhoseServerDies(t *testing.T) {
	long(t)
	t.Parallel()
	for part, takes := range map[string]string{"free": "2m", "contended-bare": "8s", "contended-Holdfast": "8s", "held": "10s"} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			machine.UndisturbedTest(t, func(t testing.TB) {
				s := server.Start(t, server.One(t))
				b := bench(t, "redis://"+s.Addr(), "--for", takes, "--leases", "300", "--goroutines", "4")
				b.reaches(s, part)
				s.Kill()
				r := b.ends(69)
				if !strings.Contains(r.Error, "server is unavailable") || len(r.LeftOut) == 0 || len(r.Faults) > 0 {
					t.Errorf("the report: %+v", r)
				}
				if (len(r.Free) > 0) != (part != "free") || part == "held" && r.Contended == nil {
					t.Errorf("the report differs from what was measured until then: %s", &b.stdout)
				}
				if said := b.stderr.String(); !strings.Contains(said, s.Addr()+": server is unavailable") {
					t.Errorf("it says %s", said)
				}
			})
		})
	}
}

// If the server forgets locks, two hold one at once, and the bench reports that. (With Holdfast it takes luck:
// the holder's own goroutines come next, and are told of the loss.)
func TestBenchFindsOverlaps(t *testing.T) {
	long(t)
	t.Parallel()
	machine.UndisturbedTest(t, func(t testing.TB) {
		s := server.Start(t, server.One(t))
		b := bench(t, "redis://"+s.Addr(), "--for", "10s", "--leases", "0", "--goroutines", "4")
		conn, err := s.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		b.reaches(s, "contended")
		ctx, cancel := context.WithCancel(t.Context())
		var forgetting sync.WaitGroup
		subscribed := 0 // clients at the same time
		forgetting.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
				if _, err := conn.Do("EVAL", `for _, key in ipairs(redis.call("KEYS", "holdfast:{bench:*:contended*}")) do redis.call("DEL", key) end`, "0"); err != nil {
					t.Error(err)
					return
				}
				if channels, err := conn.Do("PUBSUB", "CHANNELS", "holdfast:c:*"); err == nil {
					subscribed = max(subscribed, len(channels.([]any)))
				}
			}
		})
		r := b.ends(1)
		cancel()
		forgetting.Wait()
		if r.Contended == nil || r.Contended.Holdfast.Overlaps+r.Contended.Holdfast.Lost == 0 || r.Contended.Bare.Overlaps == 0 || len(r.Faults) < 2 {
			t.Fatalf("the report: %s", &b.stdout)
		}
		if subscribed != 4 {
			t.Errorf("%d clients have waited, want 4", subscribed)
		}
		const want = "overlaps of two holders of the bare lock"
		if !strings.Contains(r.Error, want) || !strings.Contains(b.stderr.String(), want) {
			t.Errorf("not told: %q, %s", r.Error, &b.stderr)
		}
	})
}

// Leases that somebody has deleted are counted, and reported. (If the server lost all its data, their holders
// would claim them again.)
func TestBenchFindsLostLeases(t *testing.T) {
	long(t)
	t.Parallel()
	machine.UndisturbedTest(t, func(t testing.TB) {
		s := server.Start(t, server.One(t))
		b := bench(t, "redis://"+s.Addr(), "--for", "8s", "--leases", "100", "--goroutines", "4")
		b.reaches(s, "held-50}")
		if _, err := s.Do("DEL", benchKeys(t, "held-50}", s)[0]); err != nil {
			t.Fatal(err)
		}
		r := b.ends(1)
		if r.Held == nil || r.Held.Lost != 1 || r.Held.Leases != 100 || !strings.Contains(r.Error, "1 of 100 leases lost (held)") {
			t.Errorf("the report: %s", &b.stdout)
		}
	})
}

func TestBenchBehindSentinels(t *testing.T) {
	long(t)
	t.Parallel()
	machine.UndisturbedTest(t, func(t testing.TB) {
		g := server.StartSentinels(t, server.One(t), 1, 1)
		b := bench(t, "redis+sentinel://"+g.Addrs()[0]+"?master_name="+g.Name, "--for", "2s", "--leases", "50", "--goroutines", "4")
		r := b.ends(0)
		if r.Mode != "sentinel" || len(r.Free) != 1 || r.Contended == nil || r.Held == nil || r.Held.Leases != 50 {
			t.Errorf("the report: %s", &b.stdout)
		}
		if keys := benchKeys(t, "", g.Servers[0]); len(keys) > 0 {
			t.Errorf("left behind: %v", keys)
		}
	})
}

func TestBenchInACluster(t *testing.T) {
	long(t)
	t.Parallel()
	machine.UndisturbedTest(t, func(t testing.TB) {
		nodes := server.StartCluster(t, server.One(t), 3)
		b := bench(t, "redis+cluster://"+nodes[0].Addr(), "--for", "3s", "--leases", "50", "--goroutines", "4")
		r := b.ends(0)
		if r.Mode != "cluster" || len(r.Free) != 1 || r.Contended == nil || r.Held == nil || r.Held.Leases != 50 {
			t.Errorf("the report: %s", &b.stdout)
		}
		if !strings.Contains(strings.Join(r.LeftOut, "\n"), "server CPU: a Cluster has several servers") {
			t.Errorf("left out: %q", r.LeftOut)
		}
		if keys := benchKeys(t, "", nodes...); len(keys) > 0 {
			t.Errorf("left behind: %v", keys)
		}
	})
}

// A locker lacks only the permission for the server's CPU time: no other command of a bench is refused.
func TestBenchAsALocker(t *testing.T) {
	long(t)
	t.Parallel()
	for role, start := range map[string]func(t testing.TB) (url string, servers []*server.Server){
		"locker": func(t testing.TB) (string, []*server.Server) {
			s := server.Start(t, server.One(t))
			return "redis://locker:pw@" + s.Addr(), []*server.Server{s}
		},
		"locker-cluster": func(t testing.TB) (string, []*server.Server) {
			nodes := server.StartCluster(t, server.One(t), 3)
			return "redis+cluster://locker:pw@" + nodes[0].Addr(), nodes
		},
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			machine.UndisturbedTest(t, func(t testing.TB) {
				text, err := os.ReadFile(filepath.Join("..", "..", "docs", "acl", role+".rules"))
				if err != nil {
					t.Fatal(err)
				}
				rules := []any{"ACL", "SETUSER", "locker", "on", ">pw"}
				for line := range strings.Lines(string(text)) {
					rule, _, _ := strings.Cut(line, "#")
					if rule = strings.TrimSpace(rule); rule != "" {
						rules = append(rules, rule)
					}
				}
				url, servers := start(t)
				for _, s := range servers {
					if _, err := s.Do(rules...); err != nil {
						t.Fatal(err)
					}
				}
				b := bench(t, url, "--for", "3s", "--leases", "50", "--goroutines", "4")
				r := b.ends(0)
				if len(r.Free) != 1 || r.Contended == nil || r.Held == nil || r.Held.Leases != 50 {
					t.Errorf("the report: %s", &b.stdout)
				}
				want := "server CPU: this user may not send INFO"
				if len(servers) > 1 {
					want = "server CPU: a Cluster has several servers"
				}
				if !slices.Contains(r.LeftOut, want) {
					t.Errorf("left out: %q", r.LeftOut)
				}
				for _, s := range servers {
					// The library asks for INFO and CONFIG when it checks for unsafe settings, for every
					// locker.
					for command, n := range s.Rejections() {
						if n > 0 && !strings.HasPrefix(command, "info") && !strings.HasPrefix(command, "config") {
							t.Errorf("%d of %s were refused", n, command)
						}
					}
				}
				if keys := benchKeys(t, "", servers...); len(keys) > 0 {
					t.Errorf("left behind: %v", keys)
				}
			})
		})
	}
}

// Whatever a server answers, the bench does not show the password.
func TestBenchShowsNoPassword(t *testing.T) {
	long(t)
	t.Parallel()
	s := server.Start(t, server.One(t), server.Conf("requirepass", "kanarie-7531"))
	for _, c := range []struct {
		what, url string
		codes     string
	}{
		{"works", "redis://:kanarie-7531@" + s.Addr(), "0"},
		{"repeats arguments", "redis://:kanarie-7531@" + echoing(t), "69 77 78"},
		{"wrong", "redis://nobody:kanarie-7531@" + s.Addr(), "77"},
		{"not encoded", "redis://:kanarie-7531#/@" + s.Addr(), "78"},
	} {
		for _, where := range []string{"flag", "environment"} {
			args, env := []string{"bench", "--for", "1", "--goroutines", "2", "--leases", "10"}, []string{"HOLDFAST_REDIS=" + c.url}
			if where == "flag" {
				args, env = append(args, "--redis", c.url), nil
			}
			code, stdout, stderr := invoke(t, env, args...)
			if !strings.Contains(c.codes, fmt.Sprint(code)) {
				t.Errorf("%s, by %s: exit code %d, want one of %s: %s", c.what, where, code, c.codes, stderr)
			}
			if strings.Contains(stdout+stderr, "kanarie") {
				t.Errorf("%s, by %s: it says %s%s", c.what, where, stdout, stderr)
			}
		}
	}
}

// On a terminal it shows its progress, in a line that is gone at the end.
func TestBenchShowsProgress(t *testing.T) {
	long(t)
	t.Parallel()
	term := openTerminal(t, server.Start(t, server.One(t)))
	term.send("TERM=xterm holdfast bench --for 1 --goroutines 1,3 --leases 10 >report; echo code $?\n")
	term.expect(`free, 1 goroutine: round 1 of 1 \.\.\.\x1b\[K`)
	term.expect(`free, 3 goroutines: round 1 of 1 \.\.\.\x1b\[K`)
	term.expect(`contended: round 1 of 1 \.\.\.\x1b\[K`)
	term.expect(`held: 10 leases \.\.\.\x1b\[Kcode 0`)
	if text, err := os.ReadFile(filepath.Join(term.dir, "report")); err != nil || bytes.ContainsRune(text, '\x1b') || !bytes.Contains(text, []byte("held: 10 leases")) {
		t.Errorf("%v: the report is %q", err, text)
	}
}
