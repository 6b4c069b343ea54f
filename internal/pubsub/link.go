package pubsub

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Link is the connection to one server, from when it is wanted to when it fails, or has no place any more.
type Link struct {
	p      *Pool
	server string
	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{} // holds an item when there is something to send

	// Guarded by the pool's lock.
	conn   Conn // nil until it is there
	places map[Place]*place
	queue  []Command
	// unanswered are the commands for each place that the server has not answered, in their order;
	// true ends a subscription. A server answers in the order in which it is asked, so that the answer
	// to a subscription that was ended meanwhile is not taken for that to the next.
	unanswered map[Place][]bool
	doubted    bool // the server ended a subscription: it may be a replica by now
	over       bool
}

func newLink(p *Pool, server string) *Link {
	l := &Link{p: p, server: server, wake: make(chan struct{}, 1), places: map[Place]*place{}, unanswered: map[Place][]bool{}}
	l.ctx, l.cancel = context.WithCancel(p.ctx)
	return l
}

// send has a command sent. Called under the lock.
func (l *Link) send(c Command) {
	l.queue = append(l.queue, c)
	l.unanswered[c.Place] = append(l.unanswered[c.Place], c.Off)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// end closes the connection. Called under the lock.
func (l *Link) end() {
	if l.over {
		return
	}
	l.over = true
	l.cancel()
	if l.p.links[l.server] == l {
		delete(l.p.links, l.server)
	}
	if l.conn != nil {
		// Not by behind: it is to be closed also when the pool stops, which waits for that.
		l.p.background.Go(l.conn.Close)
	}
}

// run connects, and sends what is to be sent, until the link ends.
func (l *Link) run() {
	conn, err := l.p.client.Connect(l.ctx, l.server, l)
	if err != nil {
		l.Failed(err)
		return
	}
	l.p.mu.Lock()
	over := l.over
	l.conn = conn
	l.p.mu.Unlock()
	if over {
		conn.Close()
		return
	}
	tick := time.NewTicker(Keepalive)
	defer tick.Stop()
	for {
		select {
		case <-l.wake:
			l.p.mu.Lock()
			commands, doubted := l.queue, l.doubted
			l.queue, l.doubted = nil, false
			l.p.mu.Unlock()
			var err error
			if doubted {
				err = conn.Leads(l.ctx)
			}
			if err == nil && len(commands) > 0 {
				err = conn.Send(l.ctx, commands)
			}
			if err != nil {
				l.Failed(err)
				return
			}
		case <-tick.C:
			l.p.mu.Lock()
			l.p.behind(l.check)
			l.p.mu.Unlock()
		case <-l.ctx.Done():
			return
		}
	}
}

// answered takes the answer to a command from those that are awaited. It is false if none such is the next.
// Called under the lock.
func (l *Link) answered(p Place, off bool) bool {
	next := l.unanswered[p]
	if len(next) == 0 || next[0] != off {
		return false
	}
	if next = next[1:]; len(next) == 0 {
		delete(l.unanswered, p)
	} else {
		l.unanswered[p] = next
	}
	return true
}

// Confirmed is told that the server has subscribed us to a place.
func (l *Link) Confirmed(p Place) {
	l.p.mu.Lock()
	if l.over || !l.answered(p, false) || len(l.unanswered[p]) > 0 {
		l.p.mu.Unlock()
		return
	}
	var events []*subscription
	if pl := l.places[p]; pl != nil {
		pl.pause = 0
		events = pl.tell(nil, event{})
	} else {
		l.send(Command{Place: p, Off: true})
	}
	l.p.mu.Unlock()
	drain(events)
}

// Ended is told that a subscription has ended: we asked for it, or the slot moved, or the server became a
// replica.
func (l *Link) Ended(p Place) {
	l.lose(p, func() bool {
		if l.answered(p, true) {
			return false
		}
		l.doubted = true
		return true
	}, errEnded)
}

var errEnded = errors.New("the server ended the subscription")

// Refused is told that the server has refused a command.
func (l *Link) Refused(c Command, why error) {
	l.lose(c.Place, func() bool { return l.answered(c.Place, c.Off) && !c.Off }, why)
}

// lose subscribes again, somewhere, to a place that was lost, if lost says so.
func (l *Link) lose(p Place, lost func() bool, why error) {
	l.p.mu.Lock()
	var events []*subscription
	if pl := l.places[p]; !l.over && lost() && pl != nil {
		delete(l.places, p)
		if len(l.places) == 0 {
			l.end()
		}
		events = l.p.detached([]*place{pl}, why)
	}
	l.p.mu.Unlock()
	drain(events)
}

// Message is told what was published. The connection does not say whether the channel is a sharded one.
func (l *Link) Message(channel, payload string) {
	l.p.mu.Lock()
	var events []*subscription
	for _, sharded := range []bool{false, true} {
		if pl := l.places[Place{channel, sharded}]; pl != nil && !l.over {
			events = pl.tell(events, event{message: &payload})
		}
	}
	l.p.mu.Unlock()
	drain(events)
}

// Failed is told that the connection is of no use any more.
func (l *Link) Failed(why error) {
	l.p.mu.Lock()
	if l.over {
		l.p.mu.Unlock()
		return
	}
	l.end()
	var all []*place
	for _, pl := range l.places {
		all = append(all, pl)
	}
	clear(l.places)
	events := l.p.detached(all, why)
	l.p.mu.Unlock()
	drain(events)
}

// vigil is how the pool makes sure that the servers that scripts reach have its subscriptions. An address can lead
// to another server than before, and a connection to a replica stays, and is silent. Guarded by Pool.mu.
type vigil struct {
	deaf    int       // times in a row that a server did not have a subscription
	next    time.Time // not before then
	blocked int       // times in a row that the server refused to tell
}

// maxBlocked is how often servers are asked that refuse to tell, and maxDeafness the longest time between
// two new connections to servers that never have a subscription, as behind a proxy without them.
const (
	maxBlocked  = 3
	maxDeafness = time.Minute
)

var errDeaf = errors.New("the server that the address leads to does not have the subscription")

// check gives the connection up if the server that scripts reach does not know of it.
func (l *Link) check() {
	place, ok := l.sample()
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, Keepalive)
	defer cancel()
	n, err := l.p.receivers(ctx, place)
	for demoted(err) && l.p.sleep(maxPause/10) { // a driver has several connections, each of which finds out by itself
		n, err = l.p.receivers(ctx, place)
	}
	l.p.mu.Lock()
	v := &l.p.vigil
	pl := l.places[place]
	deaf := false
	switch {
	case ctx.Err() != nil || l.over:
	case forbidden(err):
		v.blocked++
	case err != nil:
		v.blocked = 0
	case n > 0:
		*v = vigil{}
	case pl != nil && pl.heard() && len(l.unanswered[place]) == 0:
		*v = vigil{deaf: v.deaf + 1}
		v.next = time.Now().Add(min(Keepalive<<min(v.deaf-1, 10), maxDeafness))
		deaf = true
	}
	l.p.mu.Unlock()
	if deaf {
		l.Failed(errDeaf)
	}
}

// numsub is not run by a replica, since it does not say that it writes nothing. It runs where there is no memory
// for more.
var numsub = driver.NewScript("numsub", `#!lua flags=allow-oom
return tostring(redis.call('PUBSUB', ARGV[1], ARGV[2])[2])`)

// receivers asks the server that scripts reach how many connections are subscribed to a place.
func (p *Pool) receivers(ctx context.Context, at Place) (int, error) {
	command, keys := "NUMSUB", []string(nil)
	if at.Sharded {
		command, keys = "SHARDNUMSUB", []string{at.Channel}
	}
	reply, err := p.run(ctx, driver.Call{Script: numsub, Keys: keys, Args: []string{command, at.Channel}, Urgent: true})
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(reply)
}

// sample chooses a place of which the server says that it has it.
func (l *Link) sample() (Place, bool) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if l.over || l.p.vigil.blocked >= maxBlocked || time.Now().Before(l.p.vigil.next) {
		return Place{}, false
	}
	for p, pl := range l.places {
		if pl.heard() && len(l.unanswered[p]) == 0 {
			return p, true
		}
	}
	return Place{}, false
}

// heard reports whether the server has confirmed the place. Called under the lock.
func (pl *place) heard() bool {
	for s := range pl.subs {
		if s.up {
			return true
		}
	}
	return false
}

// forbidden reports whether a server refuses a command to this user, or does not know it: asking again is in vain.
func forbidden(err error) bool {
	var sent driver.ReplyError
	return errors.As(err, &sent) && !slices.ContainsFunc(passing, func(word string) bool { return strings.HasPrefix(string(sent), word) })
}

// demoted reports whether a server that answered is no master any more.
func demoted(err error) bool {
	var sent driver.ReplyError
	return errors.As(err, &sent) && strings.HasPrefix(string(sent), "READONLY")
}

// passing are the errors of servers that do not answer now, or are not those that have the locks.
var passing = []string{"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "BUSY", "NOREPLICAS", "MISCONF"}
