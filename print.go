package holdfast

import "fmt"

// What fmt prints of a Client, a Lock or a Lease, by whatever verb, is what people may see. Without these methods fmt
// would walk into them.

// Format prints String.
func (c *Client) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, c.String()) }

// Format prints String.
func (l *Lock) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, l.String()) }

// Format prints String.
func (l *Lease) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, l.String()) }
