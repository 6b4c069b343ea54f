package holdfastgoredis

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/pubsub"
)

// follower dials the master that Sentinel names at that moment, and closes the
// connections to another one: a master that was replaced may be alive, and take writes
// for ten seconds, until a sentinel makes it a replica. What it answers is worth nothing,
// and who has subscribed to it is not heard. go-redis follows with the user's pool only,
// and does not tell; so the follower asks, while it has connections.
type follower struct {
	d      *driver
	dialer dialer

	mu       sync.Mutex
	master   string              // where the latest connection leads
	conns    map[net.Conn]string // and where each of them leads
	watching bool
	looked   time.Time // for the master, at last
}

const (
	watchPeriod = time.Second            // between looks for the master
	lookPeriod  = 250 * time.Millisecond // at least, when there are reasons to look
)

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// follows reports whether a client finds its server through Sentinel: it has its name
// from go-redis's NewFailoverClient.
func follows(o *redis.Options) bool { return o.Addr == "FailoverClient" }

// follow changes the options of our own connections so that they keep to the master.
func (d *driver) follow(o *redis.Options) *follower {
	f := &follower{d: d, dialer: o.Dialer, conns: map[net.Conn]string{}}
	o.Dialer = f.dial
	first := o.OnConnect
	o.OnConnect = func(ctx context.Context, cn *redis.Conn) error {
		if first != nil {
			if err := first(ctx, cn); err != nil {
				return err
			}
		}
		return mustBeMaster(cn.Do(ctx, "hello"))
	}
	return f
}

func (f *follower) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := f.dialer(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", holdfast.ErrNotSent, err)
	}
	master := conn.RemoteAddr().String()
	f.mu.Lock()
	defer f.mu.Unlock()
	if master != f.master {
		f.master = master
		for other, addr := range f.conns {
			if addr != master {
				_ = other.Close() // its user is told, and forgets it
			}
		}
	}
	f.conns[conn] = master
	if !f.watching {
		f.watching = true
		f.d.behind(f.watch)
	}
	followed := followedConn{conn, f}
	if sys, ok := conn.(syscall.Conn); ok { // by which go-redis sees that a connection broke
		return followedSystemConn{followed, sys}, nil
	}
	return followed, nil
}

// watch looks for the master while there are connections.
func (f *follower) watch() {
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-f.d.ctx.Done():
			return
		}
		f.mu.Lock()
		f.watching = len(f.conns) > 0
		on := f.watching
		f.mu.Unlock()
		if !on {
			return
		}
		f.look()
	}
}

// look asks who is the master, by dialling it; not often, however much goes wrong.
func (f *follower) look() {
	f.mu.Lock()
	soon := time.Since(f.looked) < lookPeriod
	if !soon {
		f.looked = time.Now()
	}
	f.mu.Unlock()
	if soon {
		return
	}
	ctx, cancel := context.WithTimeout(f.d.ctx, pubsub.Keepalive)
	defer cancel()
	if conn, err := f.dial(ctx, "tcp", ""); err == nil {
		_ = conn.Close()
	}
}

// addr names the master in error messages.
func (f *follower) addr() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.master == "" {
		return "the master that Sentinel names"
	}
	return f.master
}

func (f *follower) forget(conn net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, conn)
}

// followedConn is a connection that its follower can close.
type followedConn struct {
	net.Conn
	f *follower
}

func (c followedConn) Close() error {
	c.f.forget(c.Conn)
	return c.Conn.Close()
}

type followedSystemConn struct {
	followedConn
	syscall.Conn
}
