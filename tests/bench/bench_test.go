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

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

func TestStandings(t *testing.T) {
	found := map[string]standing{}
	for _, s := range standings(results{
		"free/1": {"holdfast-rueidis": {"rate": 950, "p50_us": 13}, "bare-rueidis": {"rate": 1000, "p50_us": 10}, "redsync": {"rate": 500}, "rueidislock": {"rate": 475}},
		"contended": {
			"holdfast-goredis-nolocal": {"rate": 1, "handover_us": 30, "longest_us": 50, "jain": 0.5},
			"redsync":                  {"rate": 1, "handover_us": 10, "longest_us": 100, "overlaps": 1},
			"etcd":                     {"rate": 1, "handover_us": 15, "longest_us": 10}, // no peer: it is outside Redis
			"redislock":                {"rate": 1, "handover_us": 20, "longest_us": 200},
			"rueidislock":              {"rate": 1, "handover_us": 40, "longest_us": 400},
		},
		"far/500µs/8": {"holdfast-rueidis": {"rate": 90, "p50_us": 104}, "redislock": {"rate": 100, "p50_us": 100}, "bare-rueidis": {"rate": 120, "p50_us": 80}},
		"read/1":      {"holdfast-goredis": {"rate": 900}, "redisson-scripts-goredis": {"rate": 100}, "redisson-scripts-rueidis": {"rate": 1000}},
		"read/8":      {"holdfast-goredis": {"rate": 100}, "redisson-scripts-goredis": {"rate": 100}},
		"readwrite":   {"holdfast-rueidis": {"rate": 100, "writer99_us": 10}, "redisson": {"rate": 50, "writer99_us": 40}},
		"quorum/1":    {"holdfast-goredis": {"rate": 1, "p50_us": 100}, "redsync": {"rate": 1, "p50_us": 125}},
		"quorum/64":   {"holdfast-goredis": {"rate": 300}, "redsync": {"rate": 100}},
		"cluster/512": {"holdfast-rueidis": {"rate": 90}, "bare-rueidis": {"rate": 100}, "holdfast-goredis": {"rate": 90}, "bare-goredis": {"rate": 100}},
		"crowd/2":     {"holdfast-goredis": {"rate": 10, "redis_us": 50}, "rueidislock-1s": {"rate": 20}},
		"crowd/500":   {"holdfast-goredis": {"rate": 90, "redis_us": 61}, "rueidislock-1s": {"rate": 4}, "redisson-scripts-goredis": {"rate": 5}},
		"memory":      {"holdfast-goredis": {"rate": 1, "stored": 240}, "bare-goredis": {"rate": 1, "stored": 160}},
		"queue":       {"holdfast-scripts": {"rate": 1, "release_1000_p99": 100, "release_100000_p99": 151, "old_look_1000_p50": 40, "old_look_100000_p50": 48}},
		"held":        {"holdfast-goredis": {"errors": 1}}, // a turn that did not finish shows nothing
	}) {
		found[s.What] = s
	}
	for what, want := range map[string]string{
		"free/1: holdfast-rueidis over bare-rueidis":                                         "0.95 yes",
		"free/1: holdfast-rueidis over the best peer, redsync":                               "1.90",
		"p50 of a lone cycle: holdfast-rueidis over bare-rueidis":                            "1.30 no",
		"contended, hand-over p50: holdfast-goredis-nolocal over the best peer, rueidislock": "0.75 no",  // of the peers that notify
		"contended, longest wait: holdfast-goredis-nolocal over the best peer, redislock":    "0.25 yes", // of the peers without overlaps
		"contended, hand-over p50: holdfast-goredis-nolocal over etcd":                       "2",
		"contended, Jain's index: holdfast-goredis-nolocal":                                  "0.50 no",
		"far/500µs/8, p50: holdfast-rueidis over the best peer, redislock":                   "1.04 yes",
		"far/500µs/8: holdfast-rueidis over the best peer, redislock":                        "0.90 no",
		"far/500µs/8: holdfast-rueidis over bare-rueidis":                                    "0.75",
		"read/1: holdfast-goredis over redisson-scripts-goredis":                             "9 no",
		"read/8: holdfast-goredis over redisson-scripts-goredis":                             "1 yes",
		"readwrite, rate: holdfast-rueidis over redisson":                                    "2",
		"readwrite, writers' wait p99: holdfast-rueidis over redisson":                       "0.25",
		"quorum/64: holdfast-goredis over redsync":                                           "3 yes",
		"quorum, p50 of a lone cycle: holdfast-goredis over redsync":                         "0.80 yes",
		"queue, release, p99 with 100000 waiters, µs":                                        "151 no",
		"queue, release, p99: 100000 waiters over 1000":                                      "1.51 no",
		"queue, look of old waiters, p50: 100000 waiters over 1000":                          "1.20 yes",
		"memory of the server, bytes of a held lock: holdfast-goredis":                       "240 no",
		"memory of the server: holdfast-goredis over bare-goredis":                           "1.50",
		"crowd/2: holdfast-goredis over rueidislock-1s":                                      "0.50",
		"crowd/2, Redis CPU of a cycle, µs: holdfast-goredis":                                "50 yes",
		"crowd/500: holdfast-goredis over rueidislock-1s":                                    "22.5 yes",
		"crowd/500: holdfast-goredis over redisson-scripts-goredis":                          "18 no",
		"crowd/500, Redis CPU of a cycle, µs: holdfast-goredis":                              "61 no",
		"crowd, Redis CPU of a cycle: the highest over the lowest: holdfast-goredis":         "1.22 no",
		"cluster/512: holdfast-goredis over bare-goredis":                                    "0.90 no",
		"cluster/512: holdfast-rueidis over bare-rueidis":                                    "0.90 yes",
	} {
		s, ok := found[what]
		if got := measure.Figure(s.Value) + verdict(s); !ok || got != want {
			t.Errorf("%s: got %q; want %q", what, got, want)
		}
		delete(found, what)
	}
	// There is no standing without its figures.
	if len(found) > 0 {
		t.Errorf("besides: %v", found)
	}
}

func verdict(s standing) string {
	switch {
	case s.Reached == nil:
		return ""
	case *s.Reached:
		return " yes"
	default:
		return " no"
	}
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
			if f["release_1000_p50"] == 0 || f["old_enqueue_100000_p99"] < f["old_enqueue_100000_p50"] {
				t.Errorf("%s: %v", turn, f)
			}
			name = "look, the first has waited for 2 minutes"
		}
		if !strings.Contains(tables, fmt.Sprintf("| %s | ", name)) {
			t.Errorf("%s is not in %s", name, tables)
		}
	}
}

// The plain key has a name of 12 bytes and a value of 22. What it takes beside them, and in all, differs from server to server.
func TestMemory(t *testing.T) {
	r, _, _ := medians(t, "-cells", "memory", "-leases", "2000", "-only", "bare-goredis,holdfast-goredis")
	plain, ours := r["memory"]["bare-goredis"], r["memory"]["holdfast-goredis"]
	if plain["stored_name"] != 12 || plain["stored_value"] != 22 || plain["stored_keys"] < 50 || plain["stored"] < plain["stored_keys"] || plain["stored"] > 250 {
		t.Errorf("a plain key: %v", plain)
	}
	if more := ours["stored"] - plain["stored"]; more < ours["stored_value"]-30 || more > 250 || ours["stored_name"] < 23 {
		t.Errorf("Holdfast's lock: %v; a plain key: %v", ours, plain)
	}
}

// The contestant in Java, in each of its cells.
func TestRedisson(t *testing.T) {
	java, err := findJava(t.Context(), t.TempDir())
	expect.OK(t, err)
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
	if !strings.Contains(tables, java.redisson) {
		t.Errorf("%q is not in %s", java.redisson, tables)
	}
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
	self, err := os.Executable()
	expect.OK(t, err)
	trace, other := filepath.Join(t.TempDir(), "trace"), filepath.Join(t.TempDir(), "other")
	expect.OK(t, os.WriteFile(other, fmt.Appendf(nil, "#!/bin/sh\necho >>'%s'\nexec '%s' \"$@\"\n", trace, self), 0o700))
	r, tables, _ := medians(t, "-quick", "-for", "50ms", "-cells", "free", "-only", "holdfast-goredis,bare-goredis", "-against", other)
	if !strings.Contains(tables, "| this build over the other | ") {
		t.Errorf("the builds are not compared in %s", tables)
	}
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
