package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

func TestRatios(t *testing.T) {
	var out strings.Builder
	writeRatios(&out, options{cells: []cell{{Kind: "contended", name: "contended"}, {Kind: "held", name: "held"}}}, results{
		"contended": {
			"holdfast-goredis": {"rate": 1, "handover_us": 30, "longest_us": 50},
			"redsync":          {"rate": 1, "handover_us": 10, "longest_us": 100, "overlaps": 1},
			"redislock":        {"rate": 1, "handover_us": 20, "longest_us": 200},
			"etcd":             {"rate": 1, "handover_us": 15},
		},
		"held": {"holdfast-goredis": {"errors": 1}}, // a turn that did not finish shows nothing
	})
	const want = `
| Holdfast | is | over the others |
| --- | ---: | ---: |
| contended, handover_us: holdfast-goredis | 30 | redislock 1.50, etcd 2 |
| contended, longest_us: holdfast-goredis | 50 | redislock 0.25 |
`
	expect.Equal(t, "the ratios", out.String(), want)
}

func TestPlotIsXML(t *testing.T) {
	r := results{}
	for i, n := range levels {
		r[freeCell(n)] = map[string]figures{"holdfast-rueidis": {"rate": float64(1000 * (i + 1))}, "redsync": {"rate": 90}}
	}
	image := plot(r)
	if err := xml.Unmarshal([]byte(image), new(struct{})); err != nil {
		t.Errorf("%v in %s", err, image)
	}
	lines := strings.Count(image, "<polyline ")
	if lines != 2 {
		t.Errorf("%d lines in %s", lines, image)
	}
}

func TestUnknownNamesAreRefused(t *testing.T) {
	for args, want := range map[string]string{"-cells=fre": `no cells in "fre"`, "-only=redsync,holdfast": `no contestant "holdfast"`, "-against=nonesuch": "-against: "} {
		var said bytes.Buffer
		if code := bench(t.Context(), []string{args}, nil, io.Discard, &said); code != 2 || !strings.Contains(said.String(), want) {
			t.Errorf("%s: got code %d, %q; want 2, %q", args, code, &said, want)
		}
	}
}

// The whole bench, but in little time.
func TestBench(t *testing.T) {
	r, tables, said := medians(t, "-quick", "-for", "50ms", "-leases", "50", "-svg", filepath.Join(t.TempDir(), "free.svg"),
		"-only", "holdfast-goredis,holdfast-scripts,bare-goredis,rueidislock-1s,redsync,redisson-scripts-goredis")
	for _, turn := range []string{
		"free/1 holdfast-goredis", "free/64 bare-goredis", "free/4096 rueidislock-1s", "contended holdfast-goredis", "contended bare-goredis",
		"one holdfast-goredis", "one bare-goredis", "held holdfast-goredis",
		"read/1 holdfast-goredis", "read/8 redisson-scripts-goredis", "readwrite holdfast-goredis",
		"quorum/1 redsync", "quorum/64 holdfast-goredis", "cluster/512 bare-goredis", "cluster/512 holdfast-goredis",
		"crowd/2 rueidislock-1s", "crowd/8 holdfast-goredis", "crowd/8 redisson-scripts-goredis",
		"memory holdfast-goredis", "memory bare-goredis", "memory redisson-scripts-goredis",
		"queue holdfast-scripts",
	} {
		cell, name, _ := strings.Cut(turn, " ")
		f := r[cell][name]
		// If the machine stands still, there may be no time for a cycle, except in held.
		if f["client_us"] == 0 || cell == "held" && f["rate"] == 0 || f["overlaps"]+f["lost"] > 0 {
			t.Errorf("%s: %v; %s", turn, f, said)
		}
		if cell == "queue" {
			if f["release_1000_p50"] == 0 || f["enqueue_100000_p99"] < f["enqueue_100000_p50"] {
				t.Errorf("%s: %v", turn, f)
			}
		}
		if strings.HasPrefix(name, "redisson") && f["errors"] > 0 {
			t.Errorf("%s: %v; %s", turn, f, said)
		}
		if !strings.Contains(tables, fmt.Sprintf("| %s | ", name)) {
			t.Errorf("%s is not in %s", name, tables)
		}
	}
}

// What a lock takes differs from server to server.
func TestMemory(t *testing.T) {
	r, _, _ := medians(t, "-cells", "memory", "-leases", "2000", "-only", "bare-goredis,holdfast-goredis")
	plain, ours := r["memory"]["bare-goredis"]["stored"], r["memory"]["holdfast-goredis"]["stored"]
	expect.Between(t, "bytes of a plain key", plain, 50, 250)
	expect.Between(t, "more bytes of Holdfast's lock", ours-plain, 10, 250)
}

// The contestant in Java, in each of its cells.
func TestRedisson(t *testing.T) {
	java := expect.Of(findJava(t.Context(), t.TempDir())).OK(t)
	if java.missing != "" {
		t.Skipf("SKIPPED, REDISSON NOT TESTED: %s", java.missing)
	}
	r, tables, said := medians(t, "-quick", "-for", "300ms", "-only", "redisson")
	for _, cell := range []string{"free/1", "free/64", "free/4096", "contended", "readwrite"} {
		f := r[cell]["redisson"]
		if f["client_us"] == 0 || f["overlaps"]+f["errors"] > 0 {
			t.Errorf("%s: %v; %s", cell, f, said)
		}
	}
	expect.Contains(t, "the tables", tables, java.redisson)
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == workerArgument || os.Args[1] == delayerArgument) {
		main()
	}
	os.Exit(m.Run())
}

// medians runs the bench, which has to succeed, and returns its medians, and all that it wrote.
func medians(t *testing.T, args ...string) (r results, tables, said string) {
	t.Helper()
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	var out, log bytes.Buffer
	if code := bench(t.Context(), args, nil, &out, &log); code != 0 {
		t.Fatalf("code %d: %s", code, &log)
	}
	tables, line, ok := strings.Cut(out.String(), "\n{")
	var all struct{ Medians results }
	if err := json.Unmarshal([]byte("{"+line), &all); !ok || err != nil {
		t.Fatalf("%v in %s", err, &out)
	}
	return all.Medians, tables, log.String()
}

// A bad round does not change medians, but an overlap in a single round shows.
func TestSummary(t *testing.T) {
	got := summary([]figures{
		{"rate": 10, "overlaps": 0, "errors": 1},
		{"rate": 1000, "overlaps": 2, "errors": 0},
		{"rate": 12, "overlaps": 0, "errors": 3},
	})
	want := figures{"rate": 12, "overlaps": 2, "errors": 4}
	if !maps.Equal(got, want) {
		t.Errorf("got %v; want %v", got, want)
	}
}

// Cycles and costs of several processes add up; their samples are joined.
func TestAccount(t *testing.T) {
	ms := time.Millisecond
	got := account([]outcome{
		{Cycles: 3, Took: 2 * time.Second, CPU: 6 * ms, Mallocs: 10, Handovers: []time.Duration{ms, 2 * ms}, Waits: []time.Duration{ms, 5 * ms}, Grants: []int{3, 0}},
		{Cycles: 1, Took: time.Second, CPU: 2 * ms, Mallocs: 30, Handovers: []time.Duration{9 * ms}, Waits: []time.Duration{7 * ms}, Grants: []int{1, 0}, Errors: 1},
	}, 4*ms, 12, 5)
	want := figures{
		"rate": 2, "redis_us": 1000, "client_us": 2000, "commands": 3, "allocs": 10,
		"handover_us": 2000, "handover99_us": 9000, "wait99_us": 7000, "longest_us": 7000, "jain": 0.4,
		"overlaps": 5, "errors": 1, "lost": 0,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// Ratios are taken round by round, not from medians over all rounds, so a machine that slows down halfway changes nothing.
func TestRatiosAreOfRounds(t *testing.T) {
	this := []figures{{"rate": 200, "p50_us": 4}, {"rate": 20, "p50_us": 40}, {"rate": 0}}
	other := []figures{{"rate": 100, "p50_us": 8}, {"rate": 10, "p50_us": 80}, {"rate": 100, "p50_us": 8}}
	if got, want := ratios(this, other), (figures{"rate": 2, "p50_us": 0.5}); !maps.Equal(got, want) {
		t.Errorf("got %v; want %v", got, want)
	}
}

// The other build is this one, too, behind a script that leaves a trace.
func TestAgainst(t *testing.T) {
	self := expect.Of(os.Executable()).OK(t)
	trace, other := filepath.Join(t.TempDir(), "trace"), filepath.Join(t.TempDir(), "other")
	expect.OK(t, os.WriteFile(other, fmt.Appendf(nil, "#!/bin/sh\necho >>'%s'\nexec '%s' \"$@\"\n", trace, self), 0o700))
	r, tables, _ := medians(t, "-quick", "-for", "50ms", "-cells", "free", "-only", "holdfast-goredis,bare-goredis", "-against", other)
	expect.Contains(t, "the builds are not compared in", tables, "| this build over the other | ")
	for name, want := range map[string]bool{"holdfast-goredis-other": true, "bare-goredis-other": false} {
		if _, is := r["free/1"][name]; is != want {
			t.Errorf("%s has a turn: %t", name, is)
		}
	}
	ran, err := os.ReadFile(trace)
	if turns := bytes.Count(ran, []byte("\n")); err != nil || turns != len(levels) {
		t.Errorf("the other build had %d turns, want %d: %v", turns, len(levels), err)
	}
}

// Etcd has its turns, and its server's figures are taken.
func TestEtcd(t *testing.T) {
	if _, missing := buildEtcd(t.Context(), t.TempDir()); missing != "" {
		t.Skipf("SKIPPED, ETCD NOT TESTED: %s", missing)
	}
	r, tables, said := medians(t, "-quick", "-for", "300ms", "-leases", "50", "-cells", "free,contended,held", "-only", "etcd")
	for cell, f := range r {
		f := f["etcd"]
		if f["client_us"] == 0 || f["overlaps"]+f["errors"]+f["lost"] > 0 {
			t.Errorf("%s: %v; %s", cell, f, said)
		}
	}
	if f := r["held"]["etcd"]; f["rate"] == 0 || f["commands"] < 2 || f["redis_us"] == 0 {
		t.Errorf("held: %v; want a lock and an unlock for each lease, and processor time", f)
	}
	if len(r) != len(levels)+2 || !strings.Contains(tables, "go.etcd.io/etcd/client/v3 v3.") {
		t.Errorf("%d cells; %s", len(r), tables)
	}
}

// Without etcd's server the bench says so, twice, and goes on.
func TestAMissingEtcdIsLeftOutLoudly(t *testing.T) {
	server.One(t)        // before PATH changes
	t.Setenv("PATH", "") // there is no go command
	r, tables, said := medians(t, "-quick", "-for", "50ms", "-leases", "10", "-cells", "held", "-only", "holdfast-goredis,etcd")
	if !strings.Contains(said, "!!! etcd is NOT MEASURED: ") || !strings.Contains(tables, "**etcd was not measured: ") {
		t.Errorf("nothing is said of etcd in %s or in %s", said, tables)
	}
	if f := r["held"]["holdfast-goredis"]; f["rate"] == 0 || len(r["held"]) != 1 {
		t.Errorf("got %v", r["held"])
	}
}
