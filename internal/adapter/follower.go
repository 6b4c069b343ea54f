package adapter

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/internal/sentinel"
)

// follower finds the master that Sentinel names and makes the driver drop clients of any other server. A replaced
// master may stay alive and accept writes for ten seconds, until a sentinel makes it a replica; its answers are
// worthless. The libraries follow only one sentinel, which can hang or miss a failover.
type follower struct {
	d     *Driver
	group *sentinel.Group // nil if the library asks sentinels itself
	find  func(ctx context.Context) (addr string, err error)
	hurry chan struct{} // holds an item if the master is to be looked for soon

	mu       sync.Mutex
	watching bool
	master   string // the server that the latest client leads to, or the one being made; "" before the first
}

// watchPeriod is the time between two looks for the master, and hurryPeriod that between a failed dial and the look that it causes.
const (
	watchPeriod = time.Second
	hurryPeriod = 100 * time.Millisecond
)

func newFollower(d *Driver) *follower {
	f := &follower{d: d, find: d.lib.Find, hurry: make(chan struct{}, 1)}
	if d.lib.Sentinel != nil {
		f.group = sentinel.New(d.lib.Master, d.lib.Addrs, func(addr string) (resp.Sender, func(), error) {
			client, err := d.lib.Sentinel(addr, bounded(d.lib.Dial))
			if err != nil {
				return nil, nil, convert(err)
			}
			return client.Send, client.Close, nil
		})
		f.find = f.group.Master
	}
	return f
}

// connect makes a client for the master. It is called while the driver has none.
func (f *follower) connect() (*Client, error) {
	f.mu.Lock()
	if !f.watching {
		f.watching = f.d.spawn(f.watch)
	}
	f.mu.Unlock()
	master, err := f.find(f.d.ctx)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	old := f.master
	f.master = master
	f.mu.Unlock()
	if old != master { // open asks for the era before the address
		f.d.conns.closeAll() // those that it has made since the last client was dropped
	}
	client, err := f.d.lib.New(master, f.d.dial(f.d.era()))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(f.d.ctx, 4*sentinel.Timeout)
	defer cancel()
	// Sentinels that missed a failover still name the old master.
	if err := resp.CheckMaster(client.Send(ctx, resp.New("hello"))[0]); err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
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
		master, err := f.find(f.d.ctx)
		client := f.d.current() // before addr, which changes before there is another client
		if err == nil && master != f.addr() {
			f.d.drop(client, 0, true)
		}
	}
}

// addr returns the master's address, or "" if it is not known yet.
func (f *follower) addr() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.master
}

// mistakes returns the faults of the sentinels' addresses.
func (f *follower) mistakes() string {
	if f.group == nil {
		return ""
	}
	return f.group.Mistakes()
}
