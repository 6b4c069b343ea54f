package command

import (
	"bufio"
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/inputs"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// On a server with good settings, the doctor finds nothing, checks everything, and leaves nothing.
func TestDoctorOfAHealthyServer(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		bin, addr := b.Server.Binary(), b.Server.Addr()
		url := "redis://default:" + canary + "@" + addr
		doctor(t, url, func(d *diagnosis) {
			if d.Worst != isOK || d.Mode != "server" || d.Server != addr || !slices.Equal(d.Servers, []string{addr}) {
				d.complain("%s, %s, %s, %q", d.Worst, d.Mode, d.Server, d.Servers)
			}
			ids, _ := checks()
			for _, id := range ids {
				if id != "topology" && id != "failover" && id != "quorum" {
					d.expect(id, isOK, "")
				}
			}
			d.expect("version", isOK, map[bool]string{true: "valkey ", false: "redis "}[bin.Valkey])
			native := "has none"
			switch {
			case bin.Valkey && bin.Major >= 9:
				native = "has DELIFEQ, SET IFEQ"
			case bin.Valkey:
				native = "has SET IFEQ"
			}
			d.expect("native", isOK, native)
			if all := left(t, b.Server); len(all) != 1 || !strings.HasPrefix(all[0], "holdfast:fences for ") {
				d.complain("left behind: %q", all)
			}
		})
	}, server.Conf("requirepass", canary), server.Conf("appendonly", "yes"), server.Conf("appendfsync", "always"),
		server.Conf("maxmemory", "100mb"))
}

// The doctor finds each setting that endangers locks, on every server.
func TestDoctorFindsSettings(t *testing.T) {
	type setting struct {
		set               []any // CONFIG SET
		id, severity, saw string
	}
	// The settings of a round do not affect each other's findings. They stay for the next round.
	rounds := [][]setting{
		{
			{[]any{"maxmemory", "100mb", "maxmemory-policy", "volatile-lru"}, "eviction", isProblem, "volatile-lru with maxmemory 104857600"},
			{[]any{"save", "3600 1"}, "persistence", isWarning, `RDB snapshots only, save "3600 1"`},
			{[]any{"min-replicas-to-write", "1"}, "replication", isProblem, "master with 0 replicas, 0 of them in time"},
		},
		{
			{[]any{"maxmemory-policy", "allkeys-random"}, "eviction", isProblem, "allkeys-random"},
			{[]any{"save", ""}, "persistence", isWarning, "neither AOF nor snapshots"},
			{[]any{"min-replicas-to-write", "0"}, "replication", isOK, "master without replicas"},
		},
		{
			{[]any{"maxmemory", "0", "maxmemory-policy", "allkeys-lru"}, "eviction", isNote, "allkeys-lru, but no maxmemory"},
			{[]any{"appendonly", "yes", "appendfsync", "no"}, "persistence", isWarning, "left to the system"},
		},
		{
			{[]any{"maxmemory", "100kb", "maxmemory-policy", "noeviction"}, "eviction", isOK, "noeviction"},
			{[]any{"appendfsync", "everysec"}, "persistence", isNote, "every second"},
		},
		{
			{[]any{"maxmemory", "0"}, "eviction", isOK, "noeviction"},
			{[]any{"appendfsync", "always"}, "persistence", isOK, "fsync always"},
		},
	}
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		for _, round := range rounds {
			for _, c := range round {
				order(t, b.Server, append([]any{"CONFIG", "SET"}, c.set...)...)
			}
			doctor(t, "redis://"+b.Server.Addr(), func(d *diagnosis) {
				for _, c := range round {
					d.expect(c.id, c.severity, c.saw)
				}
			}, "--ttl", "15s")
		}
	})
}

// The doctor reports how many keys a server has evicted.
func TestDoctorTellsEvictions(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.One(t), server.Conf("maxmemory", "3mb"), server.Conf("maxmemory-policy", "allkeys-lru"))
	for range 400 {
		order(t, s, "EVAL", "for n = 1, 10 do redis.call('SET', 'k' .. redis.call('INCR', 'n'), string.rep('x', 1000)) end", 0)
	}
	doctor(t, "redis://"+s.Addr(), func(d *diagnosis) { d.expect("eviction", isProblem, "keys evicted since the start") })
}

func TestDoctorFindsAFailedSave(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		s := b.Server
		expect.OK(t, os.Mkdir(filepath.Join(s.Dir(), "dump.rdb"), 0o700))
		t.Cleanup(func() { _ = os.Remove(filepath.Join(s.Dir(), "dump.rdb")) })
		order(t, s, "BGSAVE")
		backend.Eventually(t, "saving has failed", func() bool { return s.Info("persistence")["rdb_last_bgsave_status"] == "err" })
		doctor(t, "redis://"+s.Addr(), func(d *diagnosis) {
			d.expect("persistence", isProblem, "the last RDB save failed")
			d.expect("trial", isProblem, "MISCONF")
		})
		order(t, s, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
		doctor(t, "redis://"+s.Addr(), func(d *diagnosis) { d.expect("persistence", isWarning, "the last RDB save failed") })
	}, server.Conf("save", "3600 1"))
}

func TestDoctorOfAFullServer(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.One(t), server.Conf("maxmemory", "1"))
	doctor(t, "redis://"+s.Addr(), func(d *diagnosis) { d.expect("trial", isProblem, "out of memory") })
}

// An interrupted examination ends without a report.
func TestDoctorInterrupted(t *testing.T) {
	t.Parallel()
	l := expect.Of(net.Listen("tcp", "127.0.0.1:0")).OK(t)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := command(ctx, []string{"HOLDFAST_REDIS=redis://" + l.Addr().String()}, "doctor")
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	expect.OK(t, cmd.Start())
	conn, err := l.Accept() // from a doctor under way, which gets no answer
	expect.OK(t, err)
	defer conn.Close()
	expect.OK(t, expect.ErrOf(bufio.NewReader(conn).ReadByte()))
	expect.OK(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 || out.Len() > 0 || !strings.Contains(said.String(), "stopped by a signal: interrupt") {
		t.Errorf("exit code %d: %s%s", code, &out, &said)
	}
}

// documented returns the ACL rules of a role in docs/acl.
func documented(t testing.TB, role string) []any {
	t.Helper()
	expect.OK(t, inputs.In("../../docs/acl"))
	text := expect.Of(os.ReadFile("../../docs/acl/" + role + ".rules")).OK(t)
	var rules []any
	for line := range strings.Lines(string(text)) {
		rule, _, _ := strings.Cut(line, "#")
		if rule = strings.TrimSpace(rule); rule != "" {
			rules = append(rules, rule)
		}
	}
	return rules
}

// as returns the URL of a server for a user with the password canary.
func as(user string, s *server.Server) string {
	return "redis://" + user + ":" + canary + "@" + s.Addr()
}

// A user with the least rights gets neither problems nor warnings. Questions that it may not ask are not
// checked, and the report says why.
func TestDoctorWithTheLeastRights(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		order(t, b.Server, append([]any{"ACL", "SETUSER", "locks", "on", ">" + canary}, documented(t, "locker")...)...)
		doctor(t, as("locks", b.Server), func(d *diagnosis) {
			if d.Worst != isUnchecked || d.ExitCode != 3 {
				d.complain("the worst is %s, exit code %d", d.Worst, d.ExitCode)
			}
			for id, command := range map[string]string{
				"acl": "ACL WHOAMI", "eviction": "CONFIG GET", "identity": "INFO", "native": "COMMAND DOCS", "persistence": "CONFIG GET",
				"replication": "INFO",
			} {
				d.expect(id, isUnchecked, "NOPERM for "+command)
			}
			for _, id := range []string{"version", "trial", "clock", "pubsub", "latency"} {
				d.expect(id, isOK, "")
			}
		})
		// INFO shows some of what CONFIG GET does.
		order(t, b.Server, "ACL", "SETUSER", "locks", "+info", "+acl|whoami")
		doctor(t, as("locks", b.Server), func(d *diagnosis) {
			for id, saw := range map[string]string{"eviction": "noeviction", "replication": "without replicas"} {
				d.expect(id, isOK, saw)
			}
			d.expect("persistence", isWarning, "snapshots unknown (NOPERM for CONFIG GET)")
			d.expect("acl", isUnchecked, "NOPERM for ACL DRYRUN")
		})
	})
}

// A user lacks a right that locks need.
func TestDoctorWithMissingRights(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.One(t))
	for name, c := range map[string]struct {
		rules []any
		judge func(d *diagnosis, user string)
	}{
		"a command of scripts": {[]any{"~*", "&*", "+@all", "-set"}, func(d *diagnosis, user string) {
			d.expect("acl", isProblem, user+" may not: set")
			d.expect("trial", isProblem, "denies access")
		}},
		"scripts": {[]any{"~*", "&*", "+@all", "-@scripting"}, func(d *diagnosis, user string) {
			d.expect("acl", isProblem, user+" may not: eval, evalsha")
			d.expect("trial", isProblem, "denies access")
		}},
		"keys": {[]any{"~other:*", "&*", "+@all"}, func(d *diagnosis, user string) {
			d.expect("acl", isProblem, user+" may not: ")
			d.expect("acl", isProblem, "get on its keys")
			d.expect("trial", isProblem, "denies access")
		}},
		"channels": {[]any{"~*", "resetchannels", "+@all"}, func(d *diagnosis, user string) {
			d.expect("acl", isWarning, user+" may not: publish on its channels, subscribe on its channels")
			d.expect("pubsub", isWarning, "NOPERM for SUBSCRIBE")
			d.expect("trial", isOK, "") // by polling
		}},
		"publish": {[]any{"~*", "&*", "+@all", "-publish"}, func(d *diagnosis, user string) {
			d.expect("acl", isWarning, user+" may not: publish")
			d.expect("pubsub", isWarning, "NOPERM for PUBLISH")
			d.expect("trial", isWarning, "waiters got a released lock only after")
		}},
		"a command of scripts for many locks": {[]any{"~*", "&*", "+@all", "-mget"}, func(d *diagnosis, user string) {
			d.expect("acl", isWarning, user+" may not: mget")
			d.expect("trial", isOK, "")
		}},
		"hashes": {[]any{"~*", "&*", "+@all", "-@hash", "-persist"}, func(d *diagnosis, user string) {
			d.expect("acl", isWarning, user+" may not: hget, hmget, hscan, hset, hdel, persist")
			d.expect("trial", isOK, "")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && (name == "channels" || name == "publish") { // waiters poll in the trial, which takes seconds
				t.Skip("SKIPPED: part of make nightly")
			}
			t.Parallel()
			user := "without-" + strings.ReplaceAll(name, " ", "-")
			order(t, s, append([]any{"ACL", "SETUSER", user, "on", ">" + canary}, c.rules...)...)
			doctor(t, as(user, s), func(d *diagnosis) { c.judge(d, "user "+user) })
		})
	}
}

// Locks do not need the command by which newer servers release them.
func TestDoctorWithoutDeletingByValue(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		if bin := b.Server.Binary(); !bin.Deletes() {
			t.Skipf("SKIPPED: %s has no DELIFEQ; Valkey 9 has", bin.Name)
		}
		order(t, b.Server, "ACL", "SETUSER", "u", "on", ">"+canary, "~*", "&*", "+@all", "-delifeq")
		doctor(t, as("u", b.Server), func(d *diagnosis) {
			d.expect("acl", isNote, "user u may not: delifeq")
			d.expect("trial", isOK, "")
		})
	})
}
