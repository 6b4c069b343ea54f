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
func (l Lock) String() string { return fmt.Sprintf("holdfast.Lock(%q)", l.name) }

// Format prints String.
func (l Lock) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, l.String()) }

// String names the lease's lock and its fence.
func (l *Lease) String() string {
	return fmt.Sprintf("holdfast.Lease(%q, fence %d)", l.Name(), l.Token())
}

// Format prints String.
func (l *Lease) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, l.String()) }

// maxShownWord is the length, in bytes, up to which names that others wrote are shown.
const maxShownWord = 128
