package notify

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/schedule"
)

// server is one that a test makes confirm, interrupt and send.
type server struct {
	*Notifier
	open    []*driver.Subscription // that are not cancelled, in the order in which they were opened
	opened  int
	closing chan struct{}
	begun   int
	ended   int
}

var errDenied = errors.New("denied")

func serve(t *testing.T) *server {
	t.Cleanup(clock.SetBoot(func() time.Duration { return 0 }))
	s := &server{closing: make(chan struct{})}
	var timers schedule.Scheduler
	t.Cleanup(timers.Close)
	s.Notifier = New(Config{
		Subscribe: func(sub driver.Subscription) func() {
			s.opened++
			s.open = append(s.open, &sub)
			return func() {
				for i, one := range s.open {
					if one == &sub {
						s.open = append(s.open[:i], s.open[i+1:]...)
						return
					}
				}
			}
		},
		Scheduler: &timers, Closing: s.closing, Denied: func(err error) bool { return err == errDenied },
		Begin: func() { s.begun++ }, End: func() { s.ended++ }, Retry: 30 * time.Second,
	})
	return s
}

// count is how many subscriptions are open.
func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// bubble runs f in virtual time.
func bubble(t *testing.T, f func(t *testing.T, s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, serve(t)) })
}

func ignore() {}

// expect fails unless got is want.
func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v; want %v", what, got, want)
	}
}

var channel = Channel{Name: "c"}

func TestOneSubscriptionServesAllListenersOfAChannel(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		looks := 0
		a := s.Watch(channel, "", func() { looks++ })
		b := s.Watch(channel, "", func() { looks++ })
		s.Watch(Channel{Name: "c", Sharded: true}, "", ignore)
		expect(t, "subscriptions", s.opened, 2)
		expect(t, "confirmed before the server says so", a.IsUp(), false)
		s.open[0].Up()
		expect(t, "confirmed", a.IsUp() && b.IsUp(), true)
		s.open[0].Message("m")
		expect(t, "looks, at the confirmation and at the message", looks, 4)
	})
}

func TestOnlyTheOneMessageIsAReasonToLook(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		looks := 0
		s.Watch(channel, "0", func() { looks++ })
		s.open[0].Message("1")
		s.open[0].Message("0")
		expect(t, "looks", looks, 1)
	})
}

func TestMessagesAreHandledUntilTheNotifierIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		var heard []string
		s.Hear(channel, func(m string) { heard = append(heard, m) }, ignore)
		sub := s.open[0]
		sub.Message("a")
		s.Close()
		sub.Message("b")
		expect(t, "messages", len(heard), 1)
		expect(t, "announced", s.begun, 1)
		expect(t, "ended", s.ended, 1)
		expect(t, "open", s.count(), 0)
	})
}

func TestASubscriptionThatNobodyNeedsIsClosedAfterARest(t *testing.T) {
	for _, c := range []struct {
		rest   time.Duration
		listen func(s *server) *Listener
	}{
		{restOwn, func(s *server) *Listener { return s.Hear(channel, func(string) {}, ignore) }},
		{restOne, func(s *server) *Listener { return s.Watch(channel, "", ignore) }},
		{restOne, func(s *server) *Listener {
			return s.Hear(Channel{Name: "c", Sharded: true}, func(string) {}, ignore)
		}},
	} {
		bubble(t, func(t *testing.T, s *server) {
			c.listen(s).Leave()
			time.Sleep(c.rest - time.Millisecond)
			again := c.listen(s)
			time.Sleep(time.Hour)
			expect(t, "open while it is needed", s.count(), 1)
			again.Leave()
			time.Sleep(c.rest - time.Millisecond)
			expect(t, "open during the rest", s.count(), 1)
			time.Sleep(2 * time.Millisecond)
			expect(t, "open after the rest", s.count(), 0)
			expect(t, "subscriptions at all", s.HasNone(), true)
			expect(t, "openings", s.opened, 1)
		})
	}
}

func TestAwaitUp(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := s.Watch(channel, "", ignore)
		began := time.Now()
		expect(t, "up without a confirmation", l.AwaitUp(time.Second), false)
		expect(t, "it waits for", time.Since(began), time.Second)
		time.AfterFunc(time.Millisecond, s.open[0].Up)
		expect(t, "up with one", l.AwaitUp(time.Second), true)
		expect(t, "missed what was before", l.HasMissed(), false)
		s.open[0].Down(errDenied)
		began = time.Now()
		expect(t, "up although the ACL forbids it", l.AwaitUp(time.Second), false)
		expect(t, "refused", l.IsRefused(), true)
		s.open[0].Down(errors.New("interrupted"))
		expect(t, "refused by an interruption", l.IsRefused(), false)
		time.AfterFunc(time.Millisecond, func() { close(s.closing) })
		expect(t, "up of a client that closes", l.AwaitUp(time.Second), false)
		expect(t, "the client waits for", time.Since(began), time.Millisecond)
	})
}

// What an interruption may have swallowed is missed, until the listener has caught up.
func TestMessagesMayBeMissedInAnInterruption(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := s.Hear(channel, func(string) {}, ignore)
		s.open[0].Up()
		l.CatchUp()
		first, ok := s.Confirmed(channel)
		expect(t, "confirmed", ok && l.Since(first), true)
		expect(t, "the channel's name", first.Channel(), "c")
		s.open[0].Down(errors.New("interrupted"))
		_, ok = s.Confirmed(channel)
		expect(t, "confirmed during the interruption", ok || l.Since(first), false)
		s.open[0].Up()
		expect(t, "nothing missed since the first confirmation", l.Since(first), false)
		expect(t, "missed", l.HasMissed(), true)
		expect(t, "confirmations", l.Confirmations(), 2)
	})
}

// A subscription that the server does not have is opened anew, once for all who find that out after the same
// confirmation, and after three times its listeners poll, until it is tried again.
func TestListenersPollWhenTheServerDoesNotHaveTheSubscription(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		a, b := s.Hear(channel, func(string) {}, ignore), s.Hear(channel, func(string) {}, ignore)
		s.open[0].Up()
		for n := 1; n <= maxUnheard; n++ {
			expect(t, "polls", a.Polls(), false)
			seen := a.Confirmations()
			a.NotHeard(seen)
			b.NotHeard(seen)
			expect(t, "openings", s.opened, 1+n)
			expect(t, "open", s.count(), 1)
			s.open[0].Up()
			b.NotHeard(seen)
			expect(t, "openings, when one finds out late", s.opened, 1+n)
		}
		expect(t, "polls after three times", a.Polls() && b.Polls(), true)
		time.Sleep(30*time.Second - time.Millisecond)
		expect(t, "polls still", a.Polls(), true)
		time.Sleep(2 * time.Millisecond)
		expect(t, "polls after Retry", a.Polls(), false)
		a.Heard()
		expect(t, "polls when it is heard", a.Polls(), false)
	})
}

// An interruption that the client did not make may have brought the subscription to where it is heard.
func TestAnInterruptionBeginsTheCountAnew(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := s.Hear(channel, func(string) {}, ignore)
		s.open[0].Up()
		for range maxUnheard {
			l.NotHeard(l.Confirmations())
			s.open[0].Up()
		}
		expect(t, "polls", l.Polls(), true)
		s.open[0].Down(errors.New("interrupted"))
		s.open[0].Up()
		expect(t, "polls after an interruption", l.Polls(), false)
	})
}

func TestListenersPollWhileNothingIsConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := s.Hear(channel, func(string) {}, ignore)
		time.Sleep(maxUnheard*time.Second - time.Millisecond)
		expect(t, "polls too soon", l.Polls(), false)
		time.Sleep(time.Millisecond)
		expect(t, "polls", l.Polls(), true)
		s.open[0].Up()
		expect(t, "polls when it is confirmed", l.Polls(), false)
		s.open[0].Down(errDenied)
		expect(t, "polls when it is refused", l.Polls(), true)
	})
}

// What an earlier opening still says is not believed.
func TestAnEarlierOpeningIsNotBelieved(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		looks := 0
		l := s.Watch(channel, "", func() { looks++ })
		old := s.open[0]
		old.Up()
		l.NotHeard(1)
		old.Up()
		old.Message("m")
		expect(t, "up by the earlier one", l.IsUp(), false)
		expect(t, "looks", looks, 1)
		s.open[0].Up()
		old.Down(errors.New("interrupted"))
		expect(t, "down by the earlier one", l.IsUp(), true)
	})
}
