// Package security tests what users of a server may and may not do, what goes over the wire, what is shown, and
// how a client behaves with a hostile server or hostile neighbours. docs/SECURITY.md makes the promises.
package security

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
		if deleted != locks {
			t.Errorf("%d of %d releases went by DELIFEQ", deleted, locks)
		}
		if err := s.redis(t, "with").Do(t.Context(), "DELIFEQ", "payroll", "42").Err(); !errors.Is(denied(err), holdfast.ErrDenied) {
			t.Errorf("a key outside of the prefix: %v", err)
		}
	})
}
