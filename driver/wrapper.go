package driver

// Wrapper is implemented by drivers that pass calls on to another driver, for example to count, trace or delay them. A
// wrapper that embeds a Driver has its five methods only: Batcher, Durable, Cluster and Wide are hidden. So it also has
// Unwrap:
//
//	type counter struct {
//		driver.Driver
//		calls atomic.Int64
//	}
//
//	func (c *counter) Unwrap() driver.Driver { return c.Driver }
//
// The library uses an optional interface of a wrapper if the wrapped driver has it, too. What the wrapper does not implement
// itself goes to the wrapped driver directly: RunAll and RunDurably do not call the wrapper's Run. A wrapper that is to see
// every call implements Run, RunAll and RunDurably, and passes each on with As:
//
//	func (c *counter) RunAll(ctx context.Context, calls []driver.Call, tell func(int, string, error)) {
//		c.calls.Add(int64(len(calls)))
//		inner, _ := driver.As[driver.Batcher](c.Driver)
//		inner.RunAll(ctx, calls, tell)
//	}
//
// A wrapper without Unwrap has the optional interfaces that it implements itself. Without them all calls go through its Run,
// and locks are slower. MinReplicas and Fsync are then refused.
//
// drivertest.RunWrapper tests that a wrapper hides nothing.
type Wrapper interface {
	Driver
	// Unwrap returns the driver that the wrapper passes calls on to, always the same.
	Unwrap() Driver
}

// As returns what implements an optional interface of d, such as Batcher: d itself or, if d is a Wrapper and does not
// implement it, the driver that it wraps. A Wrapper has an interface only if the wrapped driver has it.
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
