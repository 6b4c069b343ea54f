// Package security tests what users of a server may and may not do, what goes over the wire, what is shown, and
// how a client behaves with a hostile server or hostile neighbours. docs/SECURITY.md makes the promises.
package security

import (
	"context"
	"errors"
	"fmt"
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
	if err := inputs.In(docs); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(docs, "acl", name+".rules"))
	if err != nil {
		t.Fatal(err)
	}
	r := role{name: name}
	for line := range strings.Lines(string(text)) {
		words, comment, _ := strings.Cut(line, "#")
		for _, word := range strings.Fields(words) {
			r.rules = append(r.rules, rule{word, strings.HasPrefix(strings.TrimSpace(comment), "optional")})
		}
	}
	if len(r.rules) < 5 {
		t.Fatalf("%s has %d rules", name, len(r.rules))
	}
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

// user makes a user with these rules, and no others.
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

// client returns a holdfast client for a user.
func (s site) client(t *testing.T, user string) *holdfast.Client {
	t.Helper()
	c, err := holdfastgoredis.New(s.redis(t, user), &unhurried)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Locks that a user still holds without the right to release them are not waited for.
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

// The documents show the very rules that are tested.
func TestTheDocumentsShowTheRolesThatAreTested(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(docs, "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := strings.Join(strings.Fields(string(text)), " ")
	files, err := filepath.Glob(filepath.Join(docs, "acl", "*.rules"))
	if err != nil || len(files) != 6 {
		t.Fatalf("%d roles, %v", len(files), err)
	}
	for _, file := range files {
		r := readRole(t, strings.TrimSuffix(filepath.Base(file), ".rules"))
		name := strings.TrimSuffix(r.name, "-cluster")
		want := fmt.Sprintf("ACL SETUSER %s on >PASSWORD %s ```", name, strings.Join(r.texts(), " "))
		if !strings.Contains(shown, want) {
			t.Errorf("docs/SECURITY.md does not show %s as\n%s", file, want)
		}
	}
}

// A locker that may use the command which newer servers have for a release does; without it, it is refused once. Nothing
// else is different.
func TestReleasesByCommandUnderAnACL(t *testing.T) {
	t.Parallel()
	everySite(t, func(t *testing.T, s site) {
		if !s.nodes[0].Binary().Deletes() {
			t.Skipf("SKIPPED: %s has no DELIFEQ; Valkey 9 has", s.nodes[0].Binary().Name)
		}
		count := func(what func(*server.Server) map[string]int64) (sum int64) {
			for _, n := range s.nodes {
				sum += what(n)["delifeq"]
			}
			return sum
		}
		rules := s.role(t, "locker").texts()
		s.user(t, "without", rules)
		s.user(t, "with", append(rules, "+delifeq"))
		const locks = 10
		for user, want := range map[string][2]int64{"without": {0, 1}, "with": {locks, 0}} {
			ran, refused := count((*server.Server).CommandStats), count((*server.Server).Rejections)
			c := s.client(t, user)
			for i := range locks {
				backend.Release(t, backend.Acquire(t, c.Mutex(fmt.Sprint("m", i))))
			}
			got := [2]int64{count((*server.Server).CommandStats) - ran, count((*server.Server).Rejections) - refused}
			if got != want {
				t.Errorf("%s: %d DELIFEQ, and %d refused; want %v", user, got[0], got[1], want)
			}
		}
		if err := s.redis(t, "with").Do(t.Context(), "DELIFEQ", "payroll", "42").Err(); !errors.Is(denied(err), holdfast.ErrDenied) {
			t.Errorf("a key outside of the prefix: %v", err)
		}
	})
}

// What a role of a Cluster may do beyond that of a single server, and the other way
// round, is what pub/sub, the fence counter and the client need there.
func TestRolesForAClusterDifferInLittle(t *testing.T) {
	for _, name := range []string{"locker", "inspector", "breaker"} {
		one, many := readRole(t, name).texts(), readRole(t, name+"-cluster").texts()
		for _, r := range one {
			if !slices.Contains(many, r) && !strings.ContainsAny(r, "&|") && !strings.HasSuffix(r, "publish") && !strings.HasSuffix(r, "subscribe") && r != "+xrevrange" {
				t.Errorf("%s: %s is not in the rules for a Cluster", name, r)
			}
		}
	}
}
