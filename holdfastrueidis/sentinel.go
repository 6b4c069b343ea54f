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

// follower finds the master that Sentinel names and makes the driver drop clients of any other server. A replaced
// master may stay alive and accept writes for ten seconds, until a sentinel makes it a replica; its answers are
// worthless. rueidis follows only one sentinel, which can hang or miss a failover.
type follower struct {
	d     *adapter
	group *sentinel.Group

	mu        sync.Mutex
	watching  bool
	closed    bool
	sentinels map[string]rueidis.Client
}

// watchPeriod is the time between two looks for the master.
const watchPeriod = time.Second

func newFollower(d *adapter) *follower {
	f := &follower{d: d, sentinels: map[string]rueidis.Client{}}
	f.group = sentinel.New(d.option.InitAddress, f.ask)
	return f
}

// connect makes a client for the master and returns it with the master's address.
func (f *follower) connect() (rueidis.Client, string, error) {
	f.mu.Lock()
	if !f.watching {
		f.watching = f.d.spawn(f.watch)
	}
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(f.d.ctx, 4*sentinel.Timeout)
	defer cancel()
	master, err := f.group.Master(ctx)
	if err != nil {
		return nil, "", err
	}
	client, err := rueidis.NewClient(singleServer(f.d.option, master))
	if err != nil {
		return client, "", err
	}
	return client, master, checkMaster(ctx, client) // sentinels that missed a failover still name the old master
}

// singleServer returns the options for the server at addr alone.
func singleServer(o rueidis.ClientOption, addr string) rueidis.ClientOption {
	o.InitAddress, o.ForceSingleClient = []string{addr}, true
	o.Sentinel, o.SendToReplicas = rueidis.SentinelOption{}, nil
	return o
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
		if err != nil {
			continue
		}
		f.d.scripts.follow(master)
		if f.d.subscriptions.follow(master) {
			f.d.subs.Reconnect(errReplaced)
		}
	}
}

var errReplaced = fmt.Errorf("%w: Sentinel has replaced the master", driver.ErrNotSent)

// ask asks one sentinel, on a connection that stays open.
func (f *follower) ask(ctx context.Context, addr string, others bool) (a sentinel.Answer, err error) {
	client, err := f.sentinel(addr)
	if err != nil {
		return a, refused(err)
	}
	name := f.d.option.Sentinel.MasterSet
	master, err := client.Do(ctx, client.B().SentinelGetMasterAddrByName().Master(name).Build()).AsStrSlice()
	if rueidis.IsRedisNil(err) {
		return a, sentinel.UnknownMaster(name, masters(ctx, client))
	}
	if err != nil {
		return a, refused(err)
	}
	if len(master) != 2 {
		return a, fmt.Errorf("the reply to SENTINEL GET-MASTER-ADDR-BY-NAME has %d fields, not 2", len(master))
	}
	a.Addr = net.JoinHostPort(master[0], master[1])
	// These may fail, since their answers are not needed if a majority agrees.
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

// refused names the mistake if an error of a sentinel shows one.
func refused(err error) error {
	if reply, answered := rueidis.IsRedisErr(err); answered {
		return sentinel.Refused(err, restoreCode(reply.Error()))
	}
	return err
}

// masters returns the names of the masters that a sentinel watches, if it tells.
func masters(ctx context.Context, client rueidis.Client) (names []string) {
	all, _ := client.Do(ctx, client.B().Arbitrary("SENTINEL", "MASTERS").Build()).ToArray()
	for _, master := range all {
		if fields, err := master.AsStrMap(); err == nil && fields["name"] != "" {
			names = append(names, fields["name"])
		}
	}
	return names
}

// sentinel returns the client for a sentinel. Making it does not end with any context.
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
	o, s := singleServer(f.d.option, addr), f.d.option.Sentinel
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
