package holdfastgoredis

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

// prompt has the connection for RunPrompt, which carries one call at a time. A caller that gives up closes it, and so waits
// for nothing. It is the only one of a client of its own: go-redis does not tell which of a pool's connections a call uses,
// and may dial before a call, which can take long.
type prompt struct {
	options *redis.Options // nil if there is to be none

	mu      sync.Mutex
	line    *line     // nil while a call uses it, while it is being made, and while there is none
	idle    bool      // no call uses it, and it is not being made
	notTill time.Time // when the next may be made
	closed  bool
}

// line is a connection.
type line struct {
	client *redis.Client // whose pool has only this
	sticky *redis.Conn   // which go-redis does not replace when it breaks
	conn   net.Conn
	made   time.Time
	used   time.Time // when a call last ended
}

const (
	// promptPause is how long there is no connection after one has failed. If the server is slow, many callers give up, and
	// each would cost a connection.
	promptPause = time.Second
	// promptIdle is how long a connection may have been idle, if the user's options do not say less. Afterwards something on
	// the way may have dropped it.
	promptIdle = 30 * time.Second
	// promptGreeting is how long a new connection may wait for the reply to HELLO, on top of the user's DialTimeout. The
	// user's ReadTimeout can be far longer.
	promptGreeting = 5 * time.Second
	// promptTrusted is how long a connection may have been idle before it is checked for whether the server has closed it.
	promptTrusted = 100 * time.Millisecond
)

// init allows the connection, with the options of the driver's other connections. There is none if credentials can change:
// go-redis sends new ones only on the connections of a pool.
func (p *prompt) init(o *redis.Options) {
	if o.StreamingCredentialsProvider == nil {
		p.options, p.idle = o, true
	}
}

func (d *adapter) RunPrompt(ctx context.Context, c driver.Call) (string, error) {
	if ctx.Err() != nil {
		return "", driver.ErrNotSent
	}
	l := d.takeLine()
	if l == nil {
		return "", driver.ErrNotSent
	}
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, func() { _ = l.conn.Close() })
	}
	reply, err := run(ctx, l.sticky, c)
	intact := stop() && err == nil
	d.prompt.giveBack(l, intact)
	if intact {
		return reply, nil
	}
	if ctx.Err() == nil {
		d.refreshAfter(err)
		if c.Urgent {
			d.replaceAfter(err, d.urgent.get())
		}
	}
	return reply, convert(err)
}

// takeLine returns the connection for one call. If there is none that can be used, it returns nil, and may start making one.
func (d *adapter) takeLine() *line {
	p := &d.prompt
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.idle {
		return nil
	}
	now, l := time.Now(), p.line
	if l != nil && l.isGood(now, p.options) {
		p.line, p.idle = nil, false
		return l
	}
	if l == nil && now.Before(p.notTill) {
		return nil
	}
	p.line = nil
	p.idle = !d.spawn(func() {
		if l != nil {
			l.close()
		}
		made, err := newLine(d.ctx, p.options)
		p.giveBack(made, err == nil)
	})
	return nil
}

// isGood reports whether a connection may be used.
func (l *line) isGood(now time.Time, o *redis.Options) bool {
	age, idle := now.Sub(l.made), now.Sub(l.used)
	if idle > promptIdle || o.ConnMaxIdleTime > 0 && idle > o.ConnMaxIdleTime || o.ConnMaxLifetime > 0 && age > o.ConnMaxLifetime {
		return false
	}
	return idle <= promptTrusted || !isClosed(l.conn)
}

// newLine opens a connection, and gives up when ctx ends. If it returns an error, the line must still be closed.
func newLine(ctx context.Context, o *redis.Options) (*line, error) {
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout+promptGreeting)
	defer cancel()
	own, dialed := *o, make(chan net.Conn, 1)
	own.PoolSize = 2 // with 1, go-redis would go on dialing after it has failed
	own.DialerRetries = 1
	own.Protocol = 2 // in RESP3 go-redis looks for pushes before and after each call, with a system call
	own.Dialer = func(dialing context.Context, network, addr string) (net.Conn, error) {
		conn, err := o.Dialer(dialing, network, addr)
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
	}
	l := &line{client: redis.NewClient(&own), made: time.Now()}
	l.sticky = l.client.Conn()
	hangUp := func() {
		select {
		case conn := <-dialed:
			_ = conn.Close()
		default: // there is none yet, and the dialer will see that ctx has ended
		}
	}
	stop := context.AfterFunc(ctx, hangUp) // go-redis would go on waiting for the server
	err := l.sticky.Do(ctx, "hello").Err()
	switch {
	case !stop():
		return l, ctx.Err()
	case err != nil:
		hangUp() // go-redis 9.20 does not close a connection that the server has not greeted
		return l, err
	}
	l.conn = <-dialed
	return l, nil
}

func (l *line) close() {
	_ = l.sticky.Close()
	_ = l.client.Close()
}

// giveBack ends a call's use of a connection, or its making.
func (p *prompt) giveBack(l *line, intact bool) {
	p.mu.Lock()
	p.idle = true
	l.used = time.Now()
	if intact && !p.closed {
		p.line = l
		p.mu.Unlock()
		return
	}
	p.notTill = l.used.Add(promptPause)
	p.mu.Unlock()
	l.close()
}

func (p *prompt) close() {
	p.mu.Lock()
	l := p.line
	p.closed, p.line = true, nil
	p.mu.Unlock()
	if l != nil {
		l.close()
	}
}
