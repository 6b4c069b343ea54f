package main

import (
	"fmt"
	"maps"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{7}, 7}, {[]float64{9, 1, 4}, 4}, {[]float64{8, 1, 2, 100}, 5},
	} {
		before := fmt.Sprint(c.values)
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v: got %v; want %v", c.values, got, c.want)
		}
		if after := fmt.Sprint(c.values); after != before {
			t.Errorf("the values %s are %s now", before, after)
		}
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i
	}
	for _, c := range []struct {
		values []int
		p      float64
		want   int
	}{
		{nil, 50, 0}, {[]int{3}, 99, 3}, {[]int{3}, 0, 3}, {[]int{5, 1}, 50, 1}, {[]int{5, 1}, 51, 5},
		{hundred, 50, 50}, {hundred, 99, 99}, {hundred, 99.5, 100}, {hundred, 100, 100},
	} {
		if got := percentile(c.values, c.p); got != c.want {
			t.Errorf("%v%% of %v: got %v; want %v", c.p, c.values, got, c.want)
		}
	}
}

// A round that went badly moves no median; an overlap in a single round is told.
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

func TestEverybodyIsFirstOnce(t *testing.T) {
	var rounds []string
	for round := range 4 {
		rounds = append(rounds, fmt.Sprint(rotated([]string{"a", "b", "c"}, round)))
	}
	if got, want := fmt.Sprint(rounds), "[[a b c] [b c a] [c a b] [a b c]]"; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

// Of several processes cycles and costs add up; samples are looked at together.
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

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.123: "0.12", 9.5: "9.50", 12.34: "12.3", 999.4: "999", 1234: "1,234", 1234567.8: "1,234,568", 64: "64"} {
		if got := short(v); got != want {
			t.Errorf("%v: got %s; want %s", v, got, want)
		}
	}
}
