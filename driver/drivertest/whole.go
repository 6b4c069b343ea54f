package drivertest

import "github.com/holdfast-go/holdfast/driver"

// Driver has every method that a driver can implement. A test's wrapper embeds it, so that the wrapped driver loses
// none of them.
type Driver interface {
	driver.Driver
	driver.Batcher
	driver.Durable
	driver.Cluster
	driver.Wide
}

// Of returns the result of an adapter's NewDriver as a Driver. It panics if that is an error, or if the driver lacks one
// of the methods.
func Of(d driver.Driver, err error) Driver {
	if err != nil {
		panic("drivertest: " + err.Error())
	}
	return d.(Driver)
}
