package engine

// Mutex returns the lock of that name, which one holder has at a time. A name is
// 1 to 512 bytes of UTF-8 without control characters, and does not begin with a
// closing brace. Nothing is sent; a bad name or option shows as ErrInvalid when the
// lock is used.
func (c *Client) Mutex(name string, opts ...Option) *Lock {
	return c.newLock(name, opts)
}
