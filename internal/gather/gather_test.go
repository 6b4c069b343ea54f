package gather

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const patience = 20 * time.Millisecond

// server is what a group sends to: it holds each sending until it is told to answer.
type server struct {
	Group[int]
	sendings chan sending
	dropped  chan []int
	silent   bool // nothing that returns was answered

	starts  sync.Mutex // guards the following
	adding  bool
	started []func() // while adding
}

type sending struct {
	items  []int
	answer chan<- struct{}
}

// serve returns a group whose sendings a test answers one by one.
func serve(most int) *server {
	s := &server{sendings: make(chan sending, 100), dropped: make(chan []int, 10)}
	s.Group = Group[int]{
		Send: func(items []int) bool {
			answer := make(chan struct{})
			s.sendings <- sending{items, answer}
			<-answer
			return !s.silent
		},
		Drop: func(items []int) { s.dropped <- items },
		Go:   s.start, Most: most, Patience: patience,
	}
	return s
}

// next is the sending that is under way, and was not looked at yet.
func (s *server) next(t *testing.T, want ...int) sending {
	t.Helper()
	synctest.Wait()
	select {
	case next := <-s.sendings:
		if !slices.Equal(next.items, want) {
			t.Errorf("sent are %v; want %v", next.items, want)
		}
		return next
	default:
		t.Fatalf("nothing is sent; want %v", want)
		return sending{}
	}
}

// quiet expects that nothing further is sent.
func (s *server) quiet(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if len(s.sendings) > 0 {
		t.Errorf("sent are %v; want nothing", (<-s.sendings).items)
	}
}

// done answers.
func (s sending) done() { close(s.answer) }

// add adds items. What they start runs after the last of them, however the goroutines are scheduled.
func (s *server) add(items ...int) {
	s.starts.Lock()
	s.adding = true
	s.starts.Unlock()
	for _, item := range items {
		s.Add(item)
	}
	s.starts.Lock()
	defer s.starts.Unlock()
	s.adding = false
	for _, f := range s.started {
		go f()
	}
	s.started = nil
}

func (s *server) start(f func()) {
	s.starts.Lock()
	defer s.starts.Unlock()
	if s.adding {
		s.started = append(s.started, f)
		return
	}
	go f()
}

// engage has all sendings but one of those that may be together under way, until the answer.
func (s *server) engage(t *testing.T) (answer func()) {
	t.Helper()
	var under []sending
	for range maxTogether - 1 {
		s.add(-1)
		under = append(under, s.next(t, -1))
	}
	return func() {
		for _, u := range under {
			u.done()
		}
	}
}

func TestALoneItemGoesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := serve(10), time.Now()
		for item := range 3 {
			s.add(item)
			s.next(t, item).done()
			s.quiet(t)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it waited for %v", took)
		}
	})
}

func TestItemsThatComeMeanwhileGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(10)
		defer s.engage(t)()
		s.add(0)
		first := s.next(t, 0)
		s.add(1, 2)
		s.quiet(t)
		time.Sleep(patience / 2)
		s.add(3)
		s.quiet(t)
		first.done()
		second := s.next(t, 1, 2, 3)
		s.add(4)
		s.quiet(t)
		second.done()
		s.next(t, 4).done()
		s.quiet(t)
	})
}

func TestASendingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(3)
		defer s.engage(t)()
		s.add(0)
		first := s.next(t, 0)
		s.add(1, 2, 3, 4, 5, 6, 7)
		first.done()
		for _, want := range [][]int{{1, 2, 3}, {4, 5, 6}, {7}} {
			s.next(t, want...).done()
		}
		s.quiet(t)
	})
}

// Behind a sending that hangs, others begin, one each time that those who wait have lost their
// patience; and not more than there may be: who waits then is dropped.
func TestNobodyWaitsForASendingThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(1000)
		defer s.engage(t)()
		s.add(0)
		hanging := []sending{s.next(t, 0)}
		for n := maxTogether; n < maxTogether+maxBeside; n++ {
			s.add(n, -n)
			time.Sleep(patience - time.Nanosecond)
			s.quiet(t)
			time.Sleep(time.Nanosecond)
			hanging = append(hanging, s.next(t, n, -n))
		}
		s.add(100, 101)
		time.Sleep(patience - time.Nanosecond)
		synctest.Wait()
		if len(s.dropped) != 0 {
			t.Errorf("dropped are %v, too soon", <-s.dropped)
		}
		time.Sleep(time.Nanosecond)
		s.quiet(t)
		if got := <-s.dropped; !slices.Equal(got, []int{100, 101}) {
			t.Errorf("dropped are %v", got)
		}
		for _, h := range hanging {
			h.done()
		}
		s.quiet(t)
	})
}

// More than one sending can take lose their patience together, and each that is sent has
// others' patience begin anew.
func TestManyBehindASendingThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(2)
		defer s.engage(t)()
		s.add(0)
		hangs := s.next(t, 0)
		s.add(1, 2, 3, 4, 5)
		time.Sleep(patience)
		second := s.next(t, 1, 2)
		s.quiet(t)
		time.Sleep(patience - time.Nanosecond)
		s.quiet(t)
		time.Sleep(time.Nanosecond)
		third := s.next(t, 3, 4)
		second.done()
		s.next(t, 5).done()
		third.done()
		hangs.done()
		s.quiet(t)
	})
}

// A server that is slow is not hurried, as one that hangs is; nor is one that hung waited for longer
// than ten times.
func TestPatienceIsLongerWithWhatIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for took, want := range map[time.Duration]time.Duration{
			patience / 10: patience, patience / 2: 2 * patience, 2 * patience: 8 * patience, 100 * patience: 10 * patience,
		} {
			s := serve(10)
			answer := s.engage(t)
			s.add(0)
			first := s.next(t, 0)
			time.Sleep(took)
			first.done()
			s.add(1)
			hangs := s.next(t, 1)
			s.add(2)
			time.Sleep(want - time.Nanosecond)
			s.quiet(t)
			time.Sleep(time.Nanosecond)
			s.next(t, 2).done()
			hangs.done()
			answer()
			s.quiet(t)
		}
	})
}

// The first who waits is the one whose patience counts, whoever comes later.
func TestPatienceIsThatOfTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(10)
		defer s.engage(t)()
		s.add(0)
		hangs := s.next(t, 0)
		s.add(1)
		time.Sleep(patience / 2)
		s.add(2)
		time.Sleep(patience / 2)
		s.next(t, 1, 2).done()
		hangs.done()
		s.quiet(t)
	})
}

// Those who come before the first sending has begun, and do not go with it, have patience, too.
func TestPatienceOfThoseWhoComeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(2)
		defer s.engage(t)()
		s.add(0, 1, 2, 3, 4)
		hangs := s.next(t, 0, 1)
		time.Sleep(patience)
		s.next(t, 2, 3).done()
		s.next(t, 4).done()
		hangs.done()
		s.quiet(t)
	})
}

// Where the way is long there are as many sendings under way as follow each other closely on it, so that nobody waits
// for one to return; but no more than the connections bear.
func TestMoreSendingsAreUnderWayTheFartherTheServerIs(t *testing.T) {
	for way, want := range map[time.Duration]int{
		spacing: maxTogether, 5 * spacing: 5, 50 * spacing: 50, 1000 * spacing: maxRoom,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(1000)
			s.Width = wide(1000)
			s.add(0)
			first := s.next(t, 0)
			time.Sleep(way)
			first.done()
			began := time.Now()
			var under []sending
			for n := range want {
				s.add(n)
				under = append(under, s.next(t, n))
			}
			s.add(1000, 1001)
			s.quiet(t)
			if took := time.Since(began); took != 0 {
				t.Errorf("they waited for %v", took)
			}
			under[0].done()
			s.next(t, 1000, 1001).done()
			for _, u := range under[1:] {
				u.done()
			}
			s.quiet(t)
		})
	}
}

// A server is not taken for far because it does not answer, nor are more calls under way than the connections bear.
func TestASilentServerIsNotFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(1000)
		s.Width, s.silent = wide(3), true
		for _, want := range []int{maxTogether, 3} {
			for _, send := range []func(int){s.Add, func(n int) { go s.Do(n) }} {
				s.latest = 1
				send(0)
				hung := s.next(t, 0)
				time.Sleep(time.Second)
				hung.done()
				synctest.Wait()
			}
			if got := s.room(); got != want {
				t.Errorf("%d may be under way; want %d", got, want)
			}
			s.silent = false
		}
	})
}

// Calls that send their own do so, too, although several went together before.
func TestCallersSendTheirOwnWhereTheServerIsFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(1000)
		s.Width = wide(100)
		s.trip.observe(10*spacing, 1, true)
		s.latest = 5
		var under []sending
		for n := range 10 {
			go s.Do(n)
			under = append(under, s.next(t, n))
		}
		go s.Do(10)
		synctest.Wait()
		go s.Do(11)
		time.Sleep(10 * spacing)
		s.quiet(t)
		under[0].done()
		s.next(t, 10, 11).done()
		for _, u := range under[1:] {
			u.done()
		}
		s.quiet(t)
	})
}

// wide is a Width that does not change.
func wide(n int) func() int { return func() int { return n } }

// What many items take, or many sendings at once, does not make a server far, nor does one sending make it far that has
// moved away; a short one is always believed.
func TestTrip(t *testing.T) {
	var way trip
	look := func(times int, took time.Duration, items int, alone bool, want time.Duration) {
		t.Helper()
		for range times {
			way.observe(took, items, alone)
		}
		if way.shortest != want {
			t.Errorf("the way takes %v; want %v", way.shortest, want)
		}
	}
	const crowd = fewItems + 1
	look(5, 9000, crowd, true, 0)
	look(5, 9000, 1, false, 0)
	look(1, 5000, 1, true, 5000)
	look(1, 1000, crowd, false, 1000)
	look(10*tripWindow, 9000, crowd, true, 1000)
	look(10*tripWindow, 9000, 1, false, 1000)
	look(tripWindow-1, 9000, fewItems, true, 1000)
	look(1, 9000, 1, true, 2000)
	look(tripWindow, 9000, 1, true, 4000)
	look(tripWindow, 9000, 1, true, 8000)
	look(tripWindow, 9000, 1, true, 9000)
	look(tripWindow-1, 9000, 1, true, 9000)
	look(1, 1500, 1, true, 1500)
	look(tripWindow-1, 9000, 1, true, 1500)
	look(1, 1600, 1, true, 1600)
}

// Nothing stays behind a group that is idle: the bubble ends only when its goroutines do, and a
// timer that was left would start a sender for nobody.
func TestNothingIsLeftOfAnIdleGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(10)
		started := 0
		s.Go = func(f func()) { started++; go f() }
		answer := s.engage(t)
		s.add(0)
		first := s.next(t, 0)
		s.add(1)
		first.done()
		s.next(t, 1).done()
		answer()
		synctest.Wait()
		if s.hurry.Stop() {
			t.Error("a timer runs for nobody")
		}
		time.Sleep(time.Hour)
		s.quiet(t)
		if started != maxTogether || s.flying != 0 || s.waiting() != 0 {
			t.Errorf("%d senders were started, %d are there, %d items wait", started, s.flying, s.waiting())
		}
		// What was sent is not kept, either.
		for _, item := range s.queue[:cap(s.queue)] {
			if item != 0 {
				t.Errorf("the group still has %d", item)
			}
		}
	})
}

// Whatever comes together, and by either way, nothing is lost or sent twice.
func TestManyGoroutinesWithoutPatience(t *testing.T) {
	const goroutines, each = 50, 50
	var counts [goroutines * each]int
	var mu sync.Mutex
	var all sync.WaitGroup
	all.Add(goroutines * each)
	flying, most := 0, 0
	g := Group[int]{
		Go: func(f func()) { go f() }, Most: 5, Patience: time.Microsecond,
		Drop: func(items []int) {
			mu.Lock()
			defer mu.Unlock()
			for _, item := range items {
				counts[item]++
			}
			all.Add(-len(items))
		},
		Send: func(items []int) bool {
			mu.Lock()
			flying++
			most = max(most, flying)
			for _, item := range items {
				counts[item]++
			}
			mu.Unlock()
			time.Sleep(rand.N(50 * time.Microsecond))
			mu.Lock()
			flying--
			mu.Unlock()
			all.Add(-len(items))
			return true
		},
	}
	for who := range goroutines {
		go func() {
			for n := range each {
				if who%2 == 0 {
					g.Do(who*each + n)
				} else {
					g.Add(who*each + n)
				}
			}
		}()
	}
	all.Wait()
	mu.Lock()
	defer mu.Unlock()
	if most < 2 || most > maxTogether+maxBeside+maxSingle {
		t.Errorf("%d sendings were under way at once", most)
	}
	for item, n := range counts {
		if n != 1 {
			t.Errorf("%d was sent %d times", item, n)
		}
	}
}

// However many wait, they go in their order, those that come meanwhile behind them, and what has gone is
// not kept.
func TestManyWhoWaitGoInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(7)
		answer := s.engage(t)
		s.add(1)
		under, sent, added := s.next(t, 1), 1, 1
		for round := 0; sent < added || round == 0; round++ {
			for n := 30; round < 20 && n > 0; n-- {
				added++
				s.add(added)
			}
			under.done()
			var want []int
			for ; sent < added && len(want) < 7; sent++ {
				want = append(want, sent+1)
			}
			under = s.next(t, want...)
			for _, item := range s.queue[:s.gone] {
				if item != 0 {
					t.Fatalf("the group still has %d", item)
				}
			}
		}
		under.done()
		answer()
		s.quiet(t)
	})
}
