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
	line    *line     // nil while a call uses it, while it is being made, and while there is none
	busy    bool      // a call uses it, or it is being made
	notTill time.Time // when the next may be made
	closed  bool
}

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
	l := k.take()
	if l == nil {
		return "", driver.ErrNotSent
	}
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, l.hangUp)
	}
	reply, err := l.run(deadline, c)
	k.giveBack(l, stop() && err == nil)
	return reply, err
}

// take returns the connection for one call. If there is none that can be used, it returns nil, and may start making one.
func (k *Keeper) take() *line {
	if k.Open == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.busy {
		return nil
	}
	now, l := time.Now(), k.line
	if l != nil && k.isGood(l, now) {
		k.line, k.busy = nil, true
		return l
	}
	if l == nil && now.Before(k.notTill) {
		return nil
	}
	k.line = nil
	k.busy = k.Spawn(func() {
		if l != nil {
			l.close()
		}
		made, err := k.open()
		k.giveBack(made, err == nil)
	})
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
		l.hangUp = func() { _ = conn.Close() }
	}
	return l, err
}

func (l *line) close() {
	if l.hangUp != nil {
		l.hangUp()
	}
	if l.free != nil {
		l.free()
	}
}

// giveBack ends a call's use of a connection, or its making.
func (k *Keeper) giveBack(l *line, intact bool) {
	k.mu.Lock()
	k.busy = false
	l.used = time.Now()
	if intact && !k.closed {
		k.line = l
		k.mu.Unlock()
		return
	}
	k.notTill = l.used.Add(pause)
	k.mu.Unlock()
	l.close()
}

// Close closes the connection if no call uses it. Otherwise the end of the call does.
func (k *Keeper) Close() {
	k.mu.Lock()
	l := k.line
	k.closed, k.line = true, nil
	k.mu.Unlock()
	if l != nil {
		l.close()
	}
}

// Greeted returns the connection that a client library makes and on which it has greeted the server, by greet. The library has to
// dial with the function that greet is given, once, and to greet before greet returns. When ctx ends, the connection is closed, as
// libraries would go on waiting for the server.
func Greeted(ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error), greet func(dial func(ctx context.Context, network, addr string) (net.Conn, error)) error) (net.Conn, error) {
	dialed := make(chan net.Conn, 1)
	hangUp := func() {
		select {
		case conn := <-dialed:
			_ = conn.Close()
		default: // there is none yet, and the dialer will see that ctx has ended
		}
	}
	stop := context.AfterFunc(ctx, hangUp)
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
			_ = conn.Close()
			return nil, err
		}
		return conn, nil
	})
	switch {
	case !stop():
		return nil, ctx.Err()
	case err != nil:
		hangUp() // libraries may leave a connection open that the server has not greeted
		return nil, err
	}
	return <-dialed, nil
}
