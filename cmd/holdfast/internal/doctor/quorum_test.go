package doctor

import (
	"slices"
	"strings"
	"testing"
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

func severities(found []Finding) (all []Severity) {
	for _, f := range found {
		all = append(all, f.Severity)
	}
	return all
}
