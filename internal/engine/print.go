package engine

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// What is printed of a Client, a Lock or a Lease, by whatever verb, is what people may
// see: fmt would otherwise walk into them, and find tokens, by which a lock can be
// released, and the channels on which clients are notified.

// String names the client and its server.
func (c *Client) String() string {
	return fmt.Sprintf("holdfast.Client(%s on %s)", c.cfg.Prefix, c.driver.Addr())
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

// What others wrote is shown up to these lengths, in bytes.
const (
	maxShownWord = 128 // of a holder's name
	maxShownLine = 512 // of a server's error
)

// shown is what a server's error may show. To a command that it does not know, which
// may be EVALSHA or AUTH, a server answers with the arguments: tokens, or the password.
func shown(text string) string {
	if before, _, echoes := strings.Cut(text, "with args beginning with"); echoes {
		text = strings.TrimRight(before, ", ")
	}
	return printable.Line(text, maxShownLine)
}
