package holdfastgoredis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/sentinel"
)

// NewFailover returns a holdfast.Client for the master that sentinels watch. It has two go-redis clients of its own,
// made with the options that NewFailoverClient takes. It asks all
// sentinels at once, each for half a second at most, and believes the majority of them; where there is none, the one with
// the latest configuration. If fewer than three are named, it asks those for others.
// Options that cannot be used for locks are refused with an error that says why and matches holdfast.ErrInvalid.
func NewFailover(o *redis.FailoverOptions, cfg *holdfast.Config) (*holdfast.Client, error) {
	d, err := NewFailoverDriver(o)
	return newClient(d, err, cfg)
}

// NewFailoverDriver returns the driver of NewFailover's client.
func NewFailoverDriver(o *redis.FailoverOptions) (driver.Driver, error) {
	switch {
	case o == nil || len(o.SentinelAddrs) == 0:
		return nil, errors.New("redis.FailoverOptions has no SentinelAddrs")
	case o.ReplicaOnly || o.RouteByLatency || o.RouteRandomly:
		return nil, errors.New("redis.FailoverOptions.ReplicaOnly, RouteByLatency and RouteRandomly cannot be used for locks: replicas do not grant them")
	}
	like := redis.NewFailoverClient(o) // for the options that it makes of these
	user := ownOptions(like.Options())
	_ = like.Close()
	user.MaxActiveConns, user.MinIdleConns = o.MaxActiveConns, o.MinIdleConns
	own := ownOptions(user)
	d := newAdapter(nil, "")
	d.width = widthOf(user.PoolSize, user.MaxActiveConns)
	f := &follower{d: d, dialer: o.Dialer, conns: map[net.Conn]string{}, sentinels: map[string]*redis.SentinelClient{}, options: o}
	f.group = sentinel.New(o.SentinelAddrs, f.ask)
	if f.dialer == nil {
		f.dialer = dialerOf(o)
	}
	f.dialer = guarded(f.dialer)
	f.lead(user)
	f.lead(own)
	d.user, d.made = redis.NewClient(user), true
	d.connect(own)
	d.follower, d.astray = f, f.look
	return d, nil
}

// dialerOf is what go-redis dials with where no Dialer is given.
func dialerOf(o *redis.FailoverOptions) dialer {
	d := &net.Dialer{Timeout: cmp.Or(o.DialTimeout, dialTimeout), KeepAlive: 5 * time.Minute}
	if o.TLSConfig == nil {
		return d.DialContext
	}
	return (&tls.Dialer{NetDialer: d, Config: o.TLSConfig}).DialContext
}

// follower dials the master that Sentinel names at that moment, and closes the
// connections to another one: a master that was replaced may be alive, and take writes
// for ten seconds, until a sentinel makes it a replica. What it answers is worth nothing,
// and who has subscribed to it is not heard. go-redis follows with the user's pool only,
// and does not tell; so the follower asks, while it has connections.
type follower struct {
	d      *adapter
	dialer dialer

	group     *sentinel.Group        // of NewFailover; else nil: the dialer asks the sentinel that go-redis has chosen
	options   *redis.FailoverOptions // of NewFailover
	sentinels map[string]*redis.SentinelClient
	closed    bool

	mu       sync.Mutex          // guards all but what is not changed
	master   string              // where the latest connection leads
	conns    map[net.Conn]string // and where each of them leads
	watching bool
	looking  bool
	looked   time.Time // for the master, at last
}

const (
	watchPeriod = time.Second            // between looks for the master
	lookPeriod  = 250 * time.Millisecond // at least, when there are reasons to look
	// lookPatience is more than go-redis takes to give up a sentinel that hangs, by default: it does
	// not if the context ends before.
	lookPatience = 20 * time.Second
)

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// follows reports whether a client finds its server through Sentinel: it has its name
// from go-redis's NewFailoverClient.
func follows(o *redis.Options) bool { return o.Addr == "FailoverClient" }

// follow changes the options of our own connections so that they keep to the master.
func (d *adapter) follow(o *redis.Options) *follower {
	f := &follower{d: d, dialer: o.Dialer, conns: map[net.Conn]string{}}
	f.lead(o)
	return f
}

// lead changes options so that their client dials by the follower.
func (f *follower) lead(o *redis.Options) {
	o.Dialer = f.dial
	first := o.OnConnect
	o.OnConnect = func(ctx context.Context, cn *redis.Conn) error {
		if first != nil {
			if err := first(ctx, cn); err != nil {
				return err
			}
		}
		return mustBeMaster(cn.Do(ctx, "hello"))
	}
}

func (f *follower) dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	if f.group != nil {
		if addr, err = f.group.Master(ctx); err == nil {
			f.mu.Lock()
			f.follow(addr)
			f.mu.Unlock()
		}
	}
	if err == nil {
		conn, err = f.dialer(ctx, network, addr)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.group == nil {
		addr = conn.RemoteAddr().String()
		f.follow(addr)
	} else if f.master != addr {
		_ = conn.Close()
		return nil, fmt.Errorf("%w: the master has been replaced meanwhile", driver.ErrNotSent)
	}
	f.conns[conn] = addr
	if !f.watching {
		f.watching = true
		f.d.behind(f.watch)
	}
	followed := followedConn{conn, f}
	if sys, ok := conn.(syscall.Conn); ok { // by which go-redis sees that a connection broke
		return followedSystemConn{followed, sys}, nil
	}
	return followed, nil
}

// follow closes the connections that do not lead to the master. Called under the lock.
func (f *follower) follow(master string) {
	if master == f.master {
		return
	}
	f.master = master
	for other, addr := range f.conns {
		if addr != master {
			_ = other.Close() // its user is told, and forgets it
		}
	}
}

// ask asks one sentinel, over a connection that stays.
func (f *follower) ask(ctx context.Context, addr string, others bool) (a sentinel.Answer, err error) {
	client, err := f.sentinel(addr)
	if err != nil {
		return a, err
	}
	name := f.options.MasterName
	named, err := client.GetMasterAddrByName(ctx, name).Result()
	if err != nil {
		return a, err
	}
	if len(named) != 2 {
		return a, fmt.Errorf("the reply to SENTINEL GET-MASTER-ADDR-BY-NAME has %d fields", len(named))
	}
	a.Addr = net.JoinHostPort(named[0], named[1])
	// What these do not tell is not needed where a majority agrees.
	if all, err := client.Master(ctx, name).Result(); err == nil {
		a.Epoch, _ = strconv.ParseInt(all["config-epoch"], 10, 64)
	}
	if others {
		all, _ := client.Sentinels(ctx, name).Result()
		for _, other := range all {
			a.Others = append(a.Others, net.JoinHostPort(other["ip"], other["port"]))
		}
	}
	return a, nil
}

// sentinel returns the client of one.
func (f *follower) sentinel(addr string) (*redis.SentinelClient, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, redis.ErrClosed
	}
	client := f.sentinels[addr]
	if client == nil {
		o := f.options
		client = redis.NewSentinelClient(&redis.Options{
			Addr: addr, ClientName: o.ClientName, Protocol: o.Protocol, Dialer: o.Dialer, OnConnect: o.OnConnect, TLSConfig: o.TLSConfig,
			Username: o.SentinelUsername, Password: o.SentinelPassword, DisableIdentity: o.DisableIdentity,
			MaxRetries: -1, PoolSize: 2, ContextTimeoutEnabled: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		f.sentinels[addr] = client
	}
	return client, nil
}

func (f *follower) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, client := range f.sentinels {
		_ = client.Close()
	}
}

// watch looks for the master while there are connections.
func (f *follower) watch() {
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-f.d.ctx.Done():
			return
		}
		f.mu.Lock()
		f.watching = len(f.conns) > 0
		on := f.watching
		f.mu.Unlock()
		if !on {
			return
		}
		f.look()
	}
}

// look asks who is the master, by dialling it; not often, however much goes wrong.
func (f *follower) look() {
	f.mu.Lock()
	soon := f.looking || time.Since(f.looked) < lookPeriod
	if !soon {
		f.looked, f.looking = time.Now(), true
	}
	f.mu.Unlock()
	if soon {
		return
	}
	defer func() {
		f.mu.Lock()
		f.looking = false
		f.mu.Unlock()
	}()
	ctx, cancel := context.WithTimeout(f.d.ctx, lookPatience)
	defer cancel()
	if f.group != nil {
		if master, err := f.group.Master(ctx); err == nil {
			f.mu.Lock()
			f.follow(master)
			f.mu.Unlock()
		}
		return
	}
	if conn, err := f.dial(ctx, "tcp", ""); err == nil {
		_ = conn.Close()
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

func (f *follower) forget(conn net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, conn)
}

// followedConn is a connection that its follower can close.
type followedConn struct {
	net.Conn
	f *follower
}

func (c followedConn) Close() error {
	c.f.forget(c.Conn)
	return c.Conn.Close()
}

type followedSystemConn struct {
	followedConn
	syscall.Conn
}
