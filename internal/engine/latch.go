package engine

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/kind"
)

// Latch returns the lock whose holders are the registered parties of the latch of that name, for 1 to 1,000,000 parties.
func (c *Client) Latch(name string, parties int, opts ...kind.Option) *Target {
	given := []kind.Option{kind.Of(&kind.Latch, parties, 1)}
	return c.Mutex(name, append(given, opts...)...)
}

// CountDown ends the lease of a latch's party. The server then lowers the count, once. If it is unknown whether the party was counted, a
// later Release tries again.
func CountDown(ctx context.Context, party Lease) error {
	return party.(*holdLease).release(ctx, hasCountedDown)
}
