package engine

import "sync"

// contended remembers the keys of locks that others held or were waiting for when last seen. The zero value remembers none.
type contended struct {
	mu     sync.Mutex
	recent map[string]struct{}
	older  map[string]struct{} // keys not looked up since recent was begun
}

// maxContended bounds how many keys are remembered.
const maxContended = 10_000

func (c *contended) has(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, is := c.recent[key]; is {
		return true
	}
	_, was := c.older[key]
	if was {
		c.remember(key)
	}
	return was
}

func (c *contended) add(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remember(key)
}

func (c *contended) remove(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.recent, key)
	delete(c.older, key)
}

// remember adds a key to the recent ones. If there are too many, it first forgets the older half, which has not been looked up for longest.
// The caller holds c.mu.
func (c *contended) remember(key string) {
	// mutants: contended-bound
	if len(c.recent) >= maxContended/2 || c.recent == nil {
		c.older, c.recent = c.recent, map[string]struct{}{}
	}
	delete(c.older, key)
	c.recent[key] = struct{}{}
}
