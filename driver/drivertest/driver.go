package drivertest

import "github.com/holdfast-go/holdfast/driver"

// Driver has every method that a driver can have. A wrapper in a test embeds it to keep all methods of the driver that
// it wraps.
type Driver interface {
	driver.Driver
	driver.Durable
	driver.Cluster
}

// Of returns the result of an adapter's NewDriver as a Driver. It panics if err is not nil or if the driver lacks a
// method.
func Of(d driver.Driver, err error) Driver {
	if err != nil {
		panic("drivertest: " + err.Error())
	}
	return d.(Driver)
}
