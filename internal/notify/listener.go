package notify

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/schedule"
)

// Listener is one user of a subscription, which stays open until all of its listeners have left.
type Listener struct {
	s      *subscription
	look   func()
	missed bool // look was called: there was a message to watch for, or messages may have been missed
}

// Channel returns the name of the listener's channel.
func (l *Listener) Channel() string { return l.s.Name }

// Leave removes the listener. After the last one has left, the subscription stays open for a while.
func (l *Listener) Leave() {
	s, n := l.s, l.s.n
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(s.listeners, l)
	if len(s.listeners) > 0 {
		return
	}
	idle := idleClient
	if s.Sharded || s.handle == nil {
		idle = idleLock
	}
	n.cfg.Scheduler.Set(&s.idle, clock.Mono()+idle, schedule.Func(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(s.listeners) == 0 && n.subs[s.Channel] == s {
			s.cancel()
			delete(n.subs, s.Channel)
		}
	}))
}

// AwaitUp waits up to timeout until the subscription is confirmed, and reports whether it is. A listener that asks the
// server after that misses no message.
func (l *Listener) AwaitUp(timeout time.Duration) bool {
	n := l.s.n
	var timer *time.Timer
	for {
		n.mu.Lock()
		confirmed, refused, changed := l.s.confirmed, l.s.refused, l.s.changed
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
		case <-changed:
		case <-timer.C:
			return false
		case <-n.cfg.Closing:
			return false
		}
	}
}

// Since reports whether the listener cannot have missed a message since the confirmation.
func (l *Listener) Since(c Confirmation) bool {
	l.s.n.mu.Lock()
	defer l.s.n.mu.Unlock()
	return l.s.confirmed && c == Confirmation{l.s, l.s.confirmations} && !l.missed
}

// IsUp reports whether the subscription is confirmed.
func (l *Listener) IsUp() bool {
	l.s.n.mu.Lock()
	defer l.s.n.mu.Unlock()
	return l.s.confirmed
}

// HasMissed reports whether the listener may have missed messages since AwaitUp or CatchUp, or has been told to look.
func (l *Listener) HasMissed() bool {
	l.s.n.mu.Lock()
	defer l.s.n.mu.Unlock()
	return l.missed
}

// CatchUp resets HasMissed, because the listener is about to ask the server.
func (l *Listener) CatchUp() {
	l.s.n.mu.Lock()
	defer l.s.n.mu.Unlock()
	l.missed = false
}

// Confirmations returns how often the subscription has been confirmed.
func (l *Listener) Confirmations() int {
	l.s.n.mu.Lock()
	defer l.s.n.mu.Unlock()
	return l.s.confirmations
}

// IsRefused reports whether the server's ACL forbids the subscription.
func (l *Listener) IsRefused() bool {
	l.s.n.mu.Lock()
	defer l.s.n.mu.Unlock()
	return l.s.refused
}

// Listeners poll once a subscription has been reopened maxUnheard times in a row because the server did not have it, or
// has not been confirmed for maxUnconfirmed.
const (
	maxUnheard     = 3
	maxUnconfirmed = 3 * time.Second
)

// Polls reports whether the listener should poll because the subscription does not work. After Config.Retry the
// subscription is tried again, once for all its listeners.
func (l *Listener) Polls() bool {
	s := l.s
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	if s.pollingSince.IsZero() {
		if s.unheard < maxUnheard && (s.confirmed || !s.refused && time.Since(s.lostAt) < maxUnconfirmed) {
			return false
		}
		s.pollingSince = time.Now()
	}
	if time.Since(s.pollingSince) < s.n.cfg.Retry {
		return true
	}
	s.unheard, s.pollingSince = 0, time.Time{}
	if !s.confirmed {
		s.reopen()
	}
	return false
}

// NotHeard says that the server did not have the subscription when the listener asked it after so many confirmations.
// The subscription is reopened, unless it has been confirmed or interrupted since: once is enough for all listeners that
// notice, since it makes all of them look. Those that have begun to poll do not reopen it.
func (l *Listener) NotHeard(confirmations int) {
	s := l.s
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	// mutants: reopened-thrice
	if !s.confirmed || s.confirmations != confirmations || s.unheard == maxUnheard {
		return
	}
	s.unheard++
	s.reopen()
}

// Heard says that the server has the subscription.
func (l *Listener) Heard() {
	l.s.n.mu.Lock()
	defer l.s.n.mu.Unlock()
	l.s.unheard = 0
}
