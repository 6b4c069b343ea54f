package holdfast

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/schedule"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// hub keeps the subscriptions by which waiters are notified: one for the client, or,
// where the server runs in Cluster mode, one for each lock, in the lock's slot; one for each
// lock that is watched; and those to channels of Redisson's. They are opened when somebody has
// to wait, and closed after a time of rest.
type hub struct {
	c      *Client
	plain  string        // the client's channel outside Cluster mode
	strays chan struct{} // holds an item for each stray grant that is being given back

	mu     sync.Mutex
	subs   map[place]*subscription
	closed bool // what still comes is not heard
}

// place is what can be subscribed to. The same channel, sharded, is another.
type place struct {
	channel string
	sharded bool
}

// idleAfter is the time of rest of the client's one channel, idleAfterOne of a lock's: in
// Cluster mode, and those of other programs.
const (
	idleAfter    = time.Minute
	idleAfterOne = 10 * time.Second
)

func (h *hub) init(c *Client) {
	h.c, h.subs, h.strays = c, map[place]*subscription{}, make(chan struct{}, maxStrays)
	h.plain = c.space.Channel(c.id)
}

// maxStrays bounds how many grants that nobody wants are given back at once. Whoever may
// publish can send any number; one that is left alone ends with its claim.
const maxStrays = 16

// channelOf returns the channel on which waiters for l are notified.
func (h *hub) channelOf(l *Lock) (channel string, sharded bool) {
	if h.c.inCluster() {
		return keys.ShardChannel(l.keys, h.c.id), true
	}
	return h.plain, false
}

// watchChannelOf returns the channel on which those who watch l hear of other holders.
func (h *hub) watchChannelOf(l *Lock) (channel string, sharded bool) {
	if h.c.inCluster() {
		return keys.ShardWatchChannel(l.keys), true
	}
	return h.c.space.WatchChannel(l.keys), false
}

// hearing is a confirmation of a subscription, which is good until the subscription is interrupted.
type hearing struct {
	s   *subscription
	ups int
}

// listening returns by what waiters for l can be notified now; false if they cannot.
func (h *hub) listening(l *Lock) (by hearing, up bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.subs) == 0 {
		return hearing{}, false
	}
	channel, sharded := h.channelOf(l)
	s := h.subs[place{channel, sharded}]
	if s == nil || !s.confirmed {
		return hearing{}, false
	}
	return hearing{s, s.ups}, true
}

// join opens the subscription for l, if it is not open, and keeps it so until leave.
// look is called whenever it has been interrupted and is there again.
func (h *hub) join(l *Lock, look func()) *listener {
	channel, sharded := h.channelOf(l)
	return h.listen(place{channel, sharded}, h.c.notified, "", look)
}

// watch opens the subscription of those who watch l, if it is not open, and keeps it so
// until leave. look is called whenever there is a reason to look: a message, or that the
// subscription has been interrupted and is there again.
func (h *hub) watch(l *Lock, look func()) *listener {
	channel, sharded := h.watchChannelOf(l)
	return h.listen(place{channel, sharded}, nil, "", look)
}

// redissonFree is what Redisson's clients publish when they release a lock.
const redissonFree = "0"

// joinRedisson opens, like watch, the channel on which Redisson's clients tell each other that
// l is free. In Cluster mode there are two, and either may be the one that they use.
func (h *hub) joinRedisson(l *Lock, look func()) []*listener {
	channel := keys.RedissonChannel(l.keys)
	all := []*listener{h.listen(place{channel, false}, nil, redissonFree, look)}
	if h.c.inCluster() {
		all = append(all, h.listen(place{channel, true}, nil, redissonFree, look))
	}
	return all
}

// listen opens a subscription, or finds it. heard is told what comes; without it, all
// listeners look, at any message, or only at one.
func (h *hub) listen(p place, heard func(payload string), only string, look func()) *listener {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.subs[p]
	if s == nil {
		s = &subscription{hub: h, place: p, heard: heard, only: only, listeners: map[*listener]struct{}{}}
		h.subs[p] = s
		s.open()
	}
	h.c.schedule.Cancel(&s.idle)
	u := &listener{s: s, look: look}
	s.listeners[u] = struct{}{}
	return u
}

// close ends all subscriptions. No message begins a task after that.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for p, s := range h.subs {
		s.cancel()
		delete(h.subs, p)
	}
}

// subscription is one channel. All of it is guarded by hub.mu.
type subscription struct {
	hub *hub
	place
	heard     func(payload string) // nil: what comes is a reason to look
	only      string               // the one message that is, or ""
	cancel    func()
	epoch     int           // of the present one: what earlier ones still say is not heard
	confirmed bool          // the server says that it has us
	ups       int           // times that it has said so
	renewed   bool          // we opened it anew, and it is not confirmed since
	lost      time.Time     // since when it is not confirmed
	unheard   int           // times in a row that it was confirmed, and the server did not have us
	polling   time.Time     // since when those who wait poll; zero while they do not
	change    chan struct{} // closed when confirmed or refused changes
	refused   bool          // the server's ACL does not allow it
	listeners map[*listener]struct{}
	idle      schedule.Entry
}

func (s *subscription) open() {
	s.epoch++
	s.confirmed, s.refused = false, false
	s.lost = time.Now()
	s.changed()
	e := &ear{s, s.epoch}
	s.cancel = s.hub.c.driver.Subscribe(driver.Subscription{
		Channel: s.channel, Sharded: s.sharded, Up: e.Up, Down: e.Down, Message: e.Message,
	})
}

// changed wakes those who wait for a confirmation.
func (s *subscription) changed() {
	if s.change != nil {
		close(s.change)
	}
	s.change = make(chan struct{})
}

// ear is told what comes in one epoch.
type ear struct {
	s     *subscription
	epoch int
}

func (e *ear) Up() {
	s := e.s
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if e.epoch != s.epoch {
		return
	}
	s.confirmed, s.refused = true, false
	s.ups++
	if !s.renewed { // it was interrupted: perhaps it is where the slot is now, and the server has us
		s.unheard, s.polling = 0, time.Time{}
	}
	s.renewed = false
	s.changed()
	s.tell()
}

// tell has the listeners look.
func (s *subscription) tell() {
	for u := range s.listeners {
		u.missed = true
		u.look()
	}
}

func (e *ear) Down(err error) {
	s := e.s
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if e.epoch != s.epoch {
		return
	}
	_, kind := classify(err)
	if s.confirmed {
		s.lost = time.Now()
	}
	s.confirmed, s.refused = false, kind == ErrPermission
	s.changed()
}

func (e *ear) Message(payload string) {
	s := e.s
	if s.heard != nil {
		if s.hub.hears() {
			defer s.hub.c.tasks.end()
			s.heard(payload)
		}
		return
	}
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if e.epoch == s.epoch && (s.only == "" || payload == s.only) {
		s.tell()
	}
}

// hears reports whether messages are heard still, and begins a task if so: Close waits for what one brings.
func (h *hub) hears() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.c.tasks.begin()
	}
	return !h.closed
}

// listener is a campaign, or a watcher, that needs a subscription.
type listener struct {
	s      *subscription
	look   func()
	missed bool // notifications may have been, or others have told of a release
}

// leave ends the need. The subscription rests for a while before it is closed.
func (u *listener) leave() {
	s := u.s
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(s.listeners, u)
	if len(s.listeners) > 0 {
		return
	}
	rest := idleAfter
	if s.sharded || s.heard == nil { // of one lock
		rest = idleAfterOne
	}
	h.c.schedule.Set(&s.idle, clock.Mono().Add(rest), schedule.Func(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(s.listeners) == 0 && h.subs[s.place] == s {
			s.cancel()
			delete(h.subs, s.place)
		}
	}))
}

// awaitUp waits until the subscription is confirmed, for timeout at most, and reports
// whether it is. What is asked of the server after that misses no notification.
func (u *listener) awaitUp(timeout time.Duration) bool {
	h := u.s.hub
	var timer *time.Timer
	for {
		h.mu.Lock()
		confirmed, refused, change := u.s.confirmed, u.s.refused, u.s.change
		if confirmed {
			u.missed = false
		}
		h.mu.Unlock()
		if confirmed || refused {
			return confirmed
		}
		if timer == nil {
			timer = time.NewTimer(timeout)
			defer timer.Stop()
		}
		select {
		case <-change:
		case <-timer.C:
			return false
		case <-h.c.closing:
			return false
		}
	}
}

// still reports whether no notification can have been missed since then.
func (u *listener) still(by hearing) bool {
	u.s.hub.mu.Lock()
	defer u.s.hub.mu.Unlock()
	return u.s.confirmed && by == hearing{u.s, u.s.ups} && !u.missed
}

// up reports whether the server says that it has the subscription.
func (u *listener) up() bool {
	u.s.hub.mu.Lock()
	defer u.s.hub.mu.Unlock()
	return u.s.confirmed
}

// interrupted reports whether notifications may have been missed since awaitUp.
func (u *listener) interrupted() bool {
	u.s.hub.mu.Lock()
	defer u.s.hub.mu.Unlock()
	return u.missed
}

// catchUp forgets what was told: the server is asked next.
func (u *listener) catchUp() {
	u.s.hub.mu.Lock()
	defer u.s.hub.mu.Unlock()
	u.missed = false
}

// confirmations is how often the subscription was confirmed.
func (u *listener) confirmations() int {
	u.s.hub.mu.Lock()
	defer u.s.hub.mu.Unlock()
	return u.s.ups
}

// refused reports whether the server's ACL forbids the subscription.
func (u *listener) refused() bool {
	u.s.hub.mu.Lock()
	defer u.s.hub.mu.Unlock()
	return u.s.refused
}

// maxUnheard is how often in a row a subscription is opened anew because the server does not have it, and
// how many seconds it may take to be confirmed, before those who wait poll instead.
const maxUnheard = 3

// polls reports whether to poll, because the server cannot be heard. After maxRest it is tried again,
// by all who wait on this subscription.
func (u *listener) polls() bool {
	s := u.s
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if s.polling.IsZero() {
		if s.unheard < maxUnheard && (s.confirmed || !s.refused && time.Since(s.lost) < maxUnheard*time.Second) {
			return false
		}
		s.polling = time.Now()
	}
	if time.Since(s.polling) < maxRest {
		return true
	}
	s.unheard, s.polling = 0, time.Time{}
	if !s.confirmed {
		s.renew()
	}
	return false
}

// unheard tells that the server, when it was asked after so many confirmations, did not have the subscription.
// It is opened anew, once for all who find that out, and not if it has been confirmed or interrupted
// since: opened anew, it wakes all who wait on it.
func (u *listener) unheard(confirmations int) {
	s := u.s
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if !s.confirmed || s.ups != confirmations {
		return
	}
	s.unheard++
	s.renew()
}

// isHeard tells that the server has the subscription.
func (u *listener) isHeard() {
	u.s.hub.mu.Lock()
	defer u.s.hub.mu.Unlock()
	u.s.unheard = 0
}

func (s *subscription) renew() {
	s.cancel()
	s.open()
	s.renewed = true
}

// notified is told what came on a channel.
func (c *Client) notified(payload string) {
	m, err := wire.ParseMessage(payload)
	if err != nil {
		return // of a version that is not ours
	}
	c.mu.Lock()
	a := c.tokens.Get(m.Token)
	c.mu.Unlock()
	switch {
	case a != nil && (m.Grant == nil || m.Grant.Kind == a.l.set.kind.name):
		a.notify(m)
	case m.Grant != nil && c.made.waited(m.Token, m.Grant.Lock): // and has given up
		select {
		case c.hub.strays <- struct{}{}:
		default:
			return
		}
		k := c.space.Of(m.Grant.Lock)
		l := &Lock{c: c, name: m.Grant.Lock, keys: k, composition: &single, set: &settings{
			ttl:    min(duration(m.Grant.Claim), c.cfg.MaxTTL),
			hasKey: k.Queue != k.Lock+":q" || m.Grant.Kind == redisson.name,
			kind:   kindNamed(m.Grant.Kind),
		}}
		l.set.redisson = l.set.kind == &redisson
		if l.set.kind != &mutex {
			l.keys = k.For(m.Grant.Kind)
		}
		c.tasks.run(func() {
			c.takeBack(l, m.Token, "", 0, unaware, c.patienceFor(l))
			<-c.hub.strays
		})
	}
}
