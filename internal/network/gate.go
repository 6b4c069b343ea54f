package network

import "sync"

// Gate is shut at times. Its zero value is open.
type Gate struct {
	mu     sync.Mutex
	shut   int           // how often it was shut and not opened
	opened chan struct{} // closed when it is open
}

// Shut shuts the gate until open, whose further calls do nothing. Gates may be shut several times at once.
func (g *Gate) Shut() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == 0 {
		g.opened = make(chan struct{})
	}
	g.shut++
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.shut--; g.shut == 0 {
			close(g.opened)
		}
	})
}

// Pass waits until the gate is open, and returns true, or until end, and returns false. end may be nil.
func (g *Gate) Pass(end <-chan struct{}) bool {
	for {
		opened := g.wait()
		if opened == nil {
			return true
		}
		select {
		case <-opened:
		case <-end:
			return false
		}
	}
}

// wait returns what is closed when the gate opens; nil if it is open.
func (g *Gate) wait() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == 0 {
		return nil
	}
	return g.opened
}
