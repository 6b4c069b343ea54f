package adapter

import (
	"cmp"
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// pool has connections for calls that do not share one: each call has one to itself.
type pool struct {
	open  func(ctx context.Context, addr string) (driver.Connection, error)
	ctx   context.Context     // ends when the driver is closed
	spawn func(f func()) bool // calls f in a goroutine, or returns false if the driver is closing

	conns conns // also those that were made for others
	mu    sync.Mutex
	sites map[string]*site // by address
}

// site has the connections to one server.
type site struct {
	idle []*Conn               // latest last
	room map[use]chan struct{} // an item for each call under way
}

// use is a purpose of connections. Calls of one use take no room from those of another, so that acquires that wait for replicas do not
// hold up renewals.
type use struct{ durable, urgent bool }

const (
	// mostUrgent and mostOthers bound how many calls of a use are under way on a server.
	mostUrgent = 256
	mostOthers = 64
	// mostIdle bounds how many connections to a server stay open while they are idle: as many as a burst of renewals in a Cluster uses.
	mostIdle = mostUrgent
	// maxIdle bounds how long they may be idle, unless the user's options say less: after that, a firewall may have dropped them.
	maxIdle = 30 * time.Second
)

// site returns the site at an address. If that is new, unused sites are forgotten: over the years many nodes may leave a Cluster.
func (p *pool) site(addr string) *site {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.sites[addr]; at != nil {
		return at
	}
	for addr, other := range p.sites {
		if !other.isUsed() {
			delete(p.sites, addr)
			go closeConns(other.idle)
		}
	}
	at := &site{room: map[use]chan struct{}{}}
	for _, durable := range []bool{false, true} {
		at.room[use{durable, true}], at.room[use{durable, false}] = make(chan struct{}, mostUrgent), make(chan struct{}, mostOthers)
	}
	if p.sites == nil {
		p.sites = map[string]*site{}
	}
	p.sites[addr] = at
	return at
}

// isUsed reports whether the site has calls under way, or a connection that another call may use. The caller holds pool.mu.
func (at *site) isUsed() bool {
	for _, calls := range at.room {
		if len(calls) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(at.idle, (*Conn).isFresh)
}

func closeConns(all []*Conn) {
	for _, c := range all {
		c.Close()
	}
}

// openTimeout bounds the opening of a connection, which takes several round trips and may take longer than a call may.
const openTimeout = 10 * time.Second

// take returns a connection to the server at addr, and what gives it back. The error is that of a call that was not sent. If ctx ends while
// a connection is being opened, that becomes one for another call.
func (p *pool) take(ctx context.Context, addr string, u use) (c *Conn, give func(), err error) {
	if ctx.Err() != nil {
		return nil, nil, notSent(ctx.Err())
	}
	at := p.site(addr)
	select {
	case at.room[u] <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, notSent(ctx.Err())
	}
	leave := func() { <-at.room[u] }
	returning := func(c *Conn) (*Conn, func(), error) {
		return c, func() {
			p.give(at, c)
			leave()
		}, nil
	}
	if c := p.reuse(at); c != nil {
		return returning(c)
	}
	began, opened, failed := time.Now(), make(chan *Conn), make(chan error)
	begun := p.spawn(func() {
		opening, cancel := context.WithTimeout(p.ctx, openTimeout)
		defer cancel()
		conn, err := p.open(opening, addr)
		if err != nil {
			discard(conn)
			leave()
			select {
			case failed <- err:
			case <-ctx.Done():
			}
			return
		}
		c := newConn(conn)
		select {
		case opened <- c:
		case <-ctx.Done():
			p.give(at, c)
			leave()
		}
	})
	if !begun {
		leave()
		return nil, nil, notSent(net.ErrClosed)
	}
	select {
	case c := <-opened:
		if end, bounded := ctx.Deadline(); bounded && time.Until(end) < time.Since(began) {
			p.give(at, c) // it is of use to the next attempt, which has the time that this one has lost
			leave()
			return nil, nil, notSent(context.DeadlineExceeded)
		}
		return returning(c)
	case err := <-failed:
		return nil, nil, unsent(err)
	case <-ctx.Done():
		return nil, nil, notSent(ctx.Err())
	}
}

// reuse returns an idle connection, or nil. It closes those that are too old.
func (p *pool) reuse(at *site) *Conn {
	for {
		p.mu.Lock()
		n := len(at.idle)
		if n == 0 {
			p.mu.Unlock()
			return nil
		}
		c := at.idle[n-1]
		at.idle = at.idle[:n-1]
		p.mu.Unlock()
		if c.isFresh() {
			return c
		}
		c.Close()
	}
}

func (c *Conn) isFresh() bool {
	return time.Since(c.used) < min(cmp.Or(c.net.MaxIdle, maxIdle), maxIdle) && (c.net.MaxAge == 0 || time.Since(c.made) < c.net.MaxAge)
}

// give keeps a connection for another call, unless it is broken. Then idle ones may be broken too, and each could cost a call its whole
// timeout, so none is kept. Of those that have been idle for too long, give closes one.
func (p *pool) give(at *site, c *Conn) {
	p.mu.Lock()
	if len(at.idle) > 0 && !at.idle[0].isFresh() {
		go at.idle[0].Close()
		at.idle = at.idle[1:]
	}
	if c.err == nil && len(at.idle) < mostIdle {
		at.idle = append(at.idle, c)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	c.Close()
	if c.err != nil {
		p.forget(at)
	}
}

// forget closes the idle connections of a site.
func (p *pool) forget(at *site) {
	p.mu.Lock()
	idle := at.idle
	at.idle = nil
	p.mu.Unlock()
	closeConns(idle)
}

// forgetAll closes all idle connections.
func (p *pool) forgetAll() {
	p.mu.Lock()
	var all []*site
	for _, at := range p.sites {
		all = append(all, at)
	}
	p.mu.Unlock()
	for _, at := range all {
		p.forget(at)
	}
}

// closeAll closes all connections.
func (p *pool) closeAll() {
	p.conns.closeAll()
	p.forgetAll()
}

// sender returns what sends commands to the server at addr, each time on a connection of their own.
func (p *pool) sender(addr string, u use) resp.Sender {
	return func(ctx context.Context, commands ...resp.Command) []resp.Reply {
		c, give, err := p.take(ctx, addr, u)
		if err != nil {
			return resp.Failed(commands, err)
		}
		defer give()
		return c.send(ctx, commands...)
	}
}

// discard closes a connection that was made, or not.
func discard(c driver.Connection) {
	if c.Conn != nil {
		_ = c.Close()
	}
	if c.Free != nil {
		c.Free()
	}
}
