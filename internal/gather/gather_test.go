package gather

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestALoneItemIsSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := newServer(10), time.Now()
		for item := range 3 {
			s.add(item)
			s.next(t, item).done()
			s.sendsNothing(t)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the items waited for %v", took)
		}
	})
}

func TestItemsThatArriveMeanwhileAreSentTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(10)
		defer s.leaveRoomForOne(t)()
		s.add(0)
		first := s.next(t, 0)
		s.add(1, 2)
		s.sendsNothing(t)
		time.Sleep(patience / 2)
		s.add(3)
		s.sendsNothing(t)
		first.done()
		second := s.next(t, 1, 2, 3)
		s.add(4)
		s.sendsNothing(t)
		second.done()
		s.next(t, 4).done()
		s.sendsNothing(t)
	})
}

func TestTheSizeOfABatchIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(3)
		defer s.leaveRoomForOne(t)()
		s.add(0)
		first := s.next(t, 0)
		s.add(1, 2, 3, 4, 5, 6, 7)
		first.done()
		for _, want := range [][]int{{1, 2, 3}, {4, 5, 6}, {7}} {
			s.next(t, want...).done()
		}
		s.sendsNothing(t)
	})
}

// The test's bubble ends only when all its goroutines have.
func TestAnIdleGroupKeepsNoGoroutineTimerOrItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(10)
		started := 0
		s.Go = func(f func()) { started++; go f() }
		answer := s.leaveRoomForOne(t)
		s.add(0)
		first := s.next(t, 0)
		s.add(1)
		first.done()
		s.next(t, 1).done()
		answer()
		synctest.Wait()
		if s.overdue.Stop() {
			t.Error("the timer runs although no items wait")
		}
		time.Sleep(time.Hour)
		s.sendsNothing(t)
		if started != maxTogether || s.inFlight != 0 || s.waiting() != 0 {
			t.Errorf("%d senders started, %d in flight, %d items wait; want %d, 0, 0", started, s.inFlight, s.waiting(), maxTogether)
		}
		for _, item := range s.queue[:cap(s.queue)] {
			if item != 0 {
				t.Errorf("the queue still refers to item %d, which was sent", item)
			}
		}
	})
}

func TestEachItemIsSentOrDroppedOnce(t *testing.T) {
	const goroutines, each = 50, 50
	var counts [goroutines * each]int
	var mu sync.Mutex
	var all sync.WaitGroup
	all.Add(goroutines * each)
	inFlight, most := 0, 0
	meet := make(chan struct{}) // closed once two batches are in flight, which the first waits for
	met := sync.OnceFunc(func() { close(meet) })
	defer time.AfterFunc(time.Minute, met).Stop()
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
			inFlight++
			most = max(most, inFlight)
			for _, item := range items {
				counts[item]++
			}
			if inFlight > 1 {
				met()
			}
			mu.Unlock()
			<-meet
			time.Sleep(time.Duration(items[0]%50) * time.Microsecond)
			mu.Lock()
			inFlight--
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
		t.Errorf("%d batches were in flight at once", most)
	}
	for item, n := range counts {
		if n != 1 {
			t.Errorf("item %d was sent or dropped %d times", item, n)
		}
	}
}

func TestALongQueueIsSentInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(7)
		answer := s.leaveRoomForOne(t)
		s.add(1)
		inFlight, sent, added := s.next(t, 1), 1, 1
		for round := 0; sent < added || round == 0; round++ {
			for n := 30; round < 20 && n > 0; n-- {
				added++
				s.add(added)
			}
			inFlight.done()
			var want []int
			for ; sent < added && len(want) < 7; sent++ {
				want = append(want, sent+1)
			}
			inFlight = s.next(t, want...)
			for _, item := range s.queue[:s.head] {
				if item != 0 {
					t.Fatalf("the queue still refers to item %d, which was sent", item)
				}
			}
		}
		inFlight.done()
		answer()
		s.sendsNothing(t)
	})
}

// A batch that is about to leave waits while goroutines keep adding items, and takes them along.
func TestABatchWaitsWhileItemsCome(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const total = 20
	var largest int
	for range 100 { // the goroutine that adds items may be held up
		var all sync.WaitGroup
		var sent atomic.Int64
		done := make(chan struct{})
		g := &Group[int]{
			Send: func(items []int) bool {
				largest = max(largest, len(items))
				if sent.Add(int64(len(items))) == total {
					close(done)
				}
				return true
			},
			Go: func(f func()) { all.Go(f) }, Most: 100, Patience: time.Hour,
		}
		for i := range total {
			g.Add(i)
			runtime.Gosched()
		}
		<-done
		all.Wait()
		if largest > total/2 {
			return
		}
	}
	t.Errorf("of %d items, %d at most went together", total, largest)
}

// A batch leaves once no more items come, and does not use up its yields.
func TestABatchLeavesWhenNothingComes(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	fewest := maxYields
	for range 100 { // the goroutine that sends may be held up
		var all sync.WaitGroup
		var sent atomic.Bool
		g := &Group[int]{
			Send: func([]int) bool { sent.Store(true); return true },
			Go:   func(f func()) { all.Go(f) }, Most: 100, Patience: time.Hour,
		}
		g.Add(1)
		turns := 0
		for ; !sent.Load(); turns++ {
			runtime.Gosched()
		}
		all.Wait()
		fewest = min(fewest, turns)
	}
	if fewest > maxYields/4 {
		t.Errorf("the sender yields %d times at least although nothing comes", fewest)
	}
}
