package holdfastgoredis

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// patience bounds the wait for the replies to what go-redis sends first on a connection that it greets for others. It is added to the
// user's DialTimeout, which by default is as long. The user's ReadTimeout can be far longer.
const patience = 5 * time.Second

// single returns what makes clients of a server, or of a master whose address changes. user is the program's client; if it is nil, acquires
// have a client of the driver's own.
func single(o redis.Options, user *redis.Client) adapter.Library {
	lib := adapter.Library{
		Name: "goredis", Addrs: []string{o.Addr}, ErrClosing: redis.ErrClosed,
		Changes: o.Limiter != nil || o.StreamingCredentialsProvider != nil, // which know only what goes through a pool
		MaxIdle: o.ConnMaxIdleTime, MaxAge: o.ConnMaxLifetime,
		Dial: dialOf(o.Dialer, o.Network),
		Greet: func(ctx context.Context, addr string, dial adapter.Dial) (*adapter.Client, error) {
			return greet(ctx, ownOptions(o, addr, dial), dial)
		},
		GreetTimeout: o.DialTimeout + patience,
		New: func(addr string, dial adapter.Dial) (*adapter.Client, error) {
			var p pools
			own := redis.NewClient(ownOptions(o, addr, dial))
			client := p.client(own)
			client.Shared = &adapter.Client{Pools: true}
			var shared *redis.Client
			if user != nil {
				client.Shared.Send = sharing(sending(user))
			} else {
				options := ownOptions(o, addr, dial)
				options.MaxActiveConns, options.MinIdleConns = o.MaxActiveConns, o.MinIdleConns
				shared = redis.NewClient(options)
				client.Shared.Send = sending(shared)
			}
			client.Close = func() {
				_ = own.Close()
				if shared != nil {
					_ = shared.Close()
				}
				p.close()
			}
			return client, nil
		},
	}
	if user != nil {
		lib.Closed = func(string) bool { return isClosed(user) }
	}
	return lib
}

// failover returns what makes clients of the master that sentinels name.
func failover(o redis.FailoverOptions) adapter.Library {
	template := redis.NewFailoverClient(&o) // only to derive options
	master := *template.Options()
	_ = template.Close()
	master.Dialer = dialerOr(o.Dialer, o.DialTimeout, o.TLSConfig)
	lib := single(master, nil)
	lib.Addrs, lib.Master = slices.Clone(o.SentinelAddrs), o.MasterName
	lib.Sentinel = func(addr string, dial adapter.Dial) (*adapter.Client, error) {
		client := redis.NewClient(&redis.Options{
			Addr: addr, ClientName: o.ClientName, Protocol: o.Protocol, Dialer: dialing(dial), OnConnect: o.OnConnect,
			Username: o.SentinelUsername, Password: o.SentinelPassword, DisableIdentity: o.DisableIdentity,
			MaxRetries: -1, PoolSize: 2, ContextTimeoutEnabled: true,
			MaintNotificationsConfig: noNotifications(),
		})
		return &adapter.Client{Send: sending(client), Close: func() { _ = client.Close() }}, nil
	}
	return lib
}

// findTimeout is longer than go-redis by default takes to give up a sentinel that hangs. It does not give it up if the
// context ends earlier.
const findTimeout = 20 * time.Second

// follow makes the driver follow the master that go-redis's own sentinel names. All connections lead to it, whatever the address.
func follow(lib *adapter.Library) {
	dial := lib.Dial
	lib.Find = func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, findTimeout)
		defer cancel()
		conn, err := dial(ctx, "", nil, nil)
		if err != nil {
			return "", err
		}
		defer func() { _ = conn.Close() }()
		return conn.RemoteAddr().String(), nil
	}
	lib.Dial = dialOf(func(ctx context.Context, _, addr string) (net.Conn, error) {
		conn, err := dial(ctx, addr, nil, nil)
		if err == nil && conn.RemoteAddr().String() != addr {
			_ = conn.Close()
			return nil, errors.New("the master was replaced")
		}
		return conn, err
	}, "")
}

// cluster returns what makes clients of a Cluster. user is the program's client.
func cluster(o redis.ClusterOptions, user *redis.ClusterClient) adapter.Library {
	var nodes sync.Map // of the driver's client: those of the nodes, by their addresses
	return adapter.Library{
		Name: "goredis", Addrs: slices.Clone(o.Addrs), ErrClosing: redis.ErrClosed,
		Changes: o.StreamingCredentialsProvider != nil,
		MaxIdle: o.ConnMaxIdleTime, MaxAge: o.ConnMaxLifetime,
		Dial: dialOf(dialerOr(o.Dialer, o.DialTimeout, o.TLSConfig), "tcp"),
		Greet: func(ctx context.Context, addr string, dial adapter.Dial) (*adapter.Client, error) {
			node, is := nodes.Load(addr)
			if !is {
				return nil, errors.New("go-redis does not know the Cluster node")
			}
			return greet(ctx, node.(*redis.Client).Options(), dial)
		},
		GreetTimeout: cmp.Or(o.DialTimeout, patience) + patience,
		Closed: func(key string) bool {
			node, err := user.MasterForKey(ended, key)
			if err != nil {
				return errors.Is(err, redis.ErrClosed)
			}
			return isClosed(node)
		},
		New: func(_ string, dial adapter.Dial) (*adapter.Client, error) {
			var p pools
			own := redis.NewClusterClient(ownClusterOptions(o, dial, &nodes))
			// go-redis asks again who has which slots every ten seconds and after a redirection, but not when a master is dead,
			// and not for subscriptions.
			refresh := func(ctx context.Context, key string) error {
				user.ReloadState(ctx)
				own.ReloadState(ctx)
				_, err := own.MasterForKey(ctx, key)
				return convert(err)
			}
			return &adapter.Client{
				Send: routing(own), Pools: true, IsCluster: true, Refresh: refresh,
				Shared: &adapter.Client{Send: sharing(routing(user)), Pools: true, IsCluster: true, Refresh: refresh},
				Dedicate: func(urgent bool) (resp.Sender, func()) {
					return dedicated(func(ctx context.Context, key string) (*redis.Client, error) {
						node, err := own.MasterForKey(ctx, key)
						if err != nil {
							return nil, err
						}
						return p.of(node, urgent), nil
					})
				},
				Nodes: func() map[string]*adapter.Client {
					all := map[string]*adapter.Client{}
					nodes.Range(func(addr, node any) bool {
						all[addr.(string)] = p.client(node.(*redis.Client))
						return true
					})
					return all
				},
				Node: func(key string) string {
					node, err := own.MasterForKey(ended, key)
					if err != nil {
						return ""
					}
					return node.Options().Addr
				},
				Close: func() {
					_ = own.Close()
					p.close()
				},
			}, nil
		},
	}
}

// greet makes a client that greets a server on its only connection. It returns when ctx ends, even if a dialer goes on, as go-redis's own
// does with TLS.
func greet(ctx context.Context, o *redis.Options, dial adapter.Dial) (*adapter.Client, error) {
	own := *o
	own.PoolSize = 2 // with 1, go-redis would keep dialing after a failure
	own.MaxRetries = -1
	own.Protocol = 2 // in RESP3 servers can push
	own.Dialer = dialing(dial)
	client := redis.NewClient(&own)
	sticky := client.Conn() // go-redis does not replace its connection when that breaks
	return &adapter.Client{Close: func() {
		_ = sticky.Close()
		_ = client.Close()
	}}, convert(sticky.Do(ctx, "hello").Err())
}

// durablePools has the sizes of the pools for calls that wait for replicas or disks: acquires, and urgent calls. Such a
// call occupies its connection while it waits, for a second by default, so renewals have a pool of their own. Up to
// idleDurable idle connections of each pool stay open.
var durablePools = map[bool]int{false: 64, true: 256}

const idleDurable = 16

// pools has clients for calls that wait for replicas or disks.
type pools struct {
	mu  sync.Mutex
	all map[pool]*redis.Client
}

// pool is a pool of a node's.
type pool struct {
	node   *redis.Client
	urgent bool
}

// client returns the client of a server, or of a Cluster's node.
func (p *pools) client(node *redis.Client) *adapter.Client {
	return &adapter.Client{Send: sending(node), Pools: true, Dedicate: func(urgent bool) (resp.Sender, func()) {
		return dedicated(func(context.Context, string) (*redis.Client, error) { return p.of(node, urgent), nil })
	}}
}

// of returns the client of node's server for calls that wait for replicas or disks.
func (p *pools) of(node *redis.Client, urgent bool) *redis.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := pool{node, urgent}
	if p.all[at] == nil {
		for other, client := range p.all {
			if isClosed(other.node) { // it has left the Cluster
				_ = client.Close()
				delete(p.all, other)
			}
		}
		o := *node.Options()
		o.PoolSize, o.MaxIdleConns, o.MaxRetries = durablePools[urgent], idleDurable, -1
		if p.all == nil {
			p.all = map[pool]*redis.Client{}
		}
		p.all[at] = redis.NewClient(&o)
	}
	return p.all[at]
}

func (p *pools) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.all {
		_ = c.Close()
	}
}
