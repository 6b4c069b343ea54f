package pubsub

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// audit is the state of the checks that the servers that run scripts have the pool's subscriptions. An address can come
// to lead to another server, while the connection to the old one, now a replica, stays open and silent. Pool.mu guards
// the fields.
type audit struct {
	missing int       // how often in a row a server did not have a subscription
	next    time.Time // no check before then
	denied  int       // how often in a row a server refused to answer
}

// maxDenied is how many times in a row servers may refuse to answer before the checks end. maxAuditPause is the longest
// pause between two reconnections to servers that never have a subscription, as behind a proxy that keeps them to
// itself.
const (
	maxDenied     = 3
	maxAuditPause = time.Minute
)

var errMissing = errors.New("the server that runs the scripts does not have the subscription")

// check closes the connection if the server that runs scripts does not have a subscription that was confirmed on it.
func (l *link) check() {
	c, ok := l.sample()
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, Keepalive)
	defer cancel()
	n, err := l.p.receivers(ctx, c)
	for resp.Is(err, "READONLY") && l.p.sleep(maxPause/10) { // each of a driver's connections to a former master has to find that out
		n, err = l.p.receivers(ctx, c)
	}
	l.p.mu.Lock()
	a := &l.p.audit
	s := l.subs[c]
	missing := false
	switch {
	case ctx.Err() != nil || l.ended:
	case forbidden(err):
		a.denied++
	case err != nil:
		a.denied = 0
	case n > 0:
		*a = audit{}
	case s != nil && s.up && l.pending[c] == 0:
		*a = audit{missing: a.missing + 1}
		a.next = time.Now().Add(min(Keepalive<<min(a.missing-1, 10), maxAuditPause))
		missing = true
	}
	l.p.mu.Unlock()
	if missing {
		l.failed(errMissing)
	}
}

// sample returns a channel whose subscription the server has confirmed, or false if it is not time for a check.
func (l *link) sample() (Channel, bool) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if l.ended || l.p.audit.denied >= maxDenied || time.Now().Before(l.p.audit.next) {
		return Channel{}, false
	}
	for c, s := range l.subs {
		if s.up && l.pending[c] == 0 {
			return c, true
		}
	}
	return Channel{}, false
}

// numsub fails on a replica, because it is not flagged no-writes. With allow-oom it runs even if memory is short.
var numsub = driver.NewScript("numsub", `#!lua flags=allow-oom
return tostring(redis.call('PUBSUB', ARGV[1], ARGV[2])[2])`)

// receivers asks the server that runs scripts how many connections are subscribed to a channel.
func (p *Pool) receivers(ctx context.Context, c Channel) (int, error) {
	command, keys := "NUMSUB", []string(nil)
	if c.Sharded {
		command, keys = "SHARDNUMSUB", []string{c.Name}
	}
	reply, err := p.run(ctx, driver.Call{Script: numsub, Keys: keys, Args: []string{command, c.Name}, Urgent: true})
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(reply)
}

// forbidden reports whether a server refuses the command to this user or does not know it, so that asking again is
// pointless.
func forbidden(err error) bool { return resp.Is(err) && !resp.Is(err, transient...) }

// transient has the codes of errors that a server sends if it cannot answer now, or does not have the locks.
var transient = []string{"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "BUSY", "NOREPLICAS", "MISCONF"}
