// Package compact keeps what grows and shrinks in memory that shrinks with it: a map of Go's never gives memory
// back, and neither does a slice.
package compact

// slack is how many times the memory that is needed may be kept, and small the number of elements for which it does
// not matter. To move what is left, a sixteenth, costs next to nothing beside having added all the others.
const (
	slack = 16
	small = 4096
)

// Map is a map. Its zero value is empty and ready.
type Map[K comparable, V any] struct {
	m    map[K]V
	most int // it has had so many elements since it was made
}

// Get returns what k has, or the zero value.
func (c *Map[K, V]) Get(k K) V { return c.m[k] }

// Set gives k the value v.
func (c *Map[K, V]) Set(k K, v V) {
	if c.m == nil {
		c.m = map[K]V{}
	}
	c.m[k] = v
	c.most = max(c.most, len(c.m))
}

// Delete takes k out if it is in.
func (c *Map[K, V]) Delete(k K) {
	delete(c.m, k)
	if c.most <= small || len(c.m) > c.most/slack {
		return
	}
	m := make(map[K]V, len(c.m))
	for k, v := range c.m {
		m[k] = v
	}
	c.m, c.most = m, len(m)
}

// Len is how many there are.
func (c *Map[K, V]) Len() int { return len(c.m) }

// Slice returns s, from whose end elements were taken, or a copy in less memory.
func Slice[E any](s []E) []E {
	if cap(s) <= small || len(s) > cap(s)/slack {
		return s
	}
	return append(make([]E, 0, 2*len(s)), s...)
}
