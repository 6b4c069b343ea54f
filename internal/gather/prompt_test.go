package gather

import (
	"testing"
	"testing/synctest"
	"time"
)

// Items that meet each other are sent together, so none of them is sent by its caller.
func TestAnItemIsSentPromptlyOnlyIfItIsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(10)
		sent, prompt, hold := true, make(chan int, 1), make(chan struct{})
		s.Prompt = func(item int) (answered, _ bool) {
			prompt <- item
			<-hold
			return sent, sent
		}
		done := make(chan bool, 1)
		go func() { done <- s.DoPromptly(1) }()
		<-prompt
		time.Sleep(metFor)
		if s.DoPromptly(2) {
			t.Error("a second item was sent promptly beside the first")
		}
		close(hold)
		if !<-done {
			t.Error("DoPromptly reports that the first item was not sent")
		}
		s.isNotPrompt(t, "after two items had met")
		if !s.DoPromptly(3) {
			t.Error("an item was not sent promptly although it was alone again")
		}
		<-prompt

		s.add(4)
		batch := s.next(t, 4)
		if s.DoPromptly(5) {
			t.Error("an item was sent promptly beside a batch")
		}
		batch.done()
		s.isNotPrompt(t, "after an item had met a batch")

		sent = false
		if s.DoPromptly(6) {
			t.Error("DoPromptly reports that an item was sent that Prompt did not send")
		}
		<-prompt
		sent = true
		s.isNotPrompt(t, "after an item could not be")
		if !s.DoPromptly(7) {
			t.Error("an item was not sent promptly although that was possible again")
		}
		<-prompt
	})
}

// If the server is far, a few items travel apart. With more of them, items are better sent together. The number of connections that
// others share, which Width returns, does not matter.
func TestAFewItemsAreSentPromptlyToAFarServer(t *testing.T) {
	for trip, want := range map[time.Duration]int{apartFrom - time.Microsecond: 1, apartFrom: maxApart, 10 * apartFrom: maxApart} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(10)
			s.Width = func() int {
				t.Error("an item that was sent promptly asked how many batches the connections carry")
				return 0
			}
			s.roundTrip.observe(trip, 1, true)
			hold := make(chan struct{})
			s.Prompt = func(int) (answered, sent bool) { <-hold; return true, true }
			defer close(hold)
			for n := range want {
				go s.DoPromptly(n)
				synctest.Wait()
			}
			if s.inFlight != want {
				t.Errorf("%v: %d items are on their way, want %d", trip, s.inFlight, want)
			}
			if s.DoPromptly(-1) {
				t.Errorf("%v: an item was sent promptly beside %d others", trip, want)
			}
		})
	}
}

// isNotPrompt fails the test if an item is sent promptly before metFor has passed.
func (s *server) isNotPrompt(t *testing.T, when string) {
	t.Helper()
	synctest.Wait()
	time.Sleep(metFor - 1)
	if s.DoPromptly(-1) {
		t.Errorf("an item was sent promptly %s", when)
	}
	time.Sleep(time.Nanosecond)
}

// An item that arrives while the only room is taken by a prompt one is sent when that returns.
func TestWhatWaitsIsSentAfterAPromptItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(10)
		hold := make(chan struct{})
		s.Prompt = func(int) (answered, sent bool) { <-hold; return true, true }
		go s.DoPromptly(1)
		synctest.Wait()
		s.add(2)
		first := s.next(t, 2)
		s.add(3)
		s.sendsNothing(t)
		close(hold)
		s.next(t, 3).done()
		first.done()
	})
}
