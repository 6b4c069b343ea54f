package pipelined

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
	group *sentinel.Group

	mu       sync.Mutex
	watching bool
	master   string // the server that the latest client leads to; "" before the first
}

// watchPeriod is the time between two looks for the master.
const watchPeriod = time.Second

func newFollower(d *Driver) *follower {
	return &follower{d: d, group: sentinel.New(d.lib.Master, d.lib.Addrs, func(addr string) (resp.Sender, func(), error) {
		client, err := d.lib.Sentinel(addr, bounded(d.lib.Dial))
		if err != nil {
			return nil, nil, convert(err)
		}
		return client.Send, client.Close, nil
	})}
}

// connect makes a client for the master.
func (f *follower) connect() (*Client, error) {
	f.mu.Lock()
	if !f.watching {
		f.watching = f.d.spawn(f.watch)
	}
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(f.d.ctx, 4*sentinel.Timeout)
	defer cancel()
	master, err := f.group.Master(ctx)
	if err != nil {
		return nil, err
	}
	client, err := f.d.lib.New(master, f.d.dial)
	if err != nil {
		return nil, err
	}
	if err := resp.CheckMaster(client.Send(ctx, resp.New("hello"))[0]); err != nil { // sentinels that missed a failover still name the old master
		client.Close()
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.master = master
	return client, nil
}

// watch looks for the master regularly, until the driver closes.
func (f *follower) watch() {
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-f.d.ctx.Done():
			return
		}
		master, err := f.group.Master(f.d.ctx)
		f.d.mu.Lock()
		client := f.d.client
		f.d.mu.Unlock()
		f.mu.Lock()
		replaced := err == nil && master != f.master
		f.mu.Unlock()
		if replaced {
			f.d.drop(client, 0)
		}
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
