package holdfastrueidis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/sentinel"
)

// follower finds the master that Sentinel names, and has the driver leave another: a master that was replaced may
// be alive, and take writes for ten seconds, until a sentinel makes it a replica. What it answers is worth nothing.
// rueidis follows one sentinel, which can hang, or not have heard of the failover.
type follower struct {
	d     *adapter
	group *sentinel.Group

	mu        sync.Mutex
	watching  bool
	closed    bool
	sentinels map[string]rueidis.Client
}

// watchPeriod is the time between looks for the master.
const watchPeriod = time.Second

func follow(d *adapter) *follower {
	f := &follower{d: d, sentinels: map[string]rueidis.Client{}}
	f.group = sentinel.New(d.option.InitAddress, f.ask)
	return f
}

// connect makes a client for the master.
func (f *follower) connect() (rueidis.Client, string, error) {
	f.mu.Lock()
	if !f.watching {
		f.watching = f.d.behind(f.watch)
	}
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(f.d.ctx, 4*sentinel.Timeout)
	defer cancel()
	master, err := f.group.Master(ctx)
	if err != nil {
		return nil, "", err
	}
	client, err := rueidis.NewClient(alone(f.d.option, master))
	if err != nil {
		return client, "", err
	}
	// Sentinels that have not heard of a failover yet take the old master for the master.
	field, err := hello(ctx, client)
	if err == nil && field["role"] == "replica" {
		err = errReplica
	}
	return client, master, err
}

// alone are options for one server.
func alone(o rueidis.ClientOption, addr string) rueidis.ClientOption {
	o.InitAddress, o.ForceSingleClient = []string{addr}, true
	o.Sentinel, o.SendToReplicas = rueidis.SentinelOption{}, nil
	return o
}

// watch looks for the master, from the first connection on.
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
		if err != nil {
			continue
		}
		f.d.hands.keepTo(master)
		if f.d.ears.keepTo(master) {
			f.d.subs.Interrupt(errReplaced)
		}
	}
}

var errReplaced = fmt.Errorf("%w: Sentinel has replaced the master", driver.ErrNotSent)

// ask asks one sentinel, over a connection that stays.
func (f *follower) ask(ctx context.Context, addr string, others bool) (a sentinel.Answer, err error) {
	client, err := f.sentinel(addr)
	if err != nil {
		return a, err
	}
	name := f.d.option.Sentinel.MasterSet
	named, err := client.Do(ctx, client.B().SentinelGetMasterAddrByName().Master(name).Build()).AsStrSlice()
	if err != nil {
		return a, err
	}
	if len(named) != 2 {
		return a, fmt.Errorf("the reply to SENTINEL GET-MASTER-ADDR-BY-NAME has %d fields", len(named))
	}
	a.Addr = net.JoinHostPort(named[0], named[1])
	// What these do not tell is not needed where a majority agrees.
	if all, err := client.Do(ctx, client.B().Arbitrary("SENTINEL", "MASTER", name).Build()).AsStrMap(); err == nil {
		a.Epoch, _ = strconv.ParseInt(all["config-epoch"], 10, 64)
	}
	if others {
		all, _ := client.Do(ctx, client.B().SentinelSentinels().Master(name).Build()).ToArray()
		for _, other := range all {
			if other, err := other.AsStrMap(); err == nil {
				a.Others = append(a.Others, net.JoinHostPort(other["ip"], other["port"]))
			}
		}
	}
	return a, nil
}

// sentinel returns the client of one. Making one may take longer than anybody waits for it.
func (f *follower) sentinel(addr string) (rueidis.Client, error) {
	f.mu.Lock()
	client, closed := f.sentinels[addr], f.closed
	f.mu.Unlock()
	switch {
	case closed:
		return nil, errClosed
	case client != nil:
		return client, nil
	}
	o, s := alone(f.d.option, addr), f.d.option.Sentinel
	o.Username, o.Password, o.ClientName, o.Dialer, o.TLSConfig, o.SelectDB = s.Username, s.Password, s.ClientName, s.Dialer, s.TLSConfig, 0
	client, err := rueidis.NewClient(o)
	if err != nil {
		if client != nil {
			client.Close()
		}
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		client.Close()
		return nil, errClosed
	}
	f.sentinels[addr] = client
	return client, nil
}

var errClosed = errors.New("the client is closed")

func (f *follower) close() {
	f.mu.Lock()
	f.closed = true
	clients := f.sentinels
	f.mu.Unlock()
	for _, client := range clients {
		client.Close()
	}
}
