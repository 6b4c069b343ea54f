package holdfastgoredis

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
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
	reply, reached, err := evalDurably(ctx, node, false, "evalsha", c.Script.SHA1, c.Keys, c.Args, want)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, reached, err = evalDurably(ctx, node, false, "eval", c.Script.Source, c.Keys, c.Args, want)
	}
	if reply == "" && redis.HasErrorPrefix(err, "ASK ") {
		reply, reached, err = evalAsking(ctx, node, err, c, want)
	}
	if cluster, ok := rdb.(*redis.ClusterClient); ok && reply == "" && (redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK")) {
		// The script did not run, and the client will know the right node when the library tries again.
		cluster.ReloadState(ctx)
		return "", reached, driver.ReplyError("TRYAGAIN " + err.Error())
	}
	return reply, reached, convert(err)
}

// nodeOf returns a client for the server that has the key.
func nodeOf(ctx context.Context, rdb redis.UniversalClient, key string) (redis.UniversalClient, error) {
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, key)
	}
	return rdb, nil
}

func evalDurably(ctx context.Context, node redis.UniversalClient, asking bool, command, script string, keys, args []string, want driver.Durability) (text string, reached driver.Confirmation, err error) {
	eval := once{redis.NewCmd(ctx, scriptArgs(command, script, keys, args)...)}
	wait := redis.NewCmd(ctx, "wait", want.Replicas, want.Timeout.Milliseconds())
	if want.Fsync {
		wait = redis.NewCmd(ctx, "waitaof", 1, want.Replicas, want.Timeout.Milliseconds())
	}
	conn := node.(*redis.Client).Conn()
	defer func() { _ = conn.Close() }()
	pipe := conn.Pipeline()
	if asking {
		_ = pipe.Process(ctx, redis.NewCmd(ctx, "asking"))
	}
	_ = pipe.Process(ctx, eval)
	if want.Counts == nil {
		_ = pipe.Process(ctx, wait)
	}
	_, err = pipe.Exec(ctx)
	if eval.Err() != nil {
		return "", reached, eval.Err()
	}
	text, textErr := eval.Text()
	if textErr != nil || err != nil {
		return text, reached, cmp.Or(textErr, err)
	}
	if want.Counts != nil {
		if !want.Counts(text) {
			return text, reached, nil
		}
		if err := conn.Process(ctx, wait); err != nil {
			return text, reached, err
		}
	}
	if !want.Fsync {
		reached.Replicas, err = wait.Int()
		return text, reached, err
	}
	counts, err := wait.Int64Slice()
	if err != nil || len(counts) != 2 {
		return "", reached, fmt.Errorf("unexpected reply to WAITAOF: %v: %w", wait.Val(), err)
	}
	reached.Fsync, reached.Replicas = counts[0] > 0, int(counts[1])
	return text, reached, nil
}

// evalAsking is RunDurably on the node that an ASK redirection names. The slot is being moved, and the keys are on that
// node already. WAIT must follow the script on the same connection, but go-redis follows an ASK with one command only
// and does not expose its client of a node that has no slots yet, so evalAsking makes a client for the one call.
func evalAsking(ctx context.Context, from redis.UniversalClient, redirection error, c driver.Call, want driver.Durability) (string, driver.Confirmation, error) {
	redirecting, ok := from.(*redis.Client)
	if !ok {
		return "", driver.Confirmation{}, redirection
	}
	addr := redirection.Error()[strings.LastIndexByte(redirection.Error(), ' ')+1:]
	o := *redirecting.Options()
	if host, port, err := net.SplitHostPort(addr); err == nil && host == "" { // the redirecting node's own host
		host, _, _ = net.SplitHostPort(o.Addr)
		addr = net.JoinHostPort(host, port)
	}
	o.Addr, o.PoolSize, o.MinIdleConns = addr, 1, 0
	node := redis.NewClient(&o)
	defer func() { _ = node.Close() }()
	return evalDurably(ctx, node, true, "eval", c.Script.Source, c.Keys, c.Args, want)
}
