package engine

import "fmt"

// Package holdfast prints its clients, locks and leases by these, whatever the verb, so that fmt does not walk into tokens,
// with which a lock can be released, or into the channels on which clients are notified.

// String names the client and its server.
func (c *Client) String() string {
	return fmt.Sprintf("holdfast.Client(%s on %s)", c.cfg.Prefix, c.server.Addr())
}

// String names the lock.
func (l target) String() string { return fmt.Sprintf("holdfast.Lock(%q)", l.name) }

// String names the locks.
func (s *several) String() string { return fmt.Sprintf("holdfast.Lock(%q)", s.name) }

// String names the lease's locks and its fence.
func (b *multiLease) String() string {
	return fmt.Sprintf("holdfast.Lease(%q, fence %d)", b.Name(), b.Token())
}

// String names the lease's lock and its fence.
func (l *holdLease) String() string {
	return fmt.Sprintf("holdfast.Lease(%q, fence %d)", l.Name(), l.Token())
}

// maxShownWord is the length, in bytes, up to which names that others wrote are shown.
const maxShownWord = 128
