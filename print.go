package holdfast

import "fmt"

// fmt prints a Client, a Lock and a Lease by String, whatever the verb, so that no token is shown. Without these methods it
// would print their fields.

// Format prints String.
func (c *Client) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, c.String()) }

// Format prints String.
func (l *Lock) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, l.String()) }

// Format prints String.
func (l *Lease) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, l.String()) }
