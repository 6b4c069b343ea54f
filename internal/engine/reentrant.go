package engine

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/lock"
)

// reenter makes another lease within the lease of l that ctx carries. It returns nil if ctx carries none that is held, and ErrDeadlock if
// an acquire of l would wait for a lease that ctx carries.
func (l *Target) reenter(ctx context.Context) (*holdLease, error) {
	outer, err := l.outer(ctx)
	if outer == nil {
		return nil, err
	}
	h := outer.g
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case outer.over:
		return nil, nil
	case h.state == changing:
		return nil, fmt.Errorf("%w: lock %q cannot be acquired again while its lease is being upgraded, downgraded or detached", lock.ErrInvalid, l.Name())
	case l.Set.MaxDepth > 0 && int(outer.depth)+1 >= l.Set.MaxDepth:
		return nil, fmt.Errorf("%w: lock %q: its leases are nested %d deep already, the most that MaxDepth allows", lock.ErrDepth, l.Name(), l.Set.MaxDepth)
	}
	lease := h.join(outer.fence)
	lease.depth = outer.depth + 1
	return lease, nil
}
