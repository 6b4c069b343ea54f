package holdfastgoredis

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/internal/sentinel"
)

// follower dials the master that Sentinel names and closes connections to any other server. A replaced master may stay
// alive and accept writes for ten seconds, until a sentinel makes it a replica. Its answers are worthless, and its
// subscribers get no messages. go-redis moves only the user's pool to a new master, without saying so, and therefore
// the follower asks Sentinel regularly while it has connections.
type follower struct {
	d      *adapter
	dialer connect.Dialer

	// group has the sentinels, with NewFailover. Otherwise it is nil, and the dialer asks the sentinel that go-redis has chosen.
	group *sentinel.Group

	mu     sync.Mutex // guards the fields below
	master string     // the server that the latest connection leads to
	// conns are the open connections. The pointers are weak because go-redis before 9.23 does not close a connection whose
	// server did not answer HELLO, and leaves it to the garbage collector.
	conns    map[weak.Pointer[followedConn]]struct{}
	watching bool
	looking  bool
	lastLook time.Time
}

const (
	watchPeriod   = time.Second            // between two looks for the master
	minLookPeriod = 250 * time.Millisecond // between two looks caused by errors
	// lookTimeout is longer than go-redis by default takes to give up a sentinel that hangs. It does not give it up if the
	// context ends earlier.
	lookTimeout = 20 * time.Second
)

func newFollower(d *adapter, dial connect.Dialer) *follower {
	return &follower{d: d, dialer: dial, conns: map[weak.Pointer[followedConn]]struct{}{}}
}

// install makes clients with these options dial with the follower and refuse replicas.
func (f *follower) install(o *redis.Options) {
	o.Dialer = f.dial
	onConnect := o.OnConnect
	o.OnConnect = func(ctx context.Context, cn *redis.Conn) error {
		if onConnect != nil {
			if err := onConnect(ctx, cn); err != nil {
				return err
			}
		}
		return resp.CheckMaster(replyTo(cn.Do(ctx, "hello")))
	}
}

func (f *follower) dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	if f.group != nil {
		if addr, err = f.group.Master(ctx); err == nil {
			f.mu.Lock()
			f.setMaster(addr)
			f.mu.Unlock()
		}
	}
	if err == nil {
		conn, err = f.dialer(ctx, network, addr)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.group == nil {
		addr = conn.RemoteAddr().String()
		f.setMaster(addr)
	} else if f.master != addr {
		_ = conn.Close()
		return nil, fmt.Errorf("%w: the master was replaced while connecting to it", driver.ErrNotSent)
	}
	followed := &followedConn{conn, f, addr}
	f.conns[weak.Make(followed)] = struct{}{}
	if !f.watching {
		f.watching = true
		f.d.spawn(f.watch)
	}
	if sys, ok := conn.(syscall.Conn); ok { // go-redis needs it to detect broken connections
		return followedSyscallConn{followed, sys}, nil
	}
	return followed, nil
}

// setMaster closes the connections that lead to other servers. The caller holds mu.
func (f *follower) setMaster(master string) {
	if master == f.master {
		return
	}
	f.master = master
	for ref := range f.conns {
		if c := ref.Value(); c != nil && c.server != master {
			_ = c.Conn.Close() // its user gets an error and closes it, too, which removes it from conns
		}
	}
}

// isInUse reports whether there are connections. The caller holds mu.
func (f *follower) isInUse() bool {
	for ref := range f.conns {
		if ref.Value() == nil {
			delete(f.conns, ref)
		}
	}
	return len(f.conns) > 0
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
		f.watching = f.isInUse()
		watching := f.watching
		f.mu.Unlock()
		if !watching {
			return
		}
		f.look()
	}
}

// look finds the master, by dialing it if go-redis knows the sentinels. It does nothing if the last look was a moment
// ago.
func (f *follower) look() {
	f.mu.Lock()
	skip := f.looking || time.Since(f.lastLook) < minLookPeriod
	if !skip {
		f.lastLook, f.looking = time.Now(), true
	}
	f.mu.Unlock()
	if skip {
		return
	}
	defer func() {
		f.mu.Lock()
		f.looking = false
		f.mu.Unlock()
	}()
	ctx, cancel := context.WithTimeout(f.d.ctx, lookTimeout)
	defer cancel()
	if f.group != nil {
		if master, err := f.group.Master(ctx); err == nil {
			f.mu.Lock()
			f.setMaster(master)
			f.mu.Unlock()
		}
		return
	}
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

// mistakes returns the faults of the sentinels' addresses. f may be nil.
func (f *follower) mistakes() string {
	if f == nil || f.group == nil {
		return ""
	}
	return f.group.Mistakes()
}

// followedConn is a connection that its follower can close.
type followedConn struct {
	net.Conn
	f      *follower
	server string // that it leads to
}

func (c *followedConn) Close() error {
	c.f.mu.Lock()
	delete(c.f.conns, weak.Make(c))
	c.f.mu.Unlock()
	return c.Conn.Close()
}

// NetConn returns the connection that c wraps, as the NetConn of a tls.Conn does.
func (c *followedConn) NetConn() net.Conn { return c.Conn }

type followedSyscallConn struct {
	*followedConn
	syscall.Conn
}
