package engine

import (
	"github.com/holdfast-go/holdfast/internal/clock"
)

// calls are functions that are called when a lease ends.
type calls struct {
	last int
	all  map[int]func(error)
}

// add adds a function, and returns its number.
func (c *calls) add(f func(error)) int {
	if c.all == nil {
		c.all = map[int]func(error){}
	}
	c.last++
	c.all[c.last] = f
	return c.last
}

// make calls all of them.
func (c *calls) make(err error) {
	for _, f := range c.all {
		f(err)
	}
	c.all = nil
}

// WhenOver implements Lease.
func (l *holdLease) WhenOver(f func(error)) (forget func()) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	l.check()
	if l.ended != nil {
		f(l.ended)
		return func() {}
	}
	if l.scope == nil {
		l.scope = &scope{}
	}
	number := l.scope.calls.add(f)
	return func() {
		l.g.mu.Lock()
		defer l.g.mu.Unlock()
		delete(l.scope.calls.all, number)
	}
}

// WhenOver implements Lease.
func (m *multiLease) WhenOver(f func(error)) (forget func()) {
	_ = m.errAt(clock.Now()) // which ends it if its time is up
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended != nil {
		f(m.ended)
		return func() {}
	}
	number := m.calls.add(f)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.calls.all, number)
	}
}

// FenceOf implements Lease.
func (l *holdLease) FenceOf(string) uint64 { return l.fence }

// FenceOf implements Lease.
func (m *multiLease) FenceOf(lock string) uint64 {
	if m.quorum != nil {
		return m.fence
	}
	for _, p := range m.parts { // those of a Multi are what they were at first
		if p.Name() == lock {
			return p.fence
		}
	}
	return 0
}
