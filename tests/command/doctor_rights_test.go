package command

import (
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/inputs"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

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
