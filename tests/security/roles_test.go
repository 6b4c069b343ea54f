// Package security tests what users of a server may and may not do, what goes over the wire, what is shown, and
// how a client behaves with a hostile server or hostile neighbours. docs/SECURITY.md makes the promises.
package security

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/inputs"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

const docs = "../../docs"

// rule is one permission of a role.
type rule struct {
	text     string
	optional bool // everything works without it, if less well
}

// role is the rules of docs/acl.
type role struct {
	name  string
	rules []rule
}

// readRole reads docs/acl/NAME.rules.
func readRole(t *testing.T, name string) role {
	t.Helper()
	expect.OK(t, inputs.In(docs))
	text := expect.Of(os.ReadFile(filepath.Join(docs, "acl", name+".rules"))).OK(t)
	r := role{name: name}
	for line := range strings.Lines(string(text)) {
		words, comment, _ := strings.Cut(line, "#")
		for _, word := range strings.Fields(words) {
			r.rules = append(r.rules, rule{word, strings.HasPrefix(strings.TrimSpace(comment), "optional")})
		}
	}
	expect.AtLeast(t, "rules of "+name, len(r.rules), 5)
	return r
}

// without returns the texts of all rules but one.
func (r role) without(left rule) []string {
	var texts []string
	for _, rule := range r.rules {
		if rule != left {
			texts = append(texts, rule.text)
		}
	}
	return texts
}

func (r role) texts() []string { return r.without(rule{}) }

// TestMain collects go-redis's log about servers that have gone.
func TestMain(m *testing.M) {
	redis.SetLogger(said)
	backend.AtOnce(24)
	os.Exit(m.Run())
}

// said is what go-redis has logged.
var said = &log{}

type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *log) Printf(_ context.Context, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(&l.text, format+"\n", args...)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// site is a server, or a Cluster.
type site struct {
	nodes   []*server.Server
	cluster bool
	patient bool // tests that take seconds are included
}

// everySite runs f on every kind of server, alone and as a Cluster.
func everySite(t *testing.T, f func(t *testing.T, s site)) {
	t.Parallel()
	for i, bin := range server.Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			f(t, site{nodes: []*server.Server{server.Start(t, bin)}, patient: i == 0 || soak.Long()})
		})
		t.Run(bin.Name+" Cluster", func(t *testing.T) {
			t.Parallel()
			f(t, site{nodes: server.StartCluster(t, bin, 3), cluster: true, patient: soak.Long()})
		})
	}
}

// role reads the ACL that a role has on this site.
func (s site) role(t *testing.T, name string) role {
	if s.cluster {
		name += "-cluster"
	}
	return readRole(t, name)
}

// do runs a command on every node, as the operator.
func (s site) do(t *testing.T, args ...any) {
	t.Helper()
	for _, n := range s.nodes {
		if _, err := n.Do(args...); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
}

const password = "open-sesame"

func (s site) user(t *testing.T, name string, rules []string) {
	t.Helper()
	command := []any{"ACL", "SETUSER", name, "reset", "on", ">" + password}
	for _, r := range rules {
		command = append(command, r)
	}
	s.do(t, command...)
}

// redis returns a client for a user; "" is the operator, who may do everything.
func (s site) redis(t *testing.T, user string) redis.UniversalClient {
	o := &redis.UniversalOptions{IsClusterMode: s.cluster}
	for _, n := range s.nodes {
		o.Addrs = append(o.Addrs, n.Addr())
	}
	if user != "" {
		o.Username, o.Password = user, password
	}
	rdb := redis.NewUniversalClient(o)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// unhurried is for servers that answer: a refusal comes at once, and if something is slow, it is the machine.
var unhurried = holdfast.Config{CommandTimeout: 20 * time.Second, RetryTimeout: 40 * time.Second}

func (s site) client(t *testing.T, user string) *holdfast.Client {
	t.Helper()
	c := expect.Of(holdfastgoredis.New(s.redis(t, user), &unhurried)).OK(t)
	t.Cleanup(func() {
		// Locks that a user still holds without the right to release them are not waited for.
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

// A locker that may use the command which newer servers have for a release does. TestACommandThatIsLacking has the others.
func TestReleasesByCommandUnderAnACL(t *testing.T) {
	everySite(t, func(t *testing.T, s site) {
		if !s.nodes[0].Binary().Deletes() {
			t.Skipf("SKIPPED: %s has no DELIFEQ; Valkey 9 has", s.nodes[0].Binary().Name)
		}
		s.user(t, "with", append(s.role(t, "locker").texts(), "+delifeq"))
		const locks = 10
		c := s.client(t, "with")
		for i := range locks {
			backend.Release(t, backend.Acquire(t, c.Mutex(fmt.Sprint("m", i))))
		}
		deleted := int64(0)
		for _, n := range s.nodes {
			deleted += n.CommandStats()["delifeq"]
		}
		expect.Equal(t, "releases by DELIFEQ", deleted, locks)
		if err := s.redis(t, "with").Do(t.Context(), "DELIFEQ", "payroll", "42").Err(); !errors.Is(denied(err), holdfast.ErrDenied) {
			t.Errorf("a key outside of the prefix: %v", err)
		}
	})
}

// snippets returns the commands in docs/SECURITY.md that make users, each with the following lines up to the end of its block, as people
// paste it.
func snippets(t *testing.T) (all [][]string) {
	t.Helper()
	text := expect.Of(os.ReadFile(filepath.Join(docs, "SECURITY.md"))).OK(t)
	inside := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "ACL SETUSER "):
			all, inside = append(all, []string{line}), true
		case line == "" || line == "```":
			inside = false
		case inside:
			all[len(all)-1] = append(all[len(all)-1], line)
		}
	}
	return all
}

// What the documents give for a user of the server works as it is pasted into redis-cli, which takes each line for a command of
// its own; and the files of docs/acl work as a server's aclfile.
func TestACLsWorkAsTheyArePasted(t *testing.T) {
	t.Parallel()
	for _, bin := range server.Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t, bin)
			// users returns the rules of all users, as the server has them.
			users := func(s *server.Server) map[string]string {
				reply := expect.Of(s.Do("ACL", "LIST")).OK(t)
				all := map[string]string{}
				for _, line := range reply.([]any) {
					_, line, _ := strings.Cut(fmt.Sprint(line), " ")
					name, text, _ := strings.Cut(line, " ")
					rules := slices.DeleteFunc(strings.Fields(text), func(r string) bool { return r == "sanitize-payload" }) // the default
					slices.Sort(rules)                                                                                       // they have no order
					all[name] = strings.Join(rules, " ")
				}
				return all
			}
			want := map[string]string{} // by role
			for _, role := range []string{"locker", "inspector", "breaker"} {
				for _, suffix := range []string{"", "-cluster"} {
					command := []any{"ACL", "SETUSER", "wanted", "reset", "on", ">PASSWORD"}
					for _, rule := range readRole(t, role+suffix).texts() {
						command = append(command, rule)
					}
					expect.OK(t, expect.ErrOf(s.Do(command...)))
					want[role+suffix] = users(s)["wanted"]
				}
			}

			conn := expect.Of(net.Dial("tcp", s.Addr())).OK(t)
			defer conn.Close()
			replies := bufio.NewReader(conn)
			seen := map[string]bool{}
			for _, lines := range snippets(t) {
				name := strings.Fields(lines[0])[2]
				for _, line := range lines {
					fmt.Fprintf(conn, "%s\r\n", line)
					if reply, err := replies.ReadString('\n'); err != nil || !strings.HasPrefix(reply, "+OK") {
						t.Errorf("%.60s...: %q, %v", line, reply, err)
					}
				}
				role, made := strings.Replace(name, "locks", "locker", 1), users(s)[name]
				switch made {
				case want[role]:
					seen[name] = true
				case want[role+"-cluster"]:
					seen[name+"-cluster"] = true
				default:
					t.Errorf("%s has the rules\n%s\nwant\n%s", name, made, want[role])
				}
				expect.OK(t, expect.ErrOf(s.Do("ACL", "DELUSER", name)))
			}
			expect.Equal(t, "rules that the document shows", len(seen), 6)

			for _, suffix := range []string{"", "-cluster"} {
				file := expect.Of(filepath.Abs(filepath.Join(docs, "acl", "users"+suffix+".acl"))).OK(t)
				got := users(server.Start(t, bin, server.Conf("aclfile", file)))
				for _, role := range []string{"locker", "inspector", "breaker"} {
					expect.Equal(t, fmt.Sprintf("the rules of %s in %s, as in %s%s.rules", role, file, role, suffix), got[role], want[role+suffix])
				}
			}
		})
	}
}

// docs/SECURITY.md says what a locker needs besides for Redisson's locks. Without the channel nobody is told of
// releases, and nothing else changes. If a permission is missing in the middle of a script, no lock without a
// holder is left behind.
func TestRedissonsLocksUnderAnACL(t *testing.T) {
	everySite(t, func(t *testing.T, s site) {
		locker := append(s.role(t, "locker").texts(), "~orders")
		told := append(slices.Clone(locker), "&redisson_lock__channel:*")
		for name, rules := range map[string][]string{"deaf": locker, "told": told} {
			s.user(t, name, rules)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			lock := func() *holdfast.Lock { return s.client(t, name).RedissonMutex("orders") }
			lease, err := lock().Acquire(ctx)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			j := job{site: s, t: t, name: name}
			seen := s.client(t, "").RedissonMutex("orders")
			waiting := j.queue(ctx, seen, lock())
			expect.Err(t, name+": Release", lease.Release(ctx), nil)
			expect.Err(t, name+": a waiter", result(waiting), nil)

			operator := s.redis(t, "")
			operator.HSet(ctx, "orders", "b7a1c8e0-3f5a-4a44-8b90-1d3f6f0b7c11:1", 1)
			operator.PExpire(ctx, "orders", time.Minute)
			waiting = j.queue(ctx, seen, lock())
			operator.Del(ctx, "orders")
			expect.Err(t, name+": a waiter behind a client of Redisson's", result(waiting), nil)
		}
		for _, missing := range []string{"hget", "hset", "pexpire", "exists"} {
			s.user(t, "no-"+missing, append(slices.Clone(told), "-"+missing))
			_, err := s.client(t, "no-"+missing).RedissonMutex("orders").TryAcquire(t.Context())
			expect.Err(t, "without "+missing, err, holdfast.ErrDenied)
			expect.Equal(t, "keys that are left without "+missing, s.redis(t, "").Exists(t.Context(), "orders").Val(), 0)
		}
	})
}
