package engine

import (
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
	case m.Grant != nil && c.mint.waited(m.Token, m.Grant.Lock): // this client waited with the token, and gave up or detached the lock
		if c.detached.mayHave(m.Token, m.Grant.Now) {
			return
		}
		select {
		case c.strays <- struct{}{}:
		default:
			return
		}
		l := c.stray(m.Grant)
		c.Tasks.Run(func() {
			c.takeBack(l, m.Token, "", 0, unaware, c.takingBackUntil(l))
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
