package engine

import "fmt"

// Clients, locks and leases print only what people may see, whatever the verb. By default fmt would
// print their fields, among them tokens, with which a lock can be released, and the channels on
// which clients are notified.

// String names the client and its server.
func (c *Client) String() string {
	return fmt.Sprintf("holdfast.Client(%s on %s)", c.cfg.Prefix, c.server.Addr())
}

// Format prints String.
func (c *Client) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, c.String()) }

// String names the lock.
func (l target) String() string { return fmt.Sprintf("holdfast.Lock(%q)", l.name) }

// Format prints String.
func (l target) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, l.String()) }

// String names the locks.
func (s *several) String() string { return fmt.Sprintf("holdfast.Lock(%q)", s.name) }

// Format prints String.
func (s *several) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, s.String()) }

// String names the lease's locks and its fence.
func (b *multiLease) String() string {
	return fmt.Sprintf("holdfast.Lease(%q, fence %d)", b.Name(), b.Token())
}

// Format prints String.
func (b *multiLease) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, b.String()) }

// String names the lease's lock and its fence.
func (l *holdLease) String() string {
	return fmt.Sprintf("holdfast.Lease(%q, fence %d)", l.Name(), l.Token())
}

// Format prints String.
func (l *holdLease) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, l.String()) }

// maxShownWord is the length, in bytes, up to which names that others wrote are shown.
const maxShownWord = 128
