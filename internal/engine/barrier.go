package engine

import (
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/kind"
)

// Barrier returns the lock whose holders are the parties of the barrier of that name, for 1 to 10,000 parties.
func (c *Client) Barrier(name string, parties int, opts ...kind.Option) *Target {
	given := []kind.Option{kind.Of(&kind.Barrier, parties, 1)}
	return c.Mutex(name, append(given, opts...)...)
}

// Expel ends the lease of a party that the server no longer knows, as word, from its reply, says. It returns the lease's error.
func Expel(party Lease, word codec.Word) error {
	l := party.(*holdLease)
	h := l.g
	h.mu.Lock()
	defer h.mu.Unlock()
	l.check()
	if !l.over {
		h.lose(h.l.Missing(word))
	}
	return l.ended()
}
