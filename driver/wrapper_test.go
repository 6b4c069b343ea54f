package driver_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// full is a driver with every optional interface that a wrapper can pass on.
type full struct {
	driver.Driver
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
		d               driver.Driver
		waits, clusters bool
	}{
		"a driver with all":     {full{}, true, true},
		"a driver with none":    {bare, false, false},
		"wrapped twice":         {plain{plain{full{}}}, true, true},
		"a wrapper with one":    {router{plain{full{}}}, true, true},
		"a wrapper of none":     {router{plain{bare}}, false, false},
		"a wrapper of a router": {plain{router{plain{full{}}}}, true, true},
		"without Unwrap":        {forgetful{full{}}, false, false},
	} {
		_, waits := driver.As[driver.Durable](c.d)
		_, clusters := driver.As[driver.Cluster](c.d)
		if waits != c.waits || clusters != c.clusters {
			t.Errorf("%s: Durable %t, Cluster %t", what, waits, clusters)
		}
	}
	if own, _ := driver.As[driver.Cluster](plain{router{plain{full{}}}}); own.Node("k") != "router's" {
		t.Error("a wrapper's own method is passed by")
	}
}
