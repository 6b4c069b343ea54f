// Package prompt keeps a driver's connection for calls that are sent in their callers' goroutines (driver.Prompt). It
// carries one call at a time. A caller that gives up closes it, and so waits for nothing.
//
// The client library makes the connection and greets the server. From then on package prompt alone writes and reads: client
// libraries do not tell which of their connections a call uses, may dial before a call, which can take long, and allocate more
// for a call than all else that takes a lock.
package prompt

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/bounds"
)

// Keeper keeps the connection. Its exported fields are set before its first use.
type Keeper struct {
	// Open makes a connection with Greeted, and returns it with a function that frees what the client library has of it. The
	// function is also called if there is an error, unless it is nil. If Open is nil, nothing is sent.
	Open func(ctx context.Context) (conn net.Conn, free func(), err error)
	// Timeout bounds Open.
	Timeout time.Duration
	// Spawn calls f in a goroutine, or returns false if the driver is closing.
	Spawn func(f func()) bool
	// Ctx ends when the driver closes.
	Ctx context.Context
	// MaxIdle and MaxAge are the user's bounds on how long a connection is idle or used; 0 if there are none.
	MaxIdle, MaxAge time.Duration

	mu      sync.Mutex
	idle    []*line   // the one that was used last is at the end
	busy    int       // lines that calls use
	opening bool      // one is being made
	notTill time.Time // when the next may be made
	closed  bool
}

// most is how many connections there are at most: two calls of acquires and two of releases are under way at once if the server is
// near, and only then is it faster to wait for a reply than to share a connection.
const most = 4

// line is a connection. Whoever has taken it from the Keeper owns it, with its buffers; only hangUp may be called by others.
type line struct {
	conn   net.Conn
	free   func()
	hangUp func() // closes conn
	made   time.Time
	used   time.Time // when a call last ended

	out, in []byte // buffers
}

const (
	// pause is how long there is no connection after one has failed. If the server is slow, many callers give up, and each
	// would cost a connection.
	pause = time.Second
	// maxIdle is how long a connection may have been idle, if the user's options do not say less. Afterwards something on the
	// way may have dropped it.
	maxIdle = 30 * time.Second
	// trusted is how long a connection may have been idle before it is checked for whether the server has closed it.
	trusted = 100 * time.Millisecond
)

// Run sends a call, as driver.Prompt's RunPrompt does. Its errors are ErrNotSent, a driver.ReplyError, or those of the connection.
func (k *Keeper) Run(ctx context.Context, deadline time.Time, c *driver.Call) (string, error) {
	if ctx.Err() != nil {
		return "", driver.ErrNotSent
	}
	l := k.take(ctx.Done() != nil)
	if l == nil {
		return "", driver.ErrNotSent
	}
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, l.hangUp)
	}
	reply, err := l.run(deadline, c)
	// mutants: late-reply
	k.giveBack(l, stop() && (err == nil || concernsOneCall(err)), ctx.Err() != nil)
	return reply, err
}

// take returns a connection for one call. If there is none that can be used, it returns nil, and may start making one. For a
// caller that may give up, there is none for a while after others have given up or failed, and while there are other calls.
func (k *Keeper) take(mayGiveUp bool) *line {
	if k.Open == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	rests := now.Before(k.notTill)
	if mayGiveUp && (rests || k.busy > 0) {
		return nil
	}
	var bad []*line
	for n := len(k.idle); n > 0; n = len(k.idle) {
		l := k.idle[n-1]
		k.idle[n-1] = nil
		k.idle = k.idle[:n-1]
		if k.isGood(l, now) {
			k.busy++
			return l
		}
		bad = append(bad, l)
	}
	open := !k.opening && k.busy < most && (bad != nil || !rests)
	if !open && bad == nil {
		return nil
	}
	replace := func() {
		for _, l := range bad {
			l.close()
		}
		if open {
			made, err := k.open()
			k.add(made, err)
		}
	}
	if k.Spawn(replace) {
		k.opening = k.opening || open
	} else { // the driver is closing
		open = false
		replace()
	}
	return nil
}

// isGood reports whether a connection may be used.
func (k *Keeper) isGood(l *line, now time.Time) bool {
	age, idle := now.Sub(l.made), now.Sub(l.used)
	if idle > maxIdle || k.MaxIdle > 0 && idle > k.MaxIdle || k.MaxAge > 0 && age > k.MaxAge {
		return false
	}
	return idle <= trusted || !isClosed(l.conn)
}

// open makes a connection. If it returns an error, the line must still be closed.
func (k *Keeper) open() (*line, error) {
	ctx, cancel := context.WithTimeout(k.Ctx, k.Timeout)
	defer cancel()
	conn, free, err := k.Open(ctx)
	l := &line{free: free, made: time.Now()}
	if conn != nil {
		l.conn = bounds.Unwrap(conn)
		l.hangUp = func() { hangUp(conn) }
	}
	return l, err
}

// hangUp closes a connection at once. Close of a tls.Conn alone would first send an alert, and wait up to 5 s if the server does not
// read. It waits for nothing once the connection below it is closed.
func hangUp(conn net.Conn) {
	_ = below(bounds.Unwrap(conn)).Close()
	_ = conn.Close()
}

// below returns the connection that carries what is sent on conn: the one below TLS, or conn itself.
func below(conn net.Conn) net.Conn {
	for {
		upper, is := conn.(interface{ NetConn() net.Conn })
		if !is {
			return conn
		}
		conn = upper.NetConn()
	}
}

func (l *line) close() {
	if l.hangUp != nil {
		l.hangUp()
	}
	if l.free != nil {
		l.free()
	}
}

// giveBack ends a call's use of a connection. Unless a caller gave up, one that failed puts the others under suspicion: the server
// may have gone, and each of them would be found out only when a call has waited for it.
func (k *Keeper) giveBack(l *line, intact, gaveUp bool) {
	k.mu.Lock()
	k.busy--
	l.used = time.Now()
	if intact && !k.closed {
		k.idle = append(k.idle, l)
		k.mu.Unlock()
		return
	}
	k.notTill = l.used.Add(pause)
	var suspects []*line
	if !intact && !gaveUp {
		suspects, k.idle = k.idle, nil
	}
	k.mu.Unlock()
	l.close()
	for _, other := range suspects {
		other.close()
	}
}

// add ends the making of a connection.
func (k *Keeper) add(l *line, err error) {
	k.mu.Lock()
	k.opening = false
	l.used = time.Now()
	if err == nil && !k.closed {
		k.idle = append(k.idle, l)
		k.mu.Unlock()
		return
	}
	k.notTill = l.used.Add(pause)
	k.mu.Unlock()
	l.close()
}

// Close closes the connections that no call uses. The others are closed when their calls end.
func (k *Keeper) Close() {
	k.mu.Lock()
	idle := k.idle
	k.closed, k.idle = true, nil
	k.mu.Unlock()
	for _, l := range idle {
		l.close()
	}
}

// Greeted returns the connection that a client library makes and on which it has greeted the server, by greet. The library has to
// dial with the function that greet is given, once, and to greet before greet returns. When ctx ends, the connection is closed, as
// libraries would go on waiting for the server.
func Greeted(ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error), greet func(dial func(ctx context.Context, network, addr string) (net.Conn, error)) error) (net.Conn, error) {
	dialed := make(chan net.Conn, 1)
	end := func() {
		select {
		case conn := <-dialed:
			hangUp(conn)
		default: // there is none yet, and the dialer will see that ctx has ended
		}
	}
	stop := context.AfterFunc(ctx, end)
	err := greet(func(dialing context.Context, network, addr string) (net.Conn, error) {
		dialing, cancel := context.WithCancel(dialing)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		conn, err := dial(dialing, network, addr)
		if err != nil {
			return nil, err
		}
		select {
		case dialed <- conn:
			err = ctx.Err()
		default:
			err = errors.New("dialed again")
		}
		if err != nil {
			hangUp(conn)
			return nil, err
		}
		return conn, nil
	})
	switch {
	case !stop():
		return nil, ctx.Err()
	case err != nil:
		end() // libraries may leave a connection open that the server has not greeted
		return nil, err
	}
	return <-dialed, nil
}
