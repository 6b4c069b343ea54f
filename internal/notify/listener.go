package notify

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/schedule"
)

// Listener is somebody who needs a subscription.
type Listener struct {
	s      *subscription
	look   func()
	missed bool // messages may have been missed, or one was a reason to look
}

// Channel is the name of the listener's channel.
func (l *Listener) Channel() string { return l.s.Name }

// Leave ends the need. The subscription rests for a while before it is closed.
func (l *Listener) Leave() {
	s, n := l.s, l.s.n
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(s.listeners, l)
	if len(s.listeners) > 0 {
		return
	}
	rest := restOwn
	if s.Sharded || s.heard == nil {
		rest = restOne
	}
	n.cfg.Scheduler.Set(&s.rest, clock.Mono().Add(rest), schedule.Func(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(s.listeners) == 0 && n.subs[s.Channel] == s {
			s.cancel()
			delete(n.subs, s.Channel)
		}
	}))
}

// AwaitUp waits until the subscription is confirmed, for at most that time, and reports whether it is. Whatever the
// server is asked after that misses no message.
func (l *Listener) AwaitUp(timeout time.Duration) bool {
	n := l.s.n
	var timer *time.Timer
	for {
		n.mu.Lock()
		confirmed, refused, change := l.s.confirmed, l.s.refused, l.s.change
		if confirmed {
			l.missed = false
		}
		n.mu.Unlock()
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
		case <-n.cfg.Closing:
			return false
		}
	}
}

// Since reports whether no message can have been missed since that confirmation.
func (l *Listener) Since(c Confirmation) bool {
	l.s.n.mu.Lock()
	defer l.s.n.mu.Unlock()
	return l.s.confirmed && c == Confirmation{l.s, l.s.ups} && !l.missed
}

// IsUp reports whether the server says that it has the subscription.
func (l *Listener) IsUp() bool {
	l.s.n.mu.Lock()
	defer l.s.n.mu.Unlock()
	return l.s.confirmed
}

// HasMissed reports whether messages may have been missed since AwaitUp or CatchUp.
func (l *Listener) HasMissed() bool {
	l.s.n.mu.Lock()
	defer l.s.n.mu.Unlock()
	return l.missed
}

// CatchUp forgets what was missed: the server is asked next.
func (l *Listener) CatchUp() {
	l.s.n.mu.Lock()
	defer l.s.n.mu.Unlock()
	l.missed = false
}

// Confirmations is how often the subscription was confirmed.
func (l *Listener) Confirmations() int {
	l.s.n.mu.Lock()
	defer l.s.n.mu.Unlock()
	return l.s.ups
}

// IsRefused reports whether the server's ACL forbids the subscription.
func (l *Listener) IsRefused() bool {
	l.s.n.mu.Lock()
	defer l.s.n.mu.Unlock()
	return l.s.refused
}

// maxUnheard is how often in a row a subscription is opened anew because the server does not have it, and how many
// seconds it may take to be confirmed, before its listeners poll instead.
const maxUnheard = 3

// Polls reports whether to poll, because the server cannot be heard. After Config.Retry the subscription is tried
// again, once for all its listeners.
func (l *Listener) Polls() bool {
	s := l.s
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	if s.polling.IsZero() {
		if s.unheard < maxUnheard && (s.confirmed || !s.refused && time.Since(s.lost) < maxUnheard*time.Second) {
			return false
		}
		s.polling = time.Now()
	}
	if time.Since(s.polling) < s.n.cfg.Retry {
		return true
	}
	s.unheard, s.polling = 0, time.Time{}
	if !s.confirmed {
		s.reopen()
	}
	return false
}

// NotHeard tells that the server, when it was asked after so many confirmations, did not have the subscription. It is
// opened anew, once for all listeners that find that out, and not if it has been confirmed or interrupted since: opened
// anew, it wakes all of them.
func (l *Listener) NotHeard(confirmations int) {
	s := l.s
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	if !s.confirmed || s.ups != confirmations {
		return
	}
	s.unheard++
	s.reopen()
}

// Heard tells that the server has the subscription.
func (l *Listener) Heard() {
	l.s.n.mu.Lock()
	defer l.s.n.mu.Unlock()
	l.s.unheard = 0
}
