package gather

import (
	"testing"
	"testing/synctest"
	"time"
)

// The farther the server, the more batches are in flight, so that items do not wait for one to return.
func TestMoreBatchesAreInFlightTheFartherTheServerIs(t *testing.T) {
	for distance, want := range map[time.Duration]int{
		interval: maxTogether, 5 * interval: 5, 50 * interval: 50, 1000 * interval: maxLimit,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(1000)
			s.Width = constant(1000)
			s.add(0)
			first := s.next(t, 0)
			time.Sleep(distance)
			first.done()
			began := time.Now()
			var inFlight []batch
			for n := range want {
				s.add(n)
				inFlight = append(inFlight, s.next(t, n))
			}
			s.add(1000, 1001)
			s.sendsNothing(t)
			if took := time.Since(began); took != 0 {
				t.Errorf("the items waited for %v", took)
			}
			inFlight[0].done()
			s.next(t, 1000, 1001).done()
			for _, b := range inFlight[1:] {
				b.done()
			}
			s.sendsNothing(t)
		})
	}
}

// A batch that was given up says nothing about the distance. Nor are more batches in flight than Width allows.
func TestASilentServerDoesNotCountAsFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1000)
		s.Width, s.silent = constant(3), true
		for _, want := range []int{maxTogether, 3} {
			for _, send := range []func(int){s.Add, func(n int) { go s.Do(n) }} {
				s.lastSize = 1
				send(0)
				hung := s.next(t, 0)
				time.Sleep(time.Second)
				hung.done()
				synctest.Wait()
			}
			if got := s.limit(); got != want {
				t.Errorf("%d batches may be in flight, want %d", got, want)
			}
			s.silent = false
		}
	})
}

// This holds even if the latest batch had several items.
func TestCallersOfDoSendTheirOwnItemsToAFarServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1000)
		s.Width = constant(100)
		s.roundTrip.observe(10*interval, 1, true)
		s.lastSize = 5
		var inFlight []batch
		for n := range 10 {
			go s.Do(n)
			inFlight = append(inFlight, s.next(t, n))
		}
		go s.Do(10)
		synctest.Wait()
		go s.Do(11)
		time.Sleep(10 * interval)
		s.sendsNothing(t)
		inFlight[0].done()
		s.next(t, 10, 11).done()
		for _, b := range inFlight[1:] {
			b.done()
		}
		s.sendsNothing(t)
	})
}

// constant returns a Width that does not change.
func constant(n int) func() int { return func() int { return n } }

// A shorter round trip is believed at once. A longer one takes a window of batches, and those that are large or not
// alone do not count.
func TestTheEstimateOfTheRoundTrip(t *testing.T) {
	var r roundTrip
	observe := func(times int, took time.Duration, items int, alone bool, want time.Duration) {
		t.Helper()
		for range times {
			r.observe(took, items, alone)
		}
		if r.estimate != want {
			t.Errorf("the estimate is %v, want %v", r.estimate, want)
		}
	}
	const large = fewItems + 1
	observe(5, 9000, large, true, 0)
	observe(5, 9000, 1, false, 0)
	observe(1, 5000, 1, true, 5000)
	observe(1, 1000, large, false, 1000)
	observe(10*windowSize, 9000, large, true, 1000)
	observe(10*windowSize, 9000, 1, false, 1000)
	observe(windowSize-1, 9000, fewItems, true, 1000)
	observe(1, 9000, 1, true, 2000)
	observe(windowSize, 9000, 1, true, 4000)
	observe(windowSize, 9000, 1, true, 8000)
	observe(windowSize, 9000, 1, true, 9000)
	observe(windowSize-1, 9000, 1, true, 9000)
	observe(1, 1500, 1, true, 1500)
	observe(windowSize-1, 9000, 1, true, 1500)
	observe(1, 1600, 1, true, 1600)
}
