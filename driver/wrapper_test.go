package driver_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// full is a driver with every optional interface that a wrapper can pass on.
type full struct {
	driver.Driver
	driver.Batcher
	driver.Durable
	driver.Cluster
}

// plain leaves everything to the driver that it wraps.
type plain struct{ driver.Driver }

func (p plain) Unwrap() driver.Driver { return p.Driver }

// router is a Cluster whatever it wraps.
type router struct{ plain }

func (router) Node(string) string { return "router's" }

// forgetful has no Unwrap.
type forgetful struct{ driver.Driver }

func TestAsLooksThroughWrappers(t *testing.T) {
	bare := struct{ driver.Driver }{}
	for what, c := range map[string]struct {
		d                        driver.Driver
		batches, waits, clusters bool
	}{
		"a driver with all":     {full{}, true, true, true},
		"a driver with none":    {bare, false, false, false},
		"wrapped twice":         {plain{plain{full{}}}, true, true, true},
		"a wrapper with one":    {router{plain{full{}}}, true, true, true},
		"a wrapper of none":     {router{plain{bare}}, false, false, false},
		"a wrapper of a router": {plain{router{plain{full{}}}}, true, true, true},
		"without Unwrap":        {forgetful{full{}}, false, false, false},
	} {
		_, batches := driver.As[driver.Batcher](c.d)
		_, waits := driver.As[driver.Durable](c.d)
		_, clusters := driver.As[driver.Cluster](c.d)
		if batches != c.batches || waits != c.waits || clusters != c.clusters {
			t.Errorf("%s: Batcher %t, Durable %t, Cluster %t", what, batches, waits, clusters)
		}
	}
	if own, _ := driver.As[driver.Cluster](plain{router{plain{full{}}}}); own.Node("k") != "router's" {
		t.Error("a wrapper's own method is passed by")
	}
}
