package engine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

func TestOldServersAreRefused(t *testing.T) {
	for _, s := range []struct {
		server, version string
		ok              bool
	}{
		{"redis", "7.0.0", true},
		{"redis", "7.0.15", true},
		{"redis", "8.2.1", true},
		{"redis", "10.0.0", true},
		{"redis", "6.2.14", false},
		{"redis", "2.8", false},
		{"valkey", "7.2.4", true},
		{"valkey", "9.0.0", true},
		{"valkey", "7.1.9", false},
		{"something else", "1.0", true}, // says nothing of what it can do
		{"redis", "unstable", true},
	} {
		err := supported(driver.ServerInfo{Server: s.server, Version: s.version})
		if (err == nil) != s.ok {
			t.Errorf("%s %s: %v", s.server, s.version, err)
		}
		if err != nil && !strings.Contains(err.Error(), s.version) {
			t.Errorf("the error does not name the version: %v", err)
		}
	}
}

func TestWhichServersHaveDelifeq(t *testing.T) {
	for _, s := range []struct {
		server, version string
		has             bool
	}{
		{"valkey", "9.0.0", true},
		{"valkey", "9.1.2", true},
		{"valkey", "10.0", true},
		{"valkey", "8.1.4", false},
		{"valkey", "unstable", false},
		{"valkey", "", false},
		{"redis", "9.0.0", false},
		{"", "9.0.0", false},
	} {
		if has := has(driver.ServerInfo{Server: s.server, Version: s.version}, delifeq); has != s.has {
			t.Errorf("%s %s: %v", s.server, s.version, has)
		}
	}
}

func TestBatchIsBounded(t *testing.T) {
	for given, want := range map[int]int{0: maxBatch, -1: -1, 1: 1, maxBatch: maxBatch, maxBatch + 1: maxBatch, 1 << 30: maxBatch} {
		cfg := Config{Batch: given}
		if err := cfg.fill("host"); err != nil || cfg.Batch != want {
			t.Errorf("%d is taken for %d, %v; want %d", given, cfg.Batch, err, want)
		}
	}
}

func TestErrorsOfServersAreTold(t *testing.T) {
	for text, want := range map[string]error{
		"WRONGTYPE Operation against a key":                                       ErrWrongType,
		"NOAUTH Authentication required.":                                         ErrAuth,
		"WRONGPASS invalid username-password pair or user is disabled.":           ErrAuth,
		"NOPERM this user has no permissions":                                     ErrPermission,
		"ERR The user executing the script can't run this command or subcommand":  ErrPermission,
		"ERR The user executing the script can't access at least one of the keys": ErrPermission,

		"ERR ACL failure in script: User u has no permissions to run the 'set' command": ErrPermission,
		"READONLY You can't write against a read only replica.":                         ErrReadOnly,
		"OOM command not allowed when used memory > 'maxmemory'.":                       ErrOutOfMemory,
		"LOADING Redis is loading the dataset in memory":                                ErrLoading,
		"BUSY Redis is busy running a script.":                                          ErrBusy,
		"NOREPLICAS Not enough good replicas to write.":                                 ErrWritesRefused,
		"MISCONF Errors writing to the AOF file":                                        ErrWritesRefused,
		"CLUSTERDOWN Hash slot not served":                                              ErrUnavailable,
		"MOVED 866 127.0.0.1:7001":                                                      ErrUnsupported,
		"ERR unknown command 'evalsha'":                                                 ErrUnsupported,
		"ERR something else":                                                            nil,
	} {
		o, kind := classify(driver.ReplyError(text))
		if kind != want || o != refused {
			t.Errorf("%q is %v, %v; want %v", text, o, kind, want)
		}
	}
	if o, kind := classify(errors.New("i/o timeout")); o != unknown || kind != ErrUnavailable {
		t.Errorf("an error of the way is %v, %v", o, kind)
	}
	if o, _ := classify(notSent{errors.New("no connection")}); o != unsent {
		t.Errorf("an error of something that was not sent is %v", o)
	}
}

// Locks with equal options share their settings, and no others do.
func TestLocksShareTheirSettings(t *testing.T) {
	c, err := New(&fake{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, b := c.Mutex("a", TTL(time.Second)), c.Mutex("b", TTL(time.Second))
	if a.set != b.set {
		t.Error("two locks with one option do not share it")
	}
	for what, other := range map[string]*Lock{
		"another TTL":  c.Mutex("a", TTL(2*time.Second)),
		"another kind": c.RWMutex("a", TTL(time.Second)).Reader(),
		"notes":        c.Mutex("a", TTL(time.Second), Meta("k", "v")),
		"an error":     c.Mutex("", TTL(time.Second)),
	} {
		if *other.set == *a.set {
			t.Errorf("%s: the settings are the same", what)
		}
	}
	if err := c.Mutex("a", TTL(time.Second)).set.err; err != nil {
		t.Errorf("the error of another lock is met: %v", err)
	}
	for i := range 100 {
		c.Mutex("a", TTL(time.Second+time.Duration(i)*time.Millisecond))
	}
	if a.set.ttl != time.Second {
		t.Errorf("the TTL became %s", a.set.ttl)
	}
}
