package doctor

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Quorums have 3 to 31 nodes. An even number is no problem, but does not let more nodes fail.
func TestNumbersOfNodes(t *testing.T) {
	for n, want := range map[int][]Severity{2: {Problem}, 3: nil, 4: {Note}, 5: nil, 30: {Note}, 31: nil, 32: {Problem}} {
		q := &quorum{addrs: make([]string, n), need: n/2 + 1}
		found := q.checkSize()
		for _, f := range found {
			if refused := strings.Contains(f.Consequence, "refuses"); refused != (f.Severity == Problem) {
				t.Errorf("%d nodes: %+v", n, f)
			}
		}
		if got := severities(found); !slices.Equal(got, want) {
			t.Errorf("%d nodes: %v, want %v: %+v", n, got, want, found)
		}
	}
}

// The vote of a node does not count if its round trip takes longer than the library waits: a quarter of the TTL, or 2 s.
func TestNodesThatAreTooFarAway(t *testing.T) {
	for _, c := range []struct {
		ttl, roundTrip time.Duration
		late           bool
	}{
		{200 * time.Millisecond, 0, false}, {200 * time.Millisecond, 50 * time.Millisecond, false},
		{200 * time.Millisecond, 60 * time.Millisecond, true},
		{time.Hour, 2 * time.Second, false}, {time.Hour, 2100 * time.Millisecond, true},
	} {
		n := &server{e: &examination{Config: Config{TTL: c.ttl}}, roundTrip: c.roundTrip}
		if n.isLate() != c.late {
			t.Errorf("TTL %s, round trip %s: late is %t", c.ttl, c.roundTrip, !c.late)
		}
	}
}

func severities(found []Finding) (all []Severity) {
	for _, f := range found {
		all = append(all, f.Severity)
	}
	return all
}
