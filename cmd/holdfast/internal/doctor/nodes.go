package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast/internal/keys"
)

// node is one server, and what it says of itself.
type node struct {
	x       *examination
	addr    string
	rdb     *redis.Client
	replica bool // one that is known to be, of a Cluster or a group with sentinels
	probe   keys.Set
	channel string // of a waiter for the lock of probe

	info    map[string]string // INFO, without its sections
	infoErr error
	conf    map[string]string // CONFIG GET
	confErr error
	lost    bool            // it cannot be reached
	pings   []time.Duration // how long each took, sorted
	deletes bool            // it has DELIFEQ
}

func (x *examination) mode() string {
	switch {
	case x.Sentinel != nil:
		return "sentinel"
	case x.cluster() != nil:
		return "cluster"
	}
	return "server"
}

func (x *examination) cluster() *redis.ClusterClient {
	c, _ := x.Client.(*redis.ClusterClient)
	return c
}

// name returns the nth name for a trial lock.
func (x *examination) name(n int) string { return fmt.Sprintf("doctor:%s:%d", x.id, n) }

// discover finds the nodes: masters first, sorted by address.
func (x *examination) discover(ctx context.Context) {
	switch c := x.Client.(type) {
	case *redis.ClusterClient:
		x.discoverCluster(ctx, c)
	case *redis.Client:
		if x.Sentinel != nil {
			x.discoverBehindSentinels(ctx, c)
			break
		}
		x.nodes = []*node{{addr: x.Addr, rdb: c}}
	}
	slices.SortStableFunc(x.nodes, func(a, b *node) int {
		if a.replica != b.replica {
			return map[bool]int{false: -1, true: 1}[a.replica]
		}
		return strings.Compare(a.addr, b.addr)
	})
	for _, n := range x.nodes {
		n.x = x
		n.choose(ctx)
	}
}

func (x *examination) discoverCluster(ctx context.Context, c *redis.ClusterClient) {
	var mu sync.Mutex
	collect := func(replica bool) func(context.Context, *redis.Client) error {
		return func(_ context.Context, rdb *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			x.nodes = append(x.nodes, &node{addr: rdb.Options().Addr, rdb: rdb, replica: replica})
			return nil
		}
	}
	for replica, each := range map[bool]func(context.Context, func(context.Context, *redis.Client) error) error{
		false: c.ForEachMaster, true: c.ForEachSlave,
	} {
		if err := each(ctx, collect(replica)); err != nil {
			x.add(unchecked("topology", "the list of servers", err).on())
		}
	}
}

// discoverBehindSentinels takes the master as programs reach it, and replicas as the
// sentinels know them.
func (x *examination) discoverBehindSentinels(ctx context.Context, master *redis.Client) {
	addr := x.Addr
	s, err := x.sentinel(ctx, x.Sentinel.SentinelAddrs...)
	if err == nil {
		defer s.Close()
		if parts, err := s.GetMasterAddrByName(ctx, x.Sentinel.MasterName).Result(); err == nil && len(parts) == 2 {
			addr = net.JoinHostPort(parts[0], parts[1])
		}
		replicas, _ := s.Replicas(ctx, x.Sentinel.MasterName).Result()
		for _, r := range replicas {
			o := alike(master.Options())
			o.Addr, o.Dialer = net.JoinHostPort(r["ip"], r["port"]), x.Sentinel.Dialer
			x.nodes = append(x.nodes, &node{addr: o.Addr, rdb: x.open(o), replica: true})
		}
	}
	x.nodes = append(x.nodes, &node{addr: addr, rdb: master})
}

// alike returns options for another client, of one connection.
func alike(o *redis.Options) *redis.Options {
	other := *o
	other.PoolSize, other.MinIdleConns, other.MaxRetries = 1, 0, -1
	other.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &other
}

// open returns a client that is closed at the end.
func (x *examination) open(o *redis.Options) *redis.Client {
	rdb := redis.NewClient(o)
	x.opened = append(x.opened, rdb)
	return rdb
}

// sentinel returns a client of the first sentinel that answers.
func (x *examination) sentinel(ctx context.Context, addrs ...string) (s *redis.SentinelClient, err error) {
	for _, addr := range addrs {
		s = redis.NewSentinelClient(&redis.Options{
			Addr: addr, Username: x.Sentinel.SentinelUsername, Password: x.Sentinel.SentinelPassword,
			TLSConfig: x.Sentinel.TLSConfig, DialTimeout: x.Sentinel.DialTimeout,
		})
		if err = s.Ping(ctx).Err(); err == nil {
			return s, nil
		}
		_ = s.Close()
	}
	return nil, err
}

// choose finds a name whose lock is this node's.
func (n *node) choose(ctx context.Context) {
	name := n.x.name(0)
	if c := n.x.cluster(); c != nil && !n.replica {
		for i := range 1000 {
			name = n.x.name(i)
			set, err := n.x.space.Name(name)
			if err != nil {
				break
			}
			if m, err := c.MasterForKey(ctx, set.Lock); err != nil || m.Options().Addr == n.addr {
				break
			}
		}
	}
	n.probe, _ = n.x.space.Name(name) // a name of letters, digits and colons
	n.channel = n.x.space.Channel("doctor:" + n.x.id)
	if n.x.cluster() != nil {
		n.channel = keys.ShardChannel(n.probe, "doctor")
	}
}

// load asks for INFO and for the settings that matter.
func (n *node) load(ctx context.Context) {
	text, err := n.rdb.Info(ctx).Result()
	var answer redis.Error
	if err != nil && !errors.As(err, &answer) {
		n.lost = true
		n.add(Finding{
			ID: "topology", Severity: Warning, Saw: "cannot be reached from here: " + because("INFO", err),
			Consequence: "nothing else about it was examined",
			Remedy:      "see whether it runs, and whether programs that take locks can reach it",
		})
		return
	}
	n.info, n.infoErr = map[string]string{}, err
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			n.info[key] = value
		}
	}
	if _, tells := n.info["run_id"]; !tells && err == nil {
		n.infoErr = errSilent
	}
	words := []any{"config", "get"}
	for _, name := range settings {
		words = append(words, name)
	}
	n.conf = map[string]string{}
	reply, err := n.rdb.Do(ctx, words...).Result()
	n.confErr = err
	switch reply := reply.(type) {
	case map[any]any: // RESP3
		for k, v := range reply {
			n.conf[fmt.Sprint(k)] = fmt.Sprint(v)
		}
	case []any: // RESP2
		for i := 0; i+1 < len(reply); i += 2 {
			n.conf[fmt.Sprint(reply[i])] = fmt.Sprint(reply[i+1])
		}
	}
	if _, tells := n.conf["maxmemory"]; !tells && err == nil {
		n.confErr = errSilent
	}
}

// settings are those that are looked at. None of them is a secret.
var settings = []string{
	"maxmemory", "maxmemory-policy", "appendonly", "appendfsync", "save", "stop-writes-on-bgsave-error",
	"min-replicas-to-write", "min-replicas-max-lag", "busy-reply-threshold", "client-output-buffer-limit",
}

// add adds findings about this node.
func (n *node) add(found ...Finding) {
	for _, f := range found {
		n.x.add(f.on(n))
	}
}
