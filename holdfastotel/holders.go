package holdfastotel

import "sync"

// holder identifies a lease by what those who wait for its lock know.
type holder struct {
	name, grant string
}

// holders has the acquires to whose spans others can link. Every sampled acquire changes it, so it is split into parts with a
// mutex each.
type holders [64]struct {
	mu  sync.Mutex
	all map[holder]*acquire
}

// of returns the part for a lease, by its grant id, which is as good as random.
func (h *holders) of(l holder) (mu *sync.Mutex, all *map[holder]*acquire) {
	part := &h[int(l.grant[0])%len(h)]
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

// remove removes an acquire, unless another has taken its place, such as that of a nested lease.
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
