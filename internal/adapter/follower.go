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
	master   string        // "" until it is found
	err      error         // of the latest look
	looked   chan struct{} // closed when the next look ends
}

// watchPeriod is the time between two looks for the master. After a failure it is hurryPeriod.
const (
	watchPeriod = time.Second
	hurryPeriod = 100 * time.Millisecond
)

func newFollower(d *Driver) *follower {
	f := &follower{d: d, hurry: make(chan struct{}, 1), looked: make(chan struct{})}
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
	} else if f.master == "" {
		f.look()
	}
	master, closing, looked := f.master, !f.watching, f.looked
	f.mu.Unlock()
	switch {
	case closing:
		return "", net.ErrClosed
	case master != "":
		return master, nil
	}
	select {
	case <-looked:
	case <-ctx.Done():
		return "", ctx.Err()
	case <-f.d.ctx.Done():
		return "", net.ErrClosed
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.master == "" {
		return "", f.err
	}
	return f.master, nil
}

// note stores the outcome of a look. If the master was replaced, it closes all connections to servers.
func (f *follower) note(master string, err error) {
	f.mu.Lock()
	replaced := err == nil && f.master != "" && f.master != master
	if f.err = err; err == nil {
		f.master = master
	}
	close(f.looked)
	f.looked = make(chan struct{})
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

// watch looks for the master regularly, and after a failure, until the driver closes. Many dials may fail just when the sentinels have a
// failover to carry out, so it waits for hurryPeriod after each look.
func (f *follower) watch() {
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	for {
		f.note(f.group.Master(f.d.ctx))
		select {
		case <-time.After(hurryPeriod):
		case <-f.d.ctx.Done():
			return
		}
		select {
		case <-tick.C:
		case <-f.hurry:
		case <-f.d.ctx.Done():
			return
		}
	}
}

// addr returns the master's address, or "" if it is not known yet.
func (f *follower) addr() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.master
}
