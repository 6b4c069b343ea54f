package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// tests/command/doctor_test.go tests examinations of real servers, Clusters and sentinels.

// documented returns the ACL rules of docs/acl for programs that take locks.
func documented(t *testing.T) []string {
	t.Helper()
	here, err := os.Getwd() // The name begins with the module's folder, because the test cache ignores changes of other files.
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(here + "/../../../../docs/acl/locker.rules")
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	for line := range strings.Lines(string(text)) {
		rule, _, _ := strings.Cut(line, "#")
		if rule = strings.TrimSpace(rule); rule != "" {
			rules = append(rules, rule)
		}
	}
	return rules
}

// The check of the ACL covers exactly the documented permissions.
func TestNeedsAreThoseOfTheDocumentedACL(t *testing.T) {
	needs := map[string]bool{}
	for _, commands := range rights(false) {
		for _, command := range commands {
			needs[nameOf(command, "")] = true
		}
	}
	delete(needs, "delifeq") // which older servers do not know
	for _, rule := range documented(t) {
		command, is := strings.CutPrefix(rule, "+")
		if is && !needs[command] {
			t.Errorf("%s is documented, but not checked", command)
		}
		delete(needs, command)
	}
	if len(needs) > 0 {
		t.Errorf("checked, but not documented: %v", needs)
	}
}

// Checks that the embedded server does not support are reported as not checked. In virtual time, no reply is late.
func TestEmbeddedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.Run(t)
		r := examined(t, serverAt("127.0.0.1:0", func(o *redis.Options) { o.Dialer = s.Dial }))
		if r.Worst != Unchecked || r.ExitCode != 3 {
			t.Errorf("the worst is %s, exit code %d", r.Worst, r.ExitCode)
		}
		for _, id := range []string{"trial", "pubsub", "latency", "clock", "version"} {
			expect(t, r, id, OK, "")
		}
	})
}

func TestLatency(t *testing.T) {
	for took, want := range map[time.Duration]Severity{
		time.Millisecond: OK, 499 * time.Millisecond: OK, 501 * time.Millisecond: Warning,
		4999 * time.Millisecond: Warning, 5001 * time.Millisecond: Problem,
	} {
		f := judgeLatency(time.Microsecond, []time.Duration{took}, 15*time.Second)
		if f.Severity != want || (want != OK) != (f.Remedy != "") {
			t.Errorf("%s: %+v", took, f)
		}
	}
}

// behindSentinels returns the configuration of a master behind these sentinels, without a network.
func behindSentinels(s *holdfasttest.Server, master string, sentinels map[string]*redistest.Sentinel) Config {
	o := &redis.FailoverOptions{
		MasterName: master, SentinelAddrs: slices.Sorted(maps.Keys(sentinels)),
		DialTimeout: time.Minute, ReadTimeout: time.Minute,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			sentinel := sentinels[addr]
			if sentinel == nil {
				return s.Dial(ctx, network, addr)
			}
			client, server := net.Pipe()
			go sentinel.Serve(server)
			return client, nil
		},
	}
	return Config{Client: redis.NewFailoverClient(o), Addr: strings.Join(o.SentinelAddrs, ","), Sentinel: o}
}

// Examine compares the TTL with the times of the slowest sentinel. The test is not in virtual time, because go-redis looks up a name
// when it makes a client that asks sentinels.
func TestSentinelsTellHowLongAFailoverTakes(t *testing.T) {
	t.Parallel()
	watching := func(fields ...any) *redistest.Sentinel {
		return &redistest.Sentinel{Masters: map[string]string{"main": "127.0.0.1:6379"}, Fields: fields}
	}
	cfg := behindSentinels(holdfasttest.Run(t), "main", map[string]*redistest.Sentinel{
		"127.0.0.1:1": watching("down-after-milliseconds", 30000, "failover-timeout", 180000),
		"127.0.0.1:2": watching("down-after-milliseconds", 5000, "failover-timeout", 20000),
		"127.0.0.1:3": watching(),
	})
	cfg.TTL = 15 * time.Second
	r := examined(t, cfg)
	two := []string{"127.0.0.1:1", "127.0.0.1:2"}
	f := expect(t, r, "failover", Warning, "down-after-milliseconds 30000, TTL 15s")
	if !slices.Equal(f.Servers, two) || !strings.HasSuffix(f.Remedy, "; or on each sentinel, SENTINEL SET main down-after-milliseconds 5000") {
		t.Errorf("%+v", f)
	}
	f = expect(t, r, "failover", Note, "failover-timeout 180000")
	if !slices.Equal(f.Servers, two) || !strings.Contains(f.Consequence, "6m0s") || f.Remedy != "on each sentinel, SENTINEL SET main failover-timeout 20000" {
		t.Errorf("%+v", f)
	}
	expect(t, r, "failover", Unchecked, "SENTINEL MASTER: the server does not tell")
	expect(t, r, "topology", OK, "3 of 3 sentinels in the URL answer")
}

// Examine reports an address that is a server's, and a sentinel that watches another master, and examines the master all the same. If
// no sentinel knows the master's name, the error lists the names that they know.
func TestWrongSentinelsAreNamed(t *testing.T) {
	t.Parallel()
	s := holdfasttest.Run(t)
	sentinels := map[string]*redistest.Sentinel{
		"127.0.0.1:1": nil, // leads to the server
		"127.0.0.1:2": {Masters: map[string]string{"other": "127.0.0.1:6379"}},
		"127.0.0.1:3": {Masters: map[string]string{"main": "127.0.0.1:6379"}},
		"127.0.0.1:4": {Masters: map[string]string{"main": "127.0.0.1:6379"}},
	}
	r := examined(t, behindSentinels(s, "main", sentinels))
	expect(t, r, "topology", Warning, "127.0.0.1:1: a Redis server, not a sentinel")
	expect(t, r, "topology", Warning, `127.0.0.1:2: no master is called "main"; there is "other"`)
	expect(t, r, "topology", OK, "2 of 4 sentinels in the URL answer")
	if !slices.Equal(r.Servers, []string{"127.0.0.1:6379"}) {
		t.Errorf("examined %q", r.Servers)
	}
	_, err := tryToExamine(t, behindSentinels(s, "mian", sentinels))
	if !errors.Is(err, holdfast.ErrUnavailable) {
		t.Fatalf("another name: %v", err)
	}
	for _, want := range []string{"127.0.0.1:1: a Redis server, not a sentinel", `no master is called "mian"; there is "main"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it does not say %s: %v", want, err)
		}
	}
}

// A lease outlasts a failover if its TTL is 1.5 × (the time until the master is considered down + 5 s). For holdfast run, its
// --kill-after of 5 s is added to the sum.
func TestFailover(t *testing.T) {
	for _, c := range []struct {
		down, ttl time.Duration
		severity  Severity
		remedy    string
	}{
		{30 * time.Second, 15 * time.Second, Warning, "a TTL of 52.5s would do, or 1m0s for holdfast run with its --kill-after of 5s; or SET IT 5000"},
		{30 * time.Second, 9 * time.Second, Warning, "a TTL of 52.5s would do, or 1m0s for holdfast run with its --kill-after of 5s; or SET IT 1000"},
		{30 * time.Second, 8 * time.Second, Warning, "a TTL of 52.5s would do, or 1m0s for holdfast run with its --kill-after of 5s"},
		{5 * time.Second, 15*time.Second - 1, Warning, "a TTL of 15s would do, or 22.5s for holdfast run with its --kill-after of 5s; or SET IT 4500"},
		{5 * time.Second, 15 * time.Second, Note, "for holdfast run, --ttl 22.5s, or a shorter --kill-after"},
		{5 * time.Second, 22500 * time.Millisecond, OK, ""},
	} {
		f := judgeFailover("the setting", "SET IT", c.down, c.ttl)
		if f.Severity != c.severity || f.Remedy != c.remedy || !strings.HasPrefix(f.Saw, fmt.Sprintf("the setting %d, TTL %s", c.down.Milliseconds(), c.ttl)) {
			t.Errorf("%s, %s: %+v", c.down, c.ttl, f)
		}
	}
}

func TestMain(m *testing.M) {
	redis.SetLogger(noLogger{}) // as the command does
	// The library's clock that counts suspensions would run while virtual time stands still.
	clock.SetBoot(func() time.Duration { return 0 })
	m.Run()
}

type noLogger struct{}

func (noLogger) Printf(context.Context, string, ...any) {}

// examined examines a server, with a short watch of its clock.
func examined(t *testing.T, cfg Config) *Report {
	t.Helper()
	r, err := tryToExamine(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		if f.Servers == nil || f.Saw == "" {
			t.Errorf("%+v says too little", f)
		}
		if f.Severity != OK && f.Severity != Unchecked && (f.Consequence == "" || f.Remedy == "") {
			t.Errorf("%+v lacks its consequence or remedy", f)
		}
	}
	return r
}

func tryToExamine(t *testing.T, cfg Config) (*Report, error) {
	t.Helper()
	t.Cleanup(func() { _ = cfg.Client.Close() })
	if cfg.TTL == 0 {
		cfg.TTL = time.Hour // no latency on a busy machine is too long for that
	}
	cfg.Watch = 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := Examine(ctx, []Config{cfg})
	if r != nil {
		text, err := json.Marshal(r)
		if err != nil {
			t.Error(err)
		}
		printed := r.Text(false)
		if all := string(text) + printed; strings.Contains(all, "canary") {
			t.Errorf("the report shows the password: %s", all)
		}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("the report:\n%s", printed)
			}
		})
	}
	return r, err
}

// serverAt makes the configuration of one server.
func serverAt(addr string, change ...func(*redis.Options)) Config {
	o := &redis.Options{Addr: addr}
	for _, f := range change {
		f(o)
	}
	return Config{Client: redis.NewClient(o), Addr: addr}
}

// expect looks for a finding by its check, its severity and a part of what was seen.
func expect(t *testing.T, r *Report, id string, severity Severity, saw string) Finding {
	t.Helper()
	var all []string
	for _, f := range r.Findings {
		if f.ID != id {
			continue
		}
		if f.Severity == severity && strings.Contains(f.Saw, saw) {
			return f
		}
		all = append(all, fmt.Sprintf("%s: %s", f.Severity, f.Saw))
	}
	t.Errorf("%s: found %q, want %s: %s", id, all, severity, saw)
	return Finding{}
}
