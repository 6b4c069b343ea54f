// Package compact provides maps and slices that give memory back when they shrink, which Go's own do not.
package compact

// A container is copied into less memory once fewer than one in slack of its elements are left, unless it never had more than small.
// Copying a sixteenth costs next to nothing compared with having added the rest.
const (
	slack = 16
	small = 4096
)

// Map is a map. Its zero value is empty and ready to use.
type Map[K comparable, V any] struct {
	m    map[K]V
	peak int // the largest length of m so far
}

// Get returns the value for k, or the zero value.
func (c *Map[K, V]) Get(k K) V { return c.m[k] }

// Set sets the value for k.
func (c *Map[K, V]) Set(k K, v V) {
	if c.m == nil {
		c.m = map[K]V{}
	}
	c.m[k] = v
	c.peak = max(c.peak, len(c.m))
}

// Delete deletes k. If k is not in the map, Delete does nothing.
func (c *Map[K, V]) Delete(k K) {
	delete(c.m, k)
	if c.peak <= small || len(c.m) > c.peak/slack {
		return
	}
	m := make(map[K]V, len(c.m))
	for k, v := range c.m {
		m[k] = v
	}
	c.m, c.peak = m, len(m)
}

// Len returns the number of keys.
func (c *Map[K, V]) Len() int { return len(c.m) }

// Slice returns s, or a copy in less memory if most of its capacity is unused. Call it after removing elements.
func Slice[E any](s []E) []E {
	if cap(s) <= small || len(s) > cap(s)/slack {
		return s
	}
	return append(make([]E, 0, 2*len(s)), s...)
}
