package drivertest

import "github.com/holdfast-go/holdfast/driver"

// Driver is all that a driver can implement. What wraps a driver in a test embeds it, so that nothing of the
// driver is lost.
type Driver interface {
	driver.Driver
	driver.Batcher
	driver.Durable
	driver.Cluster
	driver.Wide
}

// Of returns the driver that an adapter made, as one that can be wrapped. It panics if there is none, or if it
// does not implement all.
func Of(d driver.Driver, err error) Driver {
	if err != nil {
		panic("drivertest: " + err.Error())
	}
	return d.(Driver)
}
