package conformance

// permits is the number of permits of a semaphore.
const permits = 2

// givesPermits lets Holdfast and two clients share two permits.
func givesPermits(t *trial) error {
	lease, err := t.acquire()
	if err != nil {
		return err
	}
	a, err := t.start()
	if err != nil {
		return err
	}
	second, err := a.try(long)
	if err != nil {
		return err
	}
	if err := t.keepsOutHoldfast(t.lock, "third"); err != nil {
		return err
	}
	b, err := t.start()
	if err != nil {
		return err
	}
	if err := b.must("held", "try-permit %d", long.Milliseconds()); err != nil {
		return err
	}
	if err := b.tell("acquire-permit %d", long.Milliseconds()); err != nil {
		return err
	}
	if err := t.waiting(1); err != nil {
		return err
	}
	if err := t.release(lease); err != nil {
		return err
	}
	third, err := b.grantedWithin(soon)
	if err != nil {
		return err
	}
	if second <= lease.Fence() || third <= second {
		return problemf("the fences of three permits are %d, %d and %d, in the order of their grants", lease.Fence(), second, third)
	}
	for _, c := range []*client{a, b} {
		if err := c.must("yes", "holds"); err != nil {
			return err
		}
		if err := c.must("released", "release"); err != nil {
			return err
		}
	}
	return nil
}
