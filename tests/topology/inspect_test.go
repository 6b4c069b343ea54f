package topology

import (
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// listsAll holds locks whose keys are all over the place, and requires that each is listed, again after what happens.
func listsAll(t *testing.T, open opener, happens func()) {
	t.Helper()
	c := open.client(t, nil)
	want := map[string]bool{}
	var leases []*holdfast.Lease
	for i := range 40 {
		name := "listed/" + strconv.Itoa(i)
		leases = append(leases, backend.Acquire(t, c.Mutex(name, holdfast.TTL(time.Hour))))
		want[name] = true
	}
	in := inspect.New(open.client(t, nil))
	for _, when := range []string{"at first", "after that"} {
		listed := map[string]bool{}
		for s, err := range in.List(t.Context(), "listed/*") {
			if err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			if !want[s.Name] || listed[s.Name] || len(s.Holders) != 1 {
				t.Errorf("%s: %+v", when, s)
			}
			listed[s.Name] = true
		}
		if len(listed) != len(want) {
			t.Errorf("%s: %d are listed of %d", when, len(listed), len(want))
		}
		happens()
		happens = func() {}
	}
	for _, l := range leases {
		backend.Release(t, l)
	}
}

func TestInspectorListsAllMastersOfACluster(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		listsAll(t, clusterOf(c), func() {
			slot := slotOf("listed/0")
			c.StartMove(slot, otherMaster(c, slot)).Finish()
		})
	})
}

func TestInspectorListsTheMasterBehindSentinels(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		g := server.StartSentinels(t, bin, 2, 3)
		listsAll(t, sentinelsOf(g), func() {
			g.Servers[0].AwaitInStep()
			g.Servers[0].Kill()
			g.NextMaster(g.Servers[0])
		})
	})
}
