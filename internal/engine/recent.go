package engine

import "sync"

// recent remembers keys for a while, such as those of locks that others held or were waiting for when last seen.
type recent[K comparable] struct {
	most  int // bounds how many keys are remembered
	mu    sync.Mutex
	newer map[K]struct{}
	older map[K]struct{} // keys not looked up since newer was begun
}

func (r *recent[K]) has(key K) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, is := r.newer[key]; is {
		return true
	}
	_, was := r.older[key]
	if was {
		r.remember(key)
	}
	return was
}

func (r *recent[K]) add(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remember(key)
}

func (r *recent[K]) remove(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.newer, key)
	delete(r.older, key)
}

// remember adds a key to the newer ones. If there are too many, it first forgets the older half, which has not been looked up for longest.
// The caller holds r.mu.
func (r *recent[K]) remember(key K) {
	// mutants: contended-bound
	if len(r.newer) >= r.most/2 || r.newer == nil {
		r.older, r.newer = r.newer, map[K]struct{}{}
	}
	delete(r.older, key)
	r.newer[key] = struct{}{}
}
