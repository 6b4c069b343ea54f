package driver

// Wrapper is implemented by drivers that pass calls on to another driver, for example to count, trace or delay them. A
// wrapper that embeds a Driver has its five methods only: Durable and Cluster are hidden. So it also has Unwrap:
//
//	type counter struct {
//		driver.Driver
//		calls atomic.Int64
//	}
//
//	func (c *counter) Unwrap() driver.Driver { return c.Driver }
//
// The library uses an optional interface of a wrapper only if the wrapped driver also has it. It calls the wrapped driver
// directly for what the wrapper does not implement: RunDurably does not call the wrapper's Run. A wrapper that needs to see
// every call implements Run and RunDurably, and passes each on with As:
//
//	func (c *counter) RunDurably(ctx context.Context, call driver.Call, d driver.Durability) (string, driver.Confirmation, error) {
//		c.calls.Add(1)
//		inner, _ := driver.As[driver.Durable](c.Driver)
//		return inner.RunDurably(ctx, call, d)
//	}
//
// A wrapper without Unwrap has only the optional interfaces that it implements itself. If it has none, all calls go through its
// Run, locks are slower, and Durability is refused.
type Wrapper interface {
	Driver
	// Unwrap returns the driver to which the wrapper passes calls on. It always returns the same one.
	Unwrap() Driver
}

// As finds an optional interface of a driver, such as Durable, and reports whether the driver has it. It returns d if d
// implements the interface. If d is a Wrapper that does not, it returns the wrapped driver. A Wrapper never has an interface that
// the wrapped driver lacks.
func As[T any](d Driver) (T, bool) {
	own, has := d.(T)
	w, wraps := d.(Wrapper)
	if !wraps {
		return own, has
	}
	inner, can := As[T](w.Unwrap())
	if has && can {
		return own, true
	}
	return inner, can
}
