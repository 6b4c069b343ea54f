package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor/report"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor/target"
)

// Quorums have 3 to 31 nodes. An even number is no problem, but does not let more nodes fail.
func TestNumbersOfNodes(t *testing.T) {
	const problem, note = report.Problem, report.Note
	for n, want := range map[int][]report.Severity{2: {problem}, 3: nil, 4: {note}, 5: nil, 30: {note}, 31: nil, 32: {problem}} {
		nodes := make([]Config, n)
		for i := range nodes {
			nodes[i].Addr = fmt.Sprintf("h%d:1", i)
		}
		found := newQuorum(nodes).checkSize()
		for _, f := range found {
			if refused := strings.Contains(f.Consequence, "refuses"); refused != (f.Severity == problem) {
				t.Errorf("%d nodes: %+v", n, f)
			}
		}
		if got := severities(found); !slices.Equal(got, want) {
			t.Errorf("%d nodes: %v, want %v: %+v", n, got, want, found)
		}
	}
}

// The vote of a node does not count if its round trip takes longer than the library waits.
func TestNodesThatAreTooFarAway(t *testing.T) {
	for _, c := range []struct {
		trips []int // in ms
		want  []report.Severity
	}{
		{[]int{1, 1, 1}, nil},
		{[]int{1, 30, 1}, []report.Severity{report.Note}},
		{[]int{1, 1, 60}, []report.Severity{report.Warning}},
		{[]int{1, 60, 60}, []report.Severity{report.Problem}},
		{[]int{1, 30, 30, 60, 1}, []report.Severity{report.Warning, report.Note}},
	} {
		var nodes []Config
		var reachable []*subject
		for i, ms := range c.trips {
			addr := fmt.Sprint("n", i)
			nodes = append(nodes, Config{Addr: addr, TTL: 200 * time.Millisecond}) // the library waits for 50 ms
			reachable = append(reachable, &subject{Server: &target.Server{Addr: addr}, pings: []time.Duration{time.Duration(ms) * time.Millisecond}})
		}
		q := newQuorum(nodes)
		q.reachable = reachable
		if found := q.checkNear(); !slices.Equal(severities(found), c.want) {
			t.Errorf("%+v, want %v", found, c.want)
		}
	}
}

func severities(found []report.Finding) (all []report.Severity) {
	for _, f := range found {
		all = append(all, f.Severity)
	}
	return all
}
