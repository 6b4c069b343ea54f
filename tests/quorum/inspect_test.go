package quorum

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// The list has what a majority holds, whichever nodes are down, and nothing else.
func TestInspectorListsWhatAMajoritySays(t *testing.T) {
	t.Parallel()
	each(t, 3, age, func(t *testing.T, s *site) {
		q := s.quorum()
		var leases []*holdfast.Lease
		for _, name := range []string{"a", "b", "other"} {
			leases = append(leases, acquire(t, q.Mutex(name, holdfast.Identity("me"))))
		}
		put := func(name, owner string, nodes ...*server.Server) {
			for _, node := range nodes {
				s.do(node, "SET", "holdfast:{"+name+"}", `hf2:AAAAAAAAAAAAAAAAAAAAAA:9:1700000000000:0:{"o":"`+owner+`"}`, "PX", "3600000")
			}
		}
		put("alone", "ghost", s.nodes[0])
		put("most", "me", s.nodes[1:]...) // the first node does not have what a majority has
		wants := func(pattern string, want ...string) {
			t.Helper()
			got := map[string]bool{}
			for st, err := range inspect.NewQuorum(s.quorum()).List(t.Context(), pattern) {
				if err != nil {
					t.Fatal(err)
				}
				if h, held := st.Holder(); !held || h.Identity != "me" || got[st.Name] || st.Kind != holdfast.KindMutex {
					t.Errorf("listed: %+v", st)
				}
				got[st.Name] = true
			}
			if all := slices.Sorted(maps.Keys(got)); !slices.Equal(all, want) {
				t.Errorf("%q lists %q, want %q", pattern, all, want)
			}
		}
		wants("", "a", "b", "most", "other")
		wants("?", "a", "b")
		wants("a", "a")
		wants("most", "most")
		wants("alone")
		in := inspect.NewQuorum(q)
		if st, err := in.Get(t.Context(), "a"); err != nil || len(st.Holders) != 1 || st.Holders[0].Identity != "me" {
			t.Errorf("Get: %+v, %v", st, err)
		}
		if st, err := in.Get(t.Context(), "alone"); err != nil || st.Held() || st.Kind != "" {
			t.Errorf("Get of what one node has: %+v, %v", st, err)
		}
		if testing.Short() { // each look would wait for nodes that are down
			return
		}
		for _, l := range leases {
			agree(t, l, 3)
		}
		s.nodes[1].Kill()
		got := map[string]error{}
		for st, err := range inspect.NewQuorum(s.quorum()).List(t.Context(), "") {
			got[st.Name] = err
		}
		// Whether a majority has this one, the node that is down would have to say.
		if err := got["alone"]; !errors.Is(err, holdfast.ErrUnavailable) || !strings.Contains(err.Error(), "it names ghost as the holder, and too few others do") {
			t.Errorf("what the node that is down may have: %v", err)
		}
		for _, name := range []string{"a", "b", "other"} {
			if err, listed := got[name]; !listed || err != nil {
				t.Errorf("%s: %v, %v", name, listed, err)
			}
		}
		// last returns the error with which a list of a pattern ends.
		last := func(pattern string) (last error) {
			for _, err := range inspect.NewQuorum(s.quorum()).List(t.Context(), pattern) {
				last = err
			}
			return last
		}
		if err := last("a"); err != nil {
			t.Errorf("what the nodes that are left agree on: %v", err)
		}
		if err := last("alone"); !errors.Is(err, holdfast.ErrUnavailable) {
			t.Errorf("what the node that is down may have, by its name: %v", err)
		}
		s.nodes[2].Kill()
		for _, pattern := range []string{"", "a"} {
			var few *quorum.Error
			if err := last(pattern); !errors.As(err, &few) || !errors.Is(err, holdfast.ErrUnavailable) || few.Need != 2 {
				t.Errorf("without a majority, %q: %v", pattern, err)
			}
		}
	})
}
