package holdfastotel

import (
	"testing"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/holdfast-go/holdfast"
)

// Nested leases of a reentrant lock have one grant. The first to end leaves the other's entry.
func TestTheEntryOfANestedLeaseStays(t *testing.T) {
	m, err := newMetrics(noop.Meter{}, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	o := &observer{metrics: m}
	in := m.seriesOf("r", holdfast.KindMutex, holdfast.ModeExclusive)
	first, second := &acquire{in: in, sampled: true}, &acquire{in: in, sampled: true}
	of := holder{"r", "k3v9x2ab"}
	o.holders.Store(of, first)
	o.holders.Store(of, second)
	ends := func(a *acquire) { o.end(t.Context(), a, holdfast.LeaseEvent{Name: of.name, Grant: of.grant}, released) }
	ends(first)
	if got, _ := o.holders.Load(of); got != second {
		t.Errorf("%p is found, want %p", got, second)
	}
	ends(second)
	if got, found := o.holders.Load(of); found {
		t.Errorf("%p is found, want none", got)
	}
}
