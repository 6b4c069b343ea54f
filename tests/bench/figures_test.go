package main

import (
	"maps"
	"testing"
	"time"
)

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
