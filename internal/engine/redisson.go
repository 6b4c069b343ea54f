package engine

import (
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/notify"
)

// redisson is a mutex that is kept as Redisson keeps its RLock, in a hash.
var redisson = single(kind{
	name: "redisson", form: codec.HoldsRedisson, flags: codec.Redisson, overhear: overhearRedisson,
	place: func(space keys.Space, _ string, s *settings) (keys.Set, error) {
		set, err := space.Redisson(s.key)
		if err == nil {
			set = set.For("redisson")
		}
		return set, err
	},
})

// redissonFree is what Redisson's clients publish when they release a lock.
const redissonFree = "0"

// overhearRedisson listens on the channel on which Redisson's clients announce that l is free. In
// Cluster mode there are two such channels, and they may use either.
func overhearRedisson(c *Client, l *Target, look func()) []*notify.Listener {
	channel := keys.RedissonChannel(l.keys)
	all := []*notify.Listener{c.notifier.Watch(notify.Channel{Name: channel}, redissonFree, look)}
	if c.server.InCluster() {
		all = append(all, c.notifier.Watch(notify.Channel{Name: channel, Sharded: true}, redissonFree, look))
	}
	return all
}
