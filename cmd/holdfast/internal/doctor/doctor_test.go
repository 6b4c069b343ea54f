package doctor

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/resp"
	"github.com/holdfast-go/holdfast/tests/server"
	"github.com/holdfast-go/holdfast/tests/soak"
)

// On a server with all settings as they should be, nothing is found, everything is
// looked at, and nothing is left.
func TestHealthyServer(t *testing.T) {
	t.Parallel()
	on(t, func(t *testing.T, bin server.Binary, s *server.Server) {
		r := examine(t, serverAt(s.Addr(), as("default")))
		if r.Worst != OK || r.ExitCode != 0 || r.Mode != "server" || !slices.Equal(r.Servers, []string{s.Addr()}) {
			t.Errorf("%+v", r)
		}
		for _, c := range Checks {
			if c.ID != "topology" && c.ID != "quorum" {
				expect(t, r, c.ID, OK, "")
			}
		}
		expect(t, r, "password", OK, "nobody gets in without one")
		expect(t, r, "version", OK, map[bool]string{true: "valkey ", false: "redis "}[bin.Valkey])
		native := "has none"
		switch {
		case bin.Valkey && bin.Major >= 9:
			native = "has DELIFEQ, SET IFEQ"
		case bin.Valkey:
			native = "has SET IFEQ"
		}
		expect(t, r, "native", OK, native)
		left, err := s.Do("KEYS", "*")
		if got, _ := left.([]any); err != nil || len(got) != 1 || got[0] != "holdfast:fence" {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}, server.Conf("requirepass", "canary"), server.Conf("appendonly", "yes"), server.Conf("appendfsync", "always"),
		server.Conf("maxmemory", "100mb"))
}

// Each setting that endangers locks is found, on every server.
func TestSettings(t *testing.T) {
	t.Parallel()
	table := []struct {
		set      []any // CONFIG SET
		id       string
		severity Severity
		saw      string
	}{
		{[]any{"maxmemory", "100mb", "maxmemory-policy", "volatile-lru"}, "eviction", Problem, "volatile-lru with maxmemory 100 MB"},
		{[]any{"maxmemory", "100mb", "maxmemory-policy", "allkeys-random"}, "eviction", Problem, "allkeys-random"},
		{[]any{"maxmemory", "0", "maxmemory-policy", "allkeys-lru"}, "eviction", Note, "allkeys-lru, but no maxmemory"},
		{[]any{"maxmemory-policy", "noeviction"}, "eviction", OK, "noeviction"},
		{[]any{"maxmemory", "100kb"}, "memory", Warning, "of 100 kB used"},
		{[]any{"maxmemory", "0"}, "memory", OK, "no maxmemory"},
		{[]any{"save", "3600 1"}, "persistence", Warning, `RDB snapshots only, save "3600 1"`},
		{[]any{"save", ""}, "persistence", Warning, "neither AOF nor snapshots"},
		{[]any{"appendonly", "yes", "appendfsync", "no"}, "persistence", Warning, "left to the system"},
		{[]any{"appendfsync", "everysec"}, "persistence", Note, "every second"},
		{[]any{"appendfsync", "always"}, "persistence", OK, "fsync always"},
		{[]any{"min-replicas-to-write", "1"}, "replication", Problem, "master with 0 replicas, of which 0 in time"},
		{[]any{"min-replicas-to-write", "0"}, "replication", OK, "master without replicas"},
		{[]any{"busy-reply-threshold", "0"}, "busy-limit", Note, "never reported"},
		{[]any{"busy-reply-threshold", "20000"}, "busy-limit", Note, "after 20s"},
		{[]any{"client-output-buffer-limit", "pubsub 1000 500 10"}, "pubsub-buffer", Note, "cut off at 1000 B, or 500 B for 10s"},
		{[]any{"client-output-buffer-limit", "pubsub 0 0 0"}, "pubsub-buffer", OK, "never"},
		{[]any{"maxclients", "1"}, "connections", Warning, "1 of maxclients 1"},
	}
	on(t, func(t *testing.T, _ server.Binary, s *server.Server) {
		for _, c := range table {
			do(t, s, append([]any{"CONFIG", "SET"}, c.set...)...)
			expect(t, look(t, s), c.id, c.severity, c.saw)
		}
	})
}

// look examines only what a server says of itself.
func look(t *testing.T, s *server.Server) *Report {
	t.Helper()
	x := &examination{Config: serverAt(s.Addr())}
	x.TTL = 15 * time.Second
	defer x.Client.Close()
	x.discover(t.Context())
	x.nodes[0].load(t.Context())
	x.nodes[0].settings(t.Context())
	r := &Report{Server: s.Addr()}
	r.conclude(x.found)
	return r
}

// What a server counts is told: keys that it evicted, connections that it refused.
func TestCounters(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.One(t), server.Conf("maxmemory", "3mb"), server.Conf("maxmemory-policy", "allkeys-lru"))
	for range 400 {
		do(t, s, "EVAL", "for n = 1, 10 do redis.call('SET', 'k' .. redis.call('INCR', 'n'), string.rep('x', 1000)) end", 0)
	}
	expect(t, look(t, s), "eviction", Problem, "keys evicted since the start")

	do(t, s, "CONFIG", "SET", "maxclients", "10")
	conns := make([]*resp.Conn, 12)
	for i := range conns {
		var err error
		if conns[i], err = s.Dial(); err != nil {
			t.Fatal(err)
		}
		_, _ = conns[i].Do("PING") // some are refused
	}
	for _, c := range conns[1:] {
		_ = c.Close()
	}
	if _, err := conns[0].Do("CONFIG", "SET", "maxclients", "1000"); err != nil {
		t.Fatal(err)
	}
	_ = conns[0].Close()
	expect(t, look(t, s), "connections", Note, "refused since the start")
}

func TestFailedSave(t *testing.T) {
	t.Parallel()
	on(t, func(t *testing.T, _ server.Binary, s *server.Server) {
		if err := os.Mkdir(filepath.Join(s.Dir(), "dump.rdb"), 0o700); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(filepath.Join(s.Dir(), "dump.rdb")) })
		do(t, s, "BGSAVE")
		eventually(t, "saving has failed", func() bool { return s.Info("persistence")["rdb_last_bgsave_status"] == "err" })
		r := examine(t, serverAt(s.Addr()))
		expect(t, r, "persistence", Problem, "the last RDB save failed")
		expect(t, r, "trial", Problem, "MISCONF")
		do(t, s, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
		expect(t, look(t, s), "persistence", Warning, "the last RDB save failed")
	}, server.Conf("save", "3600 1"))
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20s: %s", what)
		}
	}
}

// A master and its replica, each as a program may meet it.
func TestReplication(t *testing.T) {
	t.Parallel()
	on(t, func(t *testing.T, bin server.Binary, master *server.Server) {
		replica := server.StartReplica(t, bin, master)
		r := examine(t, serverAt(replica.Addr()))
		expect(t, r, "replication", Problem, "replica of "+master.Addr())
		expect(t, r, "trial", Problem, "read-only")
		if r.ExitCode != 2 {
			t.Errorf("exit code %d", r.ExitCode)
		}
		expect(t, look(t, master), "replication", Warning, "master with 1 replica, min-replicas-to-write 0")
		do(t, master, "CONFIG", "SET", "min-replicas-to-write", "1")
		expect(t, look(t, master), "replication", OK, "master with 1 replica, min-replicas-to-write 1")
		do(t, master, "CONFIG", "SET", "min-replicas-max-lag", "60")
		expect(t, look(t, master), "replication", Note, "min-replicas-max-lag 60")
		do(t, master, "CONFIG", "SET", "min-replicas-to-write", "2")
		expect(t, look(t, master), "replication", Problem, "of which 1 in time; min-replicas-to-write 2")
		expect(t, examine(t, serverAt(master.Addr())), "trial", Problem, "NOREPLICAS")
		server.StartReplica(t, bin, master)
		do(t, master, "CONFIG", "SET", "min-replicas-to-write", "1", "min-replicas-max-lag", "10")
		expect(t, look(t, master), "replication", Note, "master with 2 replicas, min-replicas-to-write 1")
	})
}

func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.One(t), server.Conf("maxmemory", "1"))
	expect(t, examine(t, serverAt(s.Addr())), "trial", Problem, "out of memory")
}

// documented returns the ACL of those who lock.
func documented(t *testing.T) []any {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/acl/locker.acl")
	if err != nil {
		t.Fatal(err)
	}
	var rules []any
	for line := range strings.Lines(string(text)) {
		rule, _, _ := strings.Cut(line, "#")
		if rule = strings.TrimSpace(rule); rule != "" {
			rules = append(rules, rule)
		}
	}
	return rules
}

// What permissions asks for is what is documented.
func TestNeedsAreThoseOfTheDocumentedACL(t *testing.T) {
	space, err := keys.NewSpace("holdfast:")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{x: &examination{space: space}}
	needs := map[string]bool{}
	for _, c := range n.needs() {
		needs[c.name("")] = true
	}
	for _, rule := range documented(t) {
		command, is := strings.CutPrefix(rule.(string), "+")
		if is && !needs[command] {
			t.Errorf("%s is documented, and not asked for", command)
		}
		delete(needs, command)
	}
	if len(needs) > 0 {
		t.Errorf("asked for, and not documented: %v", needs)
	}
}

// A user with the least rights gets no problem and no warning; what it may not ask is
// not checked, and says why.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	on(t, func(t *testing.T, _ server.Binary, s *server.Server) {
		do(t, s, append([]any{"ACL", "SETUSER", "locks", "on", ">canary"}, documented(t)...)...)
		r := examine(t, serverAt(s.Addr(), as("locks")))
		if r.Worst != Unchecked || r.ExitCode != 0 {
			t.Errorf("the worst is %s, exit code %d", r.Worst, r.ExitCode)
		}
		for id, command := range map[string]string{
			"acl": "ACL WHOAMI", "busy-limit": "CONFIG GET", "connections": "INFO", "eviction": "CONFIG GET", "identity": "INFO",
			"memory": "CONFIG GET", "native": "COMMAND INFO", "persistence": "CONFIG GET", "pubsub-buffer": "CONFIG GET", "replication": "INFO",
		} {
			expect(t, r, id, Unchecked, "NOPERM for "+command)
		}
		for _, id := range []string{"version", "trial", "clock", "pubsub", "latency"} {
			expect(t, r, id, OK, "")
		}
		// INFO has some of what CONFIG GET tells.
		do(t, s, "ACL", "SETUSER", "locks", "+info", "+acl|whoami")
		r = examine(t, serverAt(s.Addr(), as("locks")))
		for id, saw := range map[string]string{"eviction": "noeviction", "memory": "no maxmemory", "connections": "maxclients", "replication": "without replicas"} {
			expect(t, r, id, OK, saw)
		}
		expect(t, r, "persistence", Warning, "snapshots not known (NOPERM for CONFIG GET)")
		expect(t, r, "acl", Unchecked, "NOPERM for ACL DRYRUN")
	})
}

// A user who lacks something that locks need.
func TestMissingRights(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rules []any
		want  func(t *testing.T, r *Report)
	}{
		"a command of scripts": {[]any{"~*", "&*", "+@all", "-set"}, func(t *testing.T, r *Report) {
			expect(t, r, "acl", Problem, "user u may not: set, set")
			expect(t, r, "trial", Problem, "denies access")
		}},
		"scripts": {[]any{"~*", "&*", "+@all", "-@scripting"}, func(t *testing.T, r *Report) {
			expect(t, r, "acl", Problem, "user u may not: eval, evalsha")
			expect(t, r, "trial", Problem, "denies access")
		}},
		"keys": {[]any{"~other:*", "&*", "+@all"}, func(t *testing.T, r *Report) {
			expect(t, r, "acl", Problem, "get on its keys")
			expect(t, r, "trial", Problem, "denies access")
		}},
		"channels": {[]any{"~*", "resetchannels", "+@all"}, func(t *testing.T, r *Report) {
			expect(t, r, "acl", Warning, "user u may not: publish on its channels, subscribe on its channels")
			expect(t, r, "pubsub", Warning, "NOPERM for SUBSCRIBE")
			expect(t, r, "trial", OK, "") // by polling
		}},
		"publish": {[]any{"~*", "&*", "+@all", "-publish"}, func(t *testing.T, r *Report) {
			expect(t, r, "acl", Warning, "user u may not: publish")
			expect(t, r, "pubsub", Warning, "NOPERM for a script that publishes")
			expect(t, r, "trial", Warning, "waiters got a released lock after")
		}},
		"a command of scripts for many locks": {[]any{"~*", "&*", "+@all", "-mget"}, func(t *testing.T, r *Report) {
			f := expect(t, r, "acl", Warning, "user u may not: mget")
			if !strings.HasPrefix(f.Consequence, "locks of many goroutines are released and renewed one by one") {
				t.Errorf("the consequence is %q", f.Consequence)
			}
			expect(t, r, "trial", OK, "")
		}},
		"hashes": {[]any{"~*", "&*", "+@all", "-@hash", "-persist"}, func(t *testing.T, r *Report) {
			f := expect(t, r, "acl", Warning, "user u may not: hget, hgetall, hmget, hset, hdel, hvals, persist")
			if !strings.HasPrefix(f.Consequence, "read-write locks and semaphores cannot be used") {
				t.Errorf("the consequence is %q", f.Consequence)
			}
			expect(t, r, "trial", OK, "")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t, server.One(t))
			do(t, s, append([]any{"ACL", "SETUSER", "u", "on", ">canary"}, c.rules...)...)
			c.want(t, examine(t, serverAt(s.Addr(), as("u"))))
		})
	}
}

// The command that newer servers have for a release is not needed.
func TestUsersWhoMayNotDeleteByValue(t *testing.T) {
	t.Parallel()
	on(t, func(t *testing.T, bin server.Binary, s *server.Server) {
		if !bin.Deletes() {
			t.Skipf("SKIPPED: %s has no DELIFEQ; Valkey 9 has", bin.Name)
		}
		do(t, s, "ACL", "SETUSER", "u", "on", ">canary", "~*", "&*", "+@all", "-delifeq")
		r := examine(t, serverAt(s.Addr(), as("u")))
		f := expect(t, r, "acl", Note, "user u may not: delifeq")
		if !strings.HasPrefix(f.Consequence, "each client has one release refused") {
			t.Errorf("the consequence is %q", f.Consequence)
		}
		expect(t, r, "trial", OK, "")
	})
}

// What stands between can make one server look like another.
func TestBetween(t *testing.T) {
	t.Parallel()
	s, other := server.Start(t, server.One(t)), server.Start(t, server.One(t))
	t.Run("a balancer", func(t *testing.T) {
		t.Parallel()
		f := expect(t, examine(t, serverAt(s.Addr(), balancer(t, s.Addr(), other.Addr()))), "identity", Problem, "lead to 2 servers")
		if f.Consequence != "each of them grants the same lock" {
			t.Errorf("%+v", f)
		}
	})
	t.Run("a proxy that keeps subscriptions", func(t *testing.T) {
		t.Parallel()
		r := examine(t, serverAt(s.Addr(), through(func(m *middle, p []byte) {
			if bytes.HasPrefix(p, []byte("*2\r\n$9\r\nsubscribe\r\n")) {
				_ = m.Conn.Close()
				conn, err := net.Dial("tcp", other.Addr())
				if err != nil {
					t.Error(err)
					return
				}
				m.Conn = conn
			}
		}, nil)))
		expect(t, r, "pubsub", Warning, "the server does not have it: a proxy keeps it")
	})
	t.Run("a slow way", func(t *testing.T) {
		t.Parallel()
		p := proxy.New(t, s.Addr())
		p.DelayReplies(5 * time.Millisecond)
		cfg := serverAt(p.Addr())
		cfg.TTL = 30 * time.Millisecond
		expect(t, examine(t, cfg), "latency", Problem, "p99")
	})
	t.Run("a server that answers no more", func(t *testing.T) {
		t.Parallel()
		r := examine(t, serverAt(s.Addr(), through(func(m *middle, p []byte) {
			if bytes.HasPrefix(p, []byte("*1\r\n$4\r\nping\r\n")) {
				_ = m.Conn.Close()
			}
		}, nil)))
		expect(t, r, "latency", Unchecked, "PING: ")
		expect(t, r, "trial", Problem, "PING: ")
	})
	t.Run("an old version", func(t *testing.T) {
		t.Parallel()
		old := regexp.MustCompile(`(\$7\r\nversion\r\n\$\d+\r\n)\d`)
		r := examine(t, serverAt(s.Addr(), through(nil, func(p []byte) []byte { return old.ReplaceAll(p, []byte("${1}2")) })))
		expect(t, r, "version", Problem, "or later is needed")
	})
	t.Run("an unknown server", func(t *testing.T) {
		t.Parallel()
		kind := regexp.MustCompile(`(\$6\r\nserver\r\n\$\d+\r\n)r`)
		r := examine(t, serverAt(s.Addr(), through(nil, func(p []byte) []byte { return kind.ReplaceAll(p, []byte("${1}b")) })))
		expect(t, r, "version", Note, "bedis")
	})
	t.Run("a clock that jumps", func(t *testing.T) {
		t.Parallel()
		now := regexp.MustCompile(`^(\*2\r\n\$10\r\n)(\d{10})`)
		readings := 0
		r := examine(t, serverAt(s.Addr(), through(nil, func(p []byte) []byte {
			return now.ReplaceAllFunc(p, func(m []byte) []byte {
				if readings++; readings < 12 {
					return m
				}
				seconds, _ := strconv.ParseInt(string(m[len(m)-10:]), 10, 64)
				return strconv.AppendInt(m[:len(m)-10], seconds+100, 10)
			})
		})))
		expect(t, r, "clock", Problem, "jumped forward by 1m40s")
	})
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.One(t), server.Conf("requirepass", "canary"))
	for name, c := range map[string]struct {
		cfg  Config
		want error
	}{
		"nobody there":   {serverAt("127.0.0.1:1"), holdfast.ErrUnavailable},
		"no password":    {serverAt(s.Addr()), holdfast.ErrAuth},
		"wrong password": {serverAt(s.Addr(), func(o *redis.Options) { o.Password = "wrong-canary" }), holdfast.ErrAuth},
		"bad prefix":     {Config{Client: serverAt(s.Addr()).Client, Prefix: "a}b"}, holdfast.ErrInvalid},
	} {
		if r, err := tryToExamine(t, c.cfg); !errors.Is(err, c.want) || r != nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	cancel(interrupted)
	cfg := serverAt(s.Addr(), as("default"))
	defer cfg.Client.Close()
	if _, err := Examine(ctx, cfg); !errors.Is(err, interrupted) {
		t.Errorf("interrupted: %v", err)
	}
}

// What the embedded server cannot answer is not checked.
func TestEmbeddedServer(t *testing.T) {
	t.Parallel()
	s := holdfasttest.Run(t)
	r := examine(t, serverAt("127.0.0.1:0", func(o *redis.Options) { o.Dialer = s.Dial }))
	if r.Worst != Unchecked || r.ExitCode != 0 {
		t.Errorf("the worst is %s, exit code %d", r.Worst, r.ExitCode)
	}
	for _, id := range []string{"trial", "pubsub", "latency", "clock", "version"} {
		expect(t, r, id, OK, "")
	}
}

// some returns servers for what takes long: all in a soak, the last otherwise.
func some(t *testing.T) []server.Binary {
	all := server.Binaries(t)
	if soak.Long() {
		return all
	}
	return all[len(all)-1:]
}

// Every master is examined, and what is found names the one on which it was.
func TestCluster(t *testing.T) {
	t.Parallel()
	for _, bin := range some(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			nodes := server.StartCluster(t, bin, 3, server.Conf("cluster-require-full-coverage", "no"))
			cluster := func() Config {
				return Config{Client: redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}, MaxRedirects: 1, MaxRetries: -1}), Addr: nodes[0].Addr()}
			}
			do(t, nodes[1], "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "volatile-ttl")
			r := examine(t, cluster())
			if f := expect(t, r, "eviction", Problem, "volatile-ttl"); !slices.Equal(f.Servers, []string{nodes[1].Addr()}) {
				t.Errorf("found on %q", f.Servers)
			}
			if r.Mode != "cluster" || len(r.Servers) != 3 {
				t.Errorf("%s, %q", r.Mode, r.Servers)
			}
			if f := expect(t, r, "replication", Warning, "master with 0 replicas"); len(f.Servers) != 3 {
				t.Errorf("found on %q", f.Servers)
			}
			expect(t, r, "topology", OK, "3 masters, 0 replicas, all slots served")
			expect(t, r, "acl", OK, "")
			passed := map[string]int{}
			for _, f := range r.Findings {
				if f.Severity == OK {
					passed[f.ID] += len(f.Servers)
				}
			}
			for _, id := range []string{"trial", "pubsub", "latency", "clock"} {
				if passed[id] != 3 {
					t.Errorf("%s: good on %d of 3 servers", id, passed[id])
				}
			}
			for _, s := range nodes {
				if left, err := s.Do("KEYS", "*"); err != nil || len(left.([]any)) != 0 {
					t.Errorf("left behind: %v, %v", left, err)
				}
			}

			// Reached as if it were a single server.
			r = examine(t, serverAt(nodes[0].Addr()))
			expect(t, r, "topology", Problem, "part of a Cluster")
		})
	}
}

// A master is down, and nobody has its slots.
func TestClusterWithAHole(t *testing.T) {
	t.Parallel()
	nodes := server.StartCluster(t, server.One(t), 3, server.Conf("cluster-node-timeout", "500"))
	nodes[2].Kill()
	eventually(t, "the others notice", func() bool {
		text, err := nodes[0].Do("CLUSTER", "INFO")
		return err == nil && strings.Contains(text.(string), "cluster_state:fail")
	})
	r := examine(t, Config{
		Client: redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}, MaxRedirects: 1, MaxRetries: -1}), Addr: nodes[0].Addr(),
	})
	expect(t, r, "topology", Problem, "cluster_state fail, 10922 of 16384 slots served")
	if f := expect(t, r, "topology", Warning, "cannot be reached"); !slices.Equal(f.Servers, []string{nodes[2].Addr()}) {
		t.Errorf("found on %q", f.Servers)
	}
	expect(t, r, "trial", Problem, "")
}

// Behind a sentinel there are a master and a replica.
func TestSentinel(t *testing.T) {
	t.Parallel()
	for _, bin := range some(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			g := server.StartSentinel(t, bin)
			group := func(more ...string) Config {
				o := &redis.FailoverOptions{MasterName: g.Name, SentinelAddrs: append([]string{g.Sentinel.Addr()}, more...)}
				return Config{Client: redis.NewFailoverClient(o), Addr: g.Sentinel.Addr(), Sentinel: o}
			}
			do(t, g.Replica, "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "volatile-lru")
			eventually(t, "the replica follows", func() bool { return g.Replica.Info("replication")["master_link_status"] == "up" })
			r := examine(t, group())
			if want := []string{g.Master.Addr(), g.Replica.Addr()}; r.Mode != "sentinel" || !slices.Equal(r.Servers, want) {
				t.Errorf("%s, %q; want %q", r.Mode, r.Servers, want)
			}
			if f := expect(t, r, "eviction", Problem, "volatile-lru"); !slices.Equal(f.Servers, []string{g.Replica.Addr()}) {
				t.Errorf("found on %q", f.Servers)
			}
			expect(t, r, "topology", Note, "1 of 1 sentinel in the URL")
			expect(t, r, "replication", Warning, "min-replicas-to-write 0")
			expect(t, r, "replication", OK, "replica of "+g.Master.Addr())
			expect(t, r, "trial", OK, "")
			expect(t, examine(t, group("127.0.0.1:1")), "topology", Warning, "1 of 2 sentinels in the URL answer")
		})
	}
}

func TestLatency(t *testing.T) {
	n := &node{x: &examination{Config: Config{TTL: 15 * time.Second}}}
	for took, want := range map[time.Duration]Severity{
		time.Millisecond: OK, 499 * time.Millisecond: OK, 501 * time.Millisecond: Warning,
		4999 * time.Millisecond: Warning, 5001 * time.Millisecond: Problem,
	} {
		if f := n.latency(nil, []time.Duration{took}); f.Severity != want || (want != OK) != (f.Remedy != "") {
			t.Errorf("%s: %+v", took, f)
		}
	}
}

// The way to other machines is judged by address and options; nothing is sent.
func TestTransport(t *testing.T) {
	for _, c := range []struct {
		options  redis.Options
		severity Severity
		saw      string
	}{
		{redis.Options{Addr: "127.0.0.1:6379"}, OK, "within this machine"},
		{redis.Options{Addr: "[::1]:6379"}, OK, "within this machine"},
		{redis.Options{Network: "unix", Addr: "/run/redis.sock"}, OK, "within this machine"},
		{redis.Options{Addr: "192.0.2.1:6379"}, Warning, "not encrypted"},
		{redis.Options{Addr: "192.0.2.1:6379", Password: "canary"}, Warning, "a password is sent"},
		{redis.Options{Addr: "192.0.2.1:6379", TLSConfig: &tls.Config{}}, OK, "TLS"},
		{redis.Options{Addr: "127.0.0.1:6379", TLSConfig: &tls.Config{InsecureSkipVerify: true}}, Warning, "certificate is not checked"},
	} {
		rdb := redis.NewClient(&c.options)
		f := (&node{addr: c.options.Addr, rdb: rdb}).transport(t.Context())
		if f.Severity != c.severity || !strings.Contains(f.Saw, c.saw) || (f.Severity != OK) != (f.Remedy != "") {
			t.Errorf("%s: %+v", c.options.Addr, f)
		}
		_ = rdb.Close()
	}
}

// A server elsewhere that asks for no password; here it is one of this machine that
// goes by another address.
func TestPassword(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.One(t))
	rdb := serverAt(s.Addr(), balancer(t, s.Addr()), as("default")).Client.(*redis.Client)
	defer rdb.Close()
	n := &node{addr: "192.0.2.1:6379", rdb: rdb}
	if f := n.password(t.Context()); f.Severity != Warning || f.Remedy == "" {
		t.Errorf("%+v", f)
	}
	do(t, s, "CONFIG", "SET", "requirepass", "canary")
	if f := n.password(t.Context()); f.Severity != OK {
		t.Errorf("%+v", f)
	}
}
