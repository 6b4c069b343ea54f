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

// server is a Notifier with its server, which the test makes confirm and interrupt subscriptions and send messages.
type server struct {
	*Notifier
	open    []*driver.Subscription // not cancelled, in the order in which they were opened
	opened  int
	closing chan struct{}
	begun   int
	ended   int
}

var errDenied = errors.New("denied")

func newServer(t *testing.T) *server {
	t.Cleanup(clock.SetBoot(func() time.Duration { return 0 }))
	s := &server{closing: make(chan struct{})}
	var timers schedule.Scheduler
	t.Cleanup(timers.Close)
	s.Notifier = New(Config{
		Subscribe: func(sub driver.Subscription) func() {
			s.opened++
			s.open = append(s.open, &sub)
			return func() {
				for i, open := range s.open {
					if open == &sub {
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

// count returns the number of open subscriptions.
func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

func bubble(t *testing.T, f func(t *testing.T, s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newServer(t)) })
}

func ignore() {}

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
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
		expect(t, "confirmed before the server confirms", a.IsUp(), false)
		s.open[0].Up()
		expect(t, "confirmed", a.IsUp() && b.IsUp(), true)
		s.open[0].Message("m")
		expect(t, "looks for the confirmation and the message", looks, 4)
	})
}

func TestWatchIgnoresOtherMessages(t *testing.T) {
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
		expect(t, "calls of Begin", s.begun, 1)
		expect(t, "calls of End", s.ended, 1)
		expect(t, "open subscriptions", s.count(), 0)
	})
}

func TestAwaitUp(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := s.Watch(channel, "", ignore)
		began := time.Now()
		expect(t, "up without a confirmation", l.AwaitUp(time.Second), false)
		expect(t, "time until the timeout", time.Since(began), time.Second)
		time.AfterFunc(time.Millisecond, s.open[0].Up)
		expect(t, "up with a confirmation", l.AwaitUp(time.Second), true)
		expect(t, "missed anything before it", l.HasMissed(), false)
		s.open[0].Down(errDenied)
		began = time.Now()
		expect(t, "up although the ACL forbids it", l.AwaitUp(time.Second), false)
		expect(t, "refused by the ACL", l.IsRefused(), true)
		s.open[0].Down(errors.New("interrupted"))
		expect(t, "refused after an interruption", l.IsRefused(), false)
		time.AfterFunc(time.Millisecond, func() { close(s.closing) })
		expect(t, "up when the client closes", l.AwaitUp(time.Second), false)
		expect(t, "time until it closes", time.Since(began), time.Millisecond)
	})
}

func TestAnInterruptionMayLoseMessages(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := s.Hear(channel, func(string) {}, ignore)
		s.open[0].Up()
		l.CatchUp()
		first, ok := s.Confirmed(channel)
		expect(t, "confirmed", ok && l.Since(first), true)
		expect(t, "channel", first.Channel(), "c")
		s.open[0].Down(errors.New("interrupted"))
		_, ok = s.Confirmed(channel)
		expect(t, "confirmed during the interruption", ok || l.Since(first), false)
		s.open[0].Up()
		expect(t, "missed nothing since the first confirmation", l.Since(first), false)
		expect(t, "missed", l.HasMissed(), true)
		expect(t, "confirmations", l.Confirmations(), 2)
	})
}

// After an interruption that the Notifier did not cause, the subscription may be on a server that has it.
func TestAnInterruptionResetsTheCount(t *testing.T) {
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

func TestEventsOfAnEarlierOpeningAreIgnored(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		looks := 0
		l := s.Watch(channel, "", func() { looks++ })
		old := s.open[0]
		old.Up()
		l.NotHeard(1)
		old.Up()
		old.Message("m")
		expect(t, "up after the earlier opening's Up", l.IsUp(), false)
		expect(t, "looks", looks, 1)
		s.open[0].Up()
		old.Down(errors.New("interrupted"))
		expect(t, "up after the earlier opening's Down", l.IsUp(), true)
	})
}
