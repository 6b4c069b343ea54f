package holdfastgoredis

import (
	"context"
	"net"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/redis/go-redis/v9"
)

// evalAsked is RunDurably on the node that a refusal with ASK names: the keys have gone there already, while
// their slot is on the move. WAIT has to follow the script on the same connection, and go-redis follows an
// ASK with one command only; nor does it show its client of a node that has no slots yet. So this one
// is for one call.
func evalAsked(ctx context.Context, by redis.UniversalClient, refusal error, c driver.Call, want driver.Durability) (string, driver.Confirmation, error) {
	refused, ok := by.(*redis.Client)
	if !ok {
		return "", driver.Confirmation{}, refusal
	}
	addr := refusal.Error()[strings.LastIndexByte(refusal.Error(), ' ')+1:]
	o := *refused.Options()
	if host, port, err := net.SplitHostPort(addr); err == nil && host == "" { // the same as that of who refused
		host, _, _ = net.SplitHostPort(o.Addr)
		addr = net.JoinHostPort(host, port)
	}
	o.Addr, o.PoolSize, o.MinIdleConns = addr, 1, 0
	node := redis.NewClient(&o)
	defer func() { _ = node.Close() }()
	return evalDurably(ctx, node, true, "eval", c.Script.Source, c.Keys, c.Args, want)
}
