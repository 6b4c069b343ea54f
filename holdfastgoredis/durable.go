package holdfastgoredis

import (
	"context"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// durablePools has the sizes of the pools for calls that wait for replicas or disks: acquires, and urgent calls. Such a
// call occupies its connection while it waits, for a second by default, so renewals have a pool of their own. Up to
// idleDurable idle connections of each pool stay open.
var durablePools = [2]int{64, 256}

const idleDurable = 16

// RunDurably sends the script and the command that waits for replicas on one connection, in a Cluster to the node that
// has the keys.
func (d *adapter) RunDurably(ctx context.Context, c driver.Call, want driver.Durability) (string, driver.Confirmation, error) {
	if (c.Renews || !c.Urgent) && d.isClientClosed(c.Keys[0]) {
		return "", driver.Confirmation{}, errClientClosed
	}
	rdb := d.durable[0]
	if c.Urgent {
		rdb = d.durable[1]
	}
	node, err := nodeOf(ctx, rdb, c.Keys[0])
	if err != nil {
		return "", driver.Confirmation{}, convert(err)
	}
	reply, reached, err := runDurably(ctx, node, false, c, want)
	if reply == "" && resp.Is(err, "ASK ") {
		reply, reached, err = runAsking(ctx, node, err, c, want)
	}
	if cluster, ok := rdb.(*redis.ClusterClient); ok && reply == "" && resp.Is(err, "MOVED", "ASK") {
		// The script did not run, and the client will know the right node when the library tries again.
		cluster.ReloadState(ctx)
		return "", reached, driver.ReplyError("TRYAGAIN " + err.Error())
	}
	return reply, reached, err
}

// nodeOf returns a client for the server that has the key.
func nodeOf(ctx context.Context, rdb redis.UniversalClient, key string) (*redis.Client, error) {
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, key)
	}
	return rdb.(*redis.Client), nil
}

// runDurably is RunDurably on a node.
func runDurably(ctx context.Context, node *redis.Client, asking bool, c driver.Call, want driver.Durability) (string, driver.Confirmation, error) {
	conn := node.Conn()
	defer func() { _ = conn.Close() }()
	return resp.Durably(ctx, sending(conn), c, want, asking)
}

// runAsking is RunDurably on the node that an ASK redirection names. The slot is being moved, and the keys are on that
// node already. WAIT must follow the script on the same connection, but go-redis follows an ASK with one command only
// and does not expose its client of a node that has no slots yet, so runAsking makes a client for the one call.
func runAsking(ctx context.Context, from *redis.Client, redirection error, c driver.Call, want driver.Durability) (string, driver.Confirmation, error) {
	addr := redirection.Error()[strings.LastIndexByte(redirection.Error(), ' ')+1:]
	o := *from.Options()
	if host, port, err := net.SplitHostPort(addr); err == nil && host == "" { // the redirecting node's own host
		host, _, _ = net.SplitHostPort(o.Addr)
		addr = net.JoinHostPort(host, port)
	}
	o.Addr, o.PoolSize, o.MinIdleConns = addr, 1, 0
	node := redis.NewClient(&o)
	defer func() { _ = node.Close() }()
	return runDurably(ctx, node, true, c, want)
}
