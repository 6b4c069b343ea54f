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

	mu        sync.Mutex
	watching  bool
	closed    bool
	sentinels map[string]Client
	master    string // the server that the latest client leads to; "" before the first
}

// watchPeriod is the time between two looks for the master.
const watchPeriod = time.Second

func newFollower(d *Driver) *follower {
	f := &follower{d: d, sentinels: map[string]Client{}}
	f.group = sentinel.New(d.lib.Addrs, sentinel.Asking(d.lib.Master, f.do))
	return f
}

// connect makes a client for the master.
func (f *follower) connect() (Client, error) {
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

// do sends a command to a sentinel, on a connection that stays open. Making a client does not end with ctx.
func (f *follower) do(ctx context.Context, addr string, words ...string) resp.Reply {
	f.mu.Lock()
	client, closed := f.sentinels[addr], f.closed
	f.mu.Unlock()
	if closed {
		return resp.Reply{Err: f.d.lib.ErrClosing}
	}
	if client == nil {
		var err error
		if client, err = f.d.lib.Sentinel(addr, bounded(f.d.lib.Dial)); err != nil {
			return resp.Reply{Err: convert(err)}
		}
		f.mu.Lock()
		closed = f.closed
		f.sentinels[addr] = client
		f.mu.Unlock()
		if closed {
			client.Close()
		}
	}
	return client.Send(ctx, resp.New(words...))[0]
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

func (f *follower) close() {
	f.mu.Lock()
	f.closed = true
	clients := f.sentinels
	f.mu.Unlock()
	for _, client := range clients {
		client.Close()
	}
}
