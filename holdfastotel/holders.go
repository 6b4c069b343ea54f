package holdfastotel

import "sync"

// holder is a lease as those who wait for its lock know it.
type holder struct {
	name, owner string
	fence       uint64
}

// holders are the acquires of leases whose spans can be linked to. All acquires of a process that are sampled change it, so it
// has many parts.
type holders [64]struct {
	mu  sync.Mutex
	all map[holder]*acquire
}

// of returns the part for a lease. Fences that follow one another are in different ones.
func (h *holders) of(l holder) (mu *sync.Mutex, all *map[holder]*acquire) {
	part := &h[l.fence%uint64(len(h))]
	return &part.mu, &part.all
}

func (h *holders) add(l holder, a *acquire) {
	mu, all := h.of(l)
	mu.Lock()
	defer mu.Unlock()
	if *all == nil {
		*all = map[holder]*acquire{}
	}
	(*all)[l] = a
}

// remove removes an acquire, unless another has taken its place: that of another reader, say, with the same fence.
func (h *holders) remove(l holder, a *acquire) {
	mu, all := h.of(l)
	mu.Lock()
	defer mu.Unlock()
	if (*all)[l] == a {
		delete(*all, l)
	}
}

// find returns the acquire of a lease; nil if it is not known.
func (h *holders) find(l holder) *acquire {
	mu, all := h.of(l)
	mu.Lock()
	defer mu.Unlock()
	return (*all)[l]
}
