package gather

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Fault: A batch hangs. Another is sent each time that items have waited for as long as Patience; when no more may be
// in flight, the items are dropped.
func TestNoItemWaitsForABatchThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1000)
		defer s.leaveRoomForOne(t)()
		s.add(0)
		hanging := []batch{s.next(t, 0)}
		for n := maxTogether; n < maxTogether+maxBeside; n++ {
			s.add(n, -n)
			time.Sleep(patience - time.Nanosecond)
			s.sendsNothing(t)
			time.Sleep(time.Nanosecond)
			hanging = append(hanging, s.next(t, n, -n))
		}
		s.add(100, 101)
		time.Sleep(patience - time.Nanosecond)
		synctest.Wait()
		if len(s.dropped) != 0 {
			t.Errorf("dropped %v before their patience ran out", <-s.dropped)
		}
		time.Sleep(time.Nanosecond)
		s.sendsNothing(t)
		if got := <-s.dropped; !slices.Equal(got, []int{100, 101}) {
			t.Errorf("dropped %v, want [100 101]", got)
		}
		for _, h := range hanging {
			h.done()
		}
		s.sendsNothing(t)
	})
}

// The items that do not fit into an overdue batch start to wait again.
func TestMoreThanABatchIsOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(2)
		defer s.leaveRoomForOne(t)()
		s.add(0)
		hangs := s.next(t, 0)
		s.add(1, 2, 3, 4, 5)
		time.Sleep(patience)
		second := s.next(t, 1, 2)
		s.sendsNothing(t)
		time.Sleep(patience - time.Nanosecond)
		s.sendsNothing(t)
		time.Sleep(time.Nanosecond)
		third := s.next(t, 3, 4)
		second.done()
		s.next(t, 5).done()
		third.done()
		hangs.done()
		s.sendsNothing(t)
	})
}

// Patience is extended for a slow server, up to ten times, so that one that hung does not delay items for long.
func TestPatienceIsLongerWithASlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for took, want := range map[time.Duration]time.Duration{
			patience / 10: patience, patience / 2: 2 * patience, 2 * patience: 8 * patience, 100 * patience: 10 * patience,
		} {
			s := newServer(10)
			answer := s.leaveRoomForOne(t)
			s.add(0)
			first := s.next(t, 0)
			time.Sleep(took)
			first.done()
			s.add(1)
			hangs := s.next(t, 1)
			s.add(2)
			time.Sleep(want - time.Nanosecond)
			s.sendsNothing(t)
			time.Sleep(time.Nanosecond)
			s.next(t, 2).done()
			hangs.done()
			answer()
			s.sendsNothing(t)
		}
	})
}

func TestPatienceCountsFromTheFirstItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(10)
		defer s.leaveRoomForOne(t)()
		s.add(0)
		hangs := s.next(t, 0)
		s.add(1)
		time.Sleep(patience / 2)
		s.add(2)
		time.Sleep(patience / 2)
		s.next(t, 1, 2).done()
		hangs.done()
		s.sendsNothing(t)
	})
}

// Items that arrive before the first batch is sent, but do not fit into it, become overdue as well.
func TestPatienceOfItemsThatArriveTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(2)
		defer s.leaveRoomForOne(t)()
		s.add(0, 1, 2, 3, 4)
		hangs := s.next(t, 0, 1)
		time.Sleep(patience)
		s.next(t, 2, 3).done()
		s.next(t, 4).done()
		hangs.done()
		s.sendsNothing(t)
	})
}

// It is also extended after an item that its caller sent, and that took long.
func TestPatienceIsLongerAfterASlowItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(10)
		s.Prompt = func(int) (answered, sent bool) {
			time.Sleep(2 * patience)
			return true, true
		}
		if !s.DoPromptly(0) {
			t.Fatal("an item was not sent promptly although it was alone")
		}
		defer s.leaveRoomForOne(t)()
		s.add(1)
		hangs := s.next(t, 1)
		s.add(2)
		time.Sleep(8*patience - time.Nanosecond)
		s.sendsNothing(t)
		time.Sleep(time.Nanosecond)
		s.next(t, 2).done()
		hangs.done()
	})
}

// A caller that would send its own item does not overtake items that wait.
func TestACallerDoesNotOvertakeItemsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(10)
		for n := range maxTogether {
			go s.Do(n)
			defer s.next(t, n).done()
		}
		s.add(10)
		go s.Do(11)
		s.sendsNothing(t)
		time.Sleep(patience)
		s.next(t, 10, 11).done()
	})
}

// Batches hang if some are in flight and none was answered since.
func TestAGroupHangsUntilABatchIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1)
		hangs := func(want bool, since time.Time) {
			t.Helper()
			synctest.Wait()
			if got := s.Hangs(since); got != want {
				t.Errorf("Hangs = %t, want %t", got, want)
			}
		}
		began := time.Now()
		hangs(false, began)
		s.add(1, 2)
		first, second := s.next(t, 1), s.next(t, 2)
		hangs(true, began)
		time.Sleep(time.Second)
		first.done()
		hangs(false, began)
		hangs(true, time.Now().Add(time.Nanosecond))
		second.done()
		hangs(false, time.Now().Add(time.Nanosecond))
	})
}
