// Package pubsub keeps the subscriptions of a driver, on one connection to each server.
//
// An adapter has its client library open the connections. The rest is the same for all adapters and is done here: which channels are
// subscribed to on which server, which commands are unanswered, and what follows an interruption.
package pubsub

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Channel is a channel to subscribe to. A sharded channel differs from a plain one of the same name.
type Channel struct {
	Name    string
	Sharded bool
}

// Client is what an adapter does for a Pool.
type Client interface {
	// Locate returns the name of the server that has the channel, or false if it is not known. It must not block, since
	// it is called with the pool's lock held.
	Locate(c Channel) (server string, ok bool)
	// Refresh asks again which server has which channels. Either Locate does not know c, or what it returns may be out of date.
	Refresh(ctx context.Context, c Channel) error
	// Connect opens a connection to a server on which the client library has greeted it, as driver.Connector does.
	Connect(ctx context.Context, server string) (driver.Connection, error)
	// CheckMaster returns an error if the server is a replica, which accepts subscriptions on which nothing arrives. It sends nothing if
	// Locate does not tell one server from another.
	CheckMaster(ctx context.Context, server string) error
}

// Keepalive is how long a connection may be silent before it is checked. It is also the time between two checks that
// the server that runs scripts has the subscriptions.
const Keepalive = 5 * time.Second

// The pause before a channel is subscribed to again. It starts at minPause and doubles up to maxPause until the server
// confirms.
const (
	minPause = 10 * time.Millisecond
	maxPause = time.Second
)

// Pool keeps the subscriptions of one driver.
type Pool struct {
	client     Client
	run        Run
	ctx        context.Context // ends with Stop
	stop       context.CancelFunc
	background sync.WaitGroup

	mu    sync.Mutex
	subs  map[Channel]*subscription
	links map[string]*link // by server
	audit audit
}

// Run runs a script, as driver.Driver does.
type Run func(ctx context.Context, c driver.Call) (string, error)

// New returns a pool without subscriptions. run must send scripts to the servers that run the scripts of locks.
func New(client Client, run Run) *Pool {
	p := &Pool{client: client, run: run, subs: map[Channel]*subscription{}, links: map[string]*link{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Stop ends all subscriptions without calling their functions. It does not wait.
func (p *Pool) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	for _, s := range p.subs {
		s.ended = true
	}
	for _, l := range p.links {
		l.end()
	}
}

// Wait waits for the pool's goroutines. It must be called after Stop.
func (p *Pool) Wait() { p.background.Wait() }

// spawn calls f in a goroutine, unless the pool is stopped. The caller holds mu.
func (p *Pool) spawn(f func()) {
	if p.ctx.Err() == nil {
		p.background.Go(f)
	}
}

// Subscribe opens a subscription and keeps it open across interruptions until cancel is called. It returns at once.
func (p *Pool) Subscribe(sub driver.Subscription) (cancel func()) {
	s := &subscription{p: p, Channel: Channel{sub.Channel, sub.Sharded}, to: sub}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() == nil {
		p.subs[s.Channel] = s
		p.spawn(func() { p.attachAll([]*subscription{s}, nil, 0) })
	}
	return s.close
}

// attachAll subscribes on the servers that have the channels, which it finds out first, after a pause. cause is what interrupted the
// subscriptions, or nil if they are new.
func (p *Pool) attachAll(all []*subscription, cause error, pause time.Duration) {
	for refreshed := cause != nil; ; {
		if pause > 0 && !p.sleep(pause) {
			return
		}
		if cause != nil {
			cause = p.client.Refresh(p.ctx, all[0].Channel)
		}
		var unlocated []*subscription
		p.mu.Lock()
		for _, s := range all {
			if s.ended || s.link != nil {
				continue
			}
			if server, ok := p.client.Locate(s.Channel); ok {
				p.attach(s, server)
				continue
			}
			unlocated = append(unlocated, s)
			if cause != nil {
				s.add(event{down: cause})
			}
		}
		p.mu.Unlock()
		deliver(unlocated...)
		if len(unlocated) == 0 {
			return
		}
		all = unlocated
		if !refreshed {
			refreshed, cause = true, errUnknown
			continue
		}
		cause = cmp.Or(cause, errUnknown)
		pause = min(max(2*pause, minPause), maxPause)
	}
}

// errUnknown is the cause if nothing failed, but Locate does not know the channel.
var errUnknown = errors.New("the channel's server is not known")

// sleep returns false if the pool is stopped before d has passed.
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

// attach subscribes on a server. The caller holds mu.
func (p *Pool) attach(s *subscription, server string) {
	l := p.links[server]
	if l == nil {
		l = newLink(p, server)
		p.links[server] = l
		p.spawn(l.run)
	}
	l.subs[s.Channel] = s
	s.link = l
	l.send(command{Channel: s.Channel})
}

// reattach opens subscriptions again that were interrupted, in the background. The caller holds mu, and then delivers.
func (p *Pool) reattach(all []*subscription, cause error) {
	if len(all) == 0 {
		return
	}
	pause := maxPause
	for _, s := range all {
		s.link = nil
		s.pause = min(max(2*s.pause, minPause), maxPause)
		pause = min(pause, s.pause)
		s.add(event{down: cause})
	}
	p.spawn(func() { p.attachAll(all, cause, pause) })
}
