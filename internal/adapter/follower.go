package adapter

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/internal/sentinel"
)

// follower finds the master that the sentinels name, and closes the connections to any other server. A replaced master may stay alive and
// accept writes for ten seconds, until a sentinel makes it a replica; its answers are worthless.
type follower struct {
	d         *Driver
	group     *sentinel.Group
	sentinels pool
	hurry     chan struct{} // holds an item if the master is to be looked for soon

	mu       sync.Mutex
	watching bool
	master   string // "" before the first look
}

// watchPeriod is the time between two looks for the master, and hurryPeriod that between a failure and the look that it causes.
const (
	watchPeriod = time.Second
	hurryPeriod = 100 * time.Millisecond
)

func newFollower(d *Driver) *follower {
	f := &follower{d: d, hurry: make(chan struct{}, 1)}
	f.sentinels.ctx, f.sentinels.spawn = d.ctx, d.spawn
	f.sentinels.open = func(ctx context.Context, addr string) (driver.Connection, error) {
		s := &f.sentinels.conns
		return d.greet(ctx, addr, d.lib.GreetSentinel, s.dialing(d.lib.Dial, s.current(d.ctx)))
	}
	f.group = sentinel.New(d.lib.Master, d.lib.Addrs, func(addr string) resp.Sender { return f.sentinels.sender(addr, use{}) })
	return f
}

// locate returns the master's address.
func (f *follower) locate(ctx context.Context) (string, error) {
	f.mu.Lock()
	if !f.watching {
		f.watching = f.d.spawn(f.watch)
	}
	master, closing := f.master, !f.watching
	f.mu.Unlock()
	switch {
	case closing:
		return "", net.ErrClosed
	case master != "":
		return master, nil
	}
	master, err := f.group.Master(ctx)
	if err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.master == "" { // watch may know better
		f.master = master
	}
	return f.master, nil
}

// set notes where the master is. Connections to another server are closed.
func (f *follower) set(master string) {
	f.mu.Lock()
	replaced := f.master != "" && f.master != master
	f.master = master
	f.mu.Unlock()
	if replaced {
		f.d.servers.closeAll()
	}
}

// look has watch look for the master soon.
func (f *follower) look() {
	select {
	case f.hurry <- struct{}{}:
	default:
	}
}

// watch looks for the master regularly, until the driver closes.
func (f *follower) watch() {
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-f.hurry:
			select {
			case <-time.After(hurryPeriod):
			case <-f.d.ctx.Done():
				return
			}
		case <-f.d.ctx.Done():
			return
		}
		if master, err := f.group.Master(f.d.ctx); err == nil {
			f.set(master)
		}
	}
}

// addr returns the master's address, or "" if it is not known yet.
func (f *follower) addr() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.master
}
