package doctor

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/keys"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor/target"
)

// subject is a server that is examined, with a lock that is the server's own.
type subject struct {
	*target.Server
	probe   *probe
	mode    string        // of the deployment
	ttl     time.Duration // of the leases that the server must be good for
	words   words
	name    string // of the lock
	keys    keys.Set
	fence   string // the key of its fence counter
	channel string // of a waiter for it

	pings      []time.Duration // how long each PING of the trial took, sorted
	hasDelifeq bool
}

// words are the commands for messages, which differ in a Cluster.
type words struct {
	subscribe, publish, countSubscribers string
	receive                              func(c *redis.Client) func(context.Context, ...string) *redis.PubSub
}

var (
	plainWords = words{"subscribe", "publish", "numsub", func(c *redis.Client) func(context.Context, ...string) *redis.PubSub { return c.Subscribe }}
	shardWords = words{"ssubscribe", "spublish", "shardnumsub", func(c *redis.Client) func(context.Context, ...string) *redis.PubSub { return c.SSubscribe }}
)

// subject returns a server as the subject of checks.
func (p *probe) subject(ctx context.Context, server *target.Server, d *target.Deployment) *subject {
	s := &subject{Server: server, probe: p, mode: d.Mode, ttl: p.TTL, words: plainWords, name: p.name(0)}
	cluster := d.Cluster()
	if cluster != nil && !server.Replica {
		s.name = p.nameOn(ctx, cluster, server.Addr)
	}
	s.keys, _ = p.space.Name(s.name) // a name of letters, digits and colons is valid
	s.fence, s.channel = p.space.Fence(), p.space.Channel("doctor:"+p.id)
	if cluster != nil {
		s.words, s.fence, s.channel = shardWords, p.space.SlotFence(keys.Slot(s.keys.Lock)), keys.ShardChannel(s.keys, "doctor")
	}
	return s
}

// nameOn returns a name whose lock is on this master of a Cluster.
func (p *probe) nameOn(ctx context.Context, c *redis.ClusterClient, addr string) (name string) {
	for i := range 1000 {
		name = p.name(i)
		set, err := p.space.Name(name)
		if err != nil {
			break
		}
		if m, err := c.MasterForKey(ctx, set.Lock); err != nil || m.Options().Addr == addr {
			break
		}
	}
	return name
}
