package engine

import (
	"github.com/holdfast-go/holdfast/internal/notify"
)

// redissonFree is what Redisson's clients publish when they release a lock.
const redissonFree = "0"

// overhear listens on the channel on which Redisson's clients announce that l is free, and calls look when they do. In Cluster mode there
// are two such channels, and clients may use either. overhear returns nil for locks of other kinds.
func (c *Client) overhear(l *Target, look func()) []*notify.Listener {
	if l.Set.Kind.Announced == nil {
		return nil
	}
	channel := l.Set.Kind.Announced(l.Keys)
	all := []*notify.Listener{c.notifier.Watch(notify.Channel{Name: channel}, redissonFree, look)}
	if c.Server.InCluster() {
		all = append(all, c.notifier.Watch(notify.Channel{Name: channel, Sharded: true}, redissonFree, look))
	}
	return all
}
