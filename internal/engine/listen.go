package engine

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// newNotifier returns the client's subscriptions: one for all its waiters or, in Cluster mode, one for each lock, in the lock's slot; one
// for each lock that is watched; and those to Redisson's channels.
func newNotifier(c *Client) *notify.Notifier {
	return notify.New(notify.Config{
		Subscribe: c.Server.Subscribe,
		Scheduler: &c.schedule,
		Closing:   c.Closing,
		Denied: func(err error) bool {
			_, kind := exec.Classify(err)
			return kind == exec.ErrPermission
		},
		Begin: c.Tasks.Begin,
		End:   c.Tasks.End,
		Retry: maxSleep,
	})
}

// channelOf returns the channel on which waiters for l are notified.
func (c *Client) channelOf(l *Target) notify.Channel {
	if c.Server.InCluster() {
		return notify.Channel{Name: keys.ShardChannel(l.Keys, c.id), Sharded: true}
	}
	return notify.Channel{Name: c.ownChannel}
}

// watchChannelOf returns the channel on which watchers of l are told of changes.
func (c *Client) watchChannelOf(l *Target) notify.Channel {
	if c.Server.InCluster() {
		return notify.Channel{Name: keys.ShardWatchChannel(l.Keys), Sharded: true}
	}
	return notify.Channel{Name: c.Space.WatchChannel(l.Keys)}
}

// listening returns the subscription by which waiters for l can be notified now. up is false if none is confirmed.
func (c *Client) listening(l *Target) (by notify.Confirmation, up bool) {
	if c.notifier.HasNone() {
		return notify.Confirmation{}, false
	}
	return c.notifier.Confirmed(c.channelOf(l))
}

// maxStrays bounds how many unwanted grants are given back at once: anyone who may publish can send any number. A grant that is not given
// back ends with its claim.
const maxStrays = 16

func (c *Client) notified(payload string) {
	m, err := wire.ParseMessage(payload)
	if err != nil {
		return // a message of an unknown version
	}
	c.mu.Lock()
	a := c.attempts.Get(m.Token)
	c.mu.Unlock()
	switch {
	case a != nil && (m.Grant == nil || m.Grant.Kind == a.l.Set.Kind.Name):
		a.notify(m)
	// Anyone who may publish on the channel can name any token, even a holder's. So only a token that is no longer wanted is released.
	case m.Grant != nil && c.givenUp.has(grant{m.Grant.Lock, m.Token}.hash()):
		select {
		case c.strays <- struct{}{}:
		default:
			return
		}
		l := c.stray(m.Grant)
		c.Tasks.Run(func() {
			c.takeBack(l, codec.Release{Token: m.Token}, unaware, c.takingBackUntil(l))
			<-c.strays
		})
	}
}

// stray returns the lock that an unwanted notification grants, so that it can be given back.
func (c *Client) stray(n *wire.Grant) *Target {
	place := c.Space.Of(n.Lock)
	set := &kind.Settings{Terms: &kind.Terms{TTL: min(duration(n.Claim), c.Config.MaxTTL), Kind: kind.At(n.Kind, place)}}
	if set.Kind.Name != "" {
		place = place.For(set.Kind.Name)
	}
	return &Target{lock.Lock{Of: &c.Keyspace, Keys: place, Set: set}, c}
}

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

// Watcher waits for a lock to change.
type Watcher struct {
	c       *Client
	sub     *notify.Listener // nil if nobody tells of changes
	wakeups wakeups
}

// Watch starts watching the lock. The caller must call Leave in the end. Watch fails if the client is closing.
func (l *Target) Watch() (*Watcher, error) {
	c := l.c
	defer c.Enter().End() // Close waits for this, and then ends the subscriptions
	if c.IsClosing() {
		return nil, exec.ErrClosed
	}
	w := &Watcher{c: c, wakeups: make(wakeups, 1)}
	w.sub = c.notifier.Watch(c.watchChannelOf(l), "", w.wakeups.wake)
	return w, nil
}

// Leave ends watching.
func (w *Watcher) Leave() {
	if w.sub != nil {
		w.sub.Leave()
	}
}

// maxWatchSleep is the longest time between two checks. It is maxDeafSleep while the watcher is not subscribed, or if the last check
// failed.
const (
	maxWatchSleep = 30 * time.Second
	maxDeafSleep  = time.Second
)

// Wait waits for a reason to check again. It returns an error if the caller should stop. answered says that the last check was answered;
// what that found may expire after ttl, unless ttl is negative.
func (w *Watcher) Wait(ctx context.Context, answered bool, ttl time.Duration) error {
	d := maxWatchSleep
	if !answered || w.sub == nil || !w.sub.IsUp() {
		d = maxDeafSleep
	}
	if answered && ttl >= 0 && w.sub != nil {
		d = min(d, ttl+time.Millisecond)
	}
	timer := time.NewTimer(d + rand.N(10*time.Millisecond))
	defer timer.Stop()
	select {
	case <-w.wakeups:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.c.Closing:
		return exec.ErrClosed
	}
	return nil
}
