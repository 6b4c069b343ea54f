package holdfast

import "fmt"

// fmt prints a handle by String, whatever the verb, so that no token is shown. Without these methods it would print its
// fields.

// Format prints String.
func (c *Client) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, c.String()) }

// Format prints String.
func (l *Lock) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, l.String()) }

// Format prints String.
func (l *Lease) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, l.String()) }

// Format prints String.
func (rw *RWMutex) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, rw.String()) }

// Format prints String.
func (s *Semaphore) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, s.String()) }

// Format prints String.
func (o *Once) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, o.String()) }

// Format prints String.
func (e *Election) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, e.String()) }

// Format prints String.
func (l *Latch) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, l.String()) }

// Format prints String.
func (p *LatchParty) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, p.String()) }

// Format prints String.
func (b *Barrier) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, b.String()) }

// Format prints String.
func (p *BarrierParty) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, p.String()) }

// Format prints String.
func (q *Quorum) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, q.String()) }

// named returns the text of a handle that has a name.
func named(kind, name string) string { return fmt.Sprintf("holdfast.%s(%q)", kind, name) }
