// Package pubsub keeps the subscriptions of a driver, on one connection to each server.
//
// An adapter opens the connections. Which channels are subscribed to where, what is still to be
// answered, and what happens after an interruption is the same for all adapters, and is here.
package pubsub

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Place is what can be subscribed to. The same channel, sharded, is another place.
type Place struct {
	Channel string
	Sharded bool
}

// Command subscribes to a place, or ends that.
type Command struct {
	Place
	Off bool
}

// Client is what an adapter does for a Pool.
type Client interface {
	// Locate names the server that has a place, from memory. It is called under the pool's lock.
	Locate(p Place) (server string, known bool)
	// Learn asks anew which server has which places: Locate does not know p, or why says that
	// Locate may be wrong.
	Learn(ctx context.Context, p Place, why error) error
	// Connect opens a connection to a server. The link is told what comes on it, by one goroutine at a time.
	Connect(ctx context.Context, server string, l *Link) (Conn, error)
}

// Conn is a connection for subscriptions.
type Conn interface {
	// Send sends commands, in their order. What the server answers to each the link is told.
	// An error says that the connection is of no use any more.
	Send(ctx context.Context, commands []Command) error
	// Leads fails if the server is a replica: it would accept a subscription, on which nobody is heard.
	Leads(ctx context.Context) error
	// Close ends the connection. It may wait.
	Close()
}

// Keepalive is how long a connection may be silent before it is asked whether it is alive, and how often
// the server that scripts reach is asked whether it has the subscriptions.
const Keepalive = 5 * time.Second

// The pause before a place is subscribed to again begins with minPause, and doubles up to maxPause
// until the server confirms.
const (
	minPause = 10 * time.Millisecond
	maxPause = time.Second
)

// Pool is the subscriptions of one driver.
type Pool struct {
	client     Client
	run        Run
	ctx        context.Context // ends with Stop
	stop       context.CancelFunc
	background sync.WaitGroup

	mu     sync.Mutex
	places map[Place]*place
	links  map[string]*Link // by server
	vigil  vigil
}

// place is a place that somebody has subscribed to. Guarded by Pool.mu.
type place struct {
	Place
	subs  map[*subscription]struct{}
	link  *Link // nil while it is not known where the place is
	pause time.Duration
}

// Run runs a script, as a driver.Driver does.
type Run func(ctx context.Context, c driver.Call) (string, error)

// New returns a pool without subscriptions. run sends scripts where those of locks go.
func New(client Client, run Run) *Pool {
	p := &Pool{client: client, run: run, places: map[Place]*place{}, links: map[string]*Link{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Stop ends all subscriptions, without waiting. Their sinks are not told.
func (p *Pool) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	for _, pl := range p.places {
		for s := range pl.subs {
			s.over = true
		}
	}
	for _, l := range p.links {
		l.end()
	}
}

// Wait waits, after Stop, until nothing goes on any more.
func (p *Pool) Wait() { p.background.Wait() }

// behind calls f in the background, unless the pool is stopped. Called under the lock.
func (p *Pool) behind(f func()) {
	if p.ctx.Err() == nil {
		p.background.Go(f)
	}
}

// Subscribe opens a subscription, and keeps it open over interruptions. It returns at once.
func (p *Pool) Subscribe(sink driver.Subscription) (cancel func()) {
	where := Place{Channel: sink.Channel, Sharded: sink.Sharded}
	p.mu.Lock()
	defer p.mu.Unlock()
	pl := p.places[where]
	if pl == nil {
		pl = &place{Place: where, subs: map[*subscription]struct{}{}}
	}
	s := &subscription{p: p, place: pl, sink: sink}
	if p.ctx.Err() != nil {
		s.over = true
		return s.close
	}
	pl.subs[s] = struct{}{}
	switch {
	case p.places[where] == nil:
		p.places[where] = pl
		p.behind(func() { p.settle([]*place{pl}, nil, 0) })
	case pl.link != nil:
		pl.link.send(Command{Place: where}) // the answer says that the server has it now
	}
	return s.close
}

// settle finds out which server has each of these places, and subscribes there. why says what
// interrupted them.
func (p *Pool) settle(places []*place, why error, pause time.Duration) {
	for asked := why != nil; ; {
		if pause > 0 && !p.sleep(pause) {
			return
		}
		if why != nil {
			why = p.client.Learn(p.ctx, places[0].Place, why)
		}
		var rest []*place
		var events []*subscription
		p.mu.Lock()
		for _, pl := range places {
			if p.places[pl.Place] != pl || pl.link != nil {
				continue // nobody wants it any more
			}
			if server, known := p.client.Locate(pl.Place); known {
				p.attach(pl, server)
				continue
			}
			rest = append(rest, pl)
			if why != nil {
				events = pl.tell(events, event{down: why})
			}
		}
		p.mu.Unlock()
		drain(events)
		if len(rest) == 0 {
			return
		}
		places = rest
		if !asked {
			asked, why = true, errUnknown
			continue
		}
		why = cmp.Or(why, errUnknown)
		pause = min(max(2*pause, minPause), maxPause)
	}
}

// errUnknown is why a client is to learn where places are, when nothing went wrong.
var errUnknown = errors.New("it is not known which server has the channel")

// sleep is false if the pool was stopped.
func (p *Pool) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// attach subscribes to a place at a server. Called under the lock.
func (p *Pool) attach(pl *place, server string) {
	l := p.links[server]
	if l == nil {
		l = newLink(p, server)
		p.links[server] = l
		p.behind(l.run)
	}
	l.places[pl.Place] = pl
	pl.link = l
	l.send(Command{Place: pl.Place})
}

// detached subscribes again to places that were interrupted. Called under the lock.
func (p *Pool) detached(places []*place, why error) (events []*subscription) {
	pause := maxPause
	var lost []*place
	for _, pl := range places {
		pl.link = nil
		pl.pause = min(max(2*pl.pause, minPause), maxPause)
		pause = min(pause, pl.pause)
		lost = append(lost, pl)
		events = pl.tell(events, event{down: why})
	}
	if len(lost) > 0 {
		p.behind(func() { p.settle(lost, why, pause) })
	}
	return events
}

// Interrupt gives up all connections, and makes new ones: they may lead to a server that is the master no more.
func (p *Pool) Interrupt(why error) {
	p.mu.Lock()
	links := slices.Collect(maps.Values(p.links))
	p.mu.Unlock()
	for _, l := range links {
		l.Failed(why)
	}
}

// subscription is one that somebody has made to a place.
type subscription struct {
	p     *Pool
	place *place
	sink  driver.Subscription

	// Guarded by the pool's lock.
	up      bool
	over    bool
	events  []event // that the sink has not been told of
	telling bool    // a goroutine tells it
}

// event is one thing that a sink is told: an interruption, if down is not nil; a message, if that is
// not nil; else that the subscription is confirmed.
type event struct {
	down    error
	message *string
}

// close ends the subscription, without waiting.
func (s *subscription) close() {
	p, pl := s.p, s.place
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.over {
		return
	}
	s.over = true
	delete(pl.subs, s)
	if len(pl.subs) > 0 {
		return
	}
	delete(p.places, pl.Place)
	l := pl.link
	if l == nil {
		return
	}
	pl.link = nil
	delete(l.places, pl.Place)
	if len(l.places) == 0 {
		l.end()
	} else {
		l.send(Command{Place: pl.Place, Off: true})
	}
}

// tell notes an event for those who have subscribed, and adds those to who is to be told. Called under the lock.
func (pl *place) tell(who []*subscription, e event) []*subscription {
	for s := range pl.subs {
		switch {
		case e.down != nil:
			s.up = false
		case e.message == nil && s.up:
			continue // it knows
		case e.message == nil:
			s.up = true
		case !s.up:
			continue // of a time before it subscribed
		}
		s.events = append(s.events, e)
		who = append(who, s)
	}
	return who
}

// drain tells sinks what was noted for them: without the lock, since sinks have locks of their own under which
// Subscribe and Close are called; and in order, by one goroutine at a time for each.
func drain(who []*subscription) {
	for _, s := range who {
		s.drain()
	}
}

func (s *subscription) drain() {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.telling {
		return
	}
	s.telling = true
	defer func() { s.telling = false }()
	for len(s.events) > 0 && !s.over {
		events := s.events
		s.events = nil
		s.p.mu.Unlock()
		for _, e := range events {
			switch {
			case e.down != nil:
				s.sink.Down(e.down)
			case e.message != nil:
				s.sink.Message(*e.message)
			default:
				s.sink.Up()
			}
		}
		s.p.mu.Lock()
	}
}
