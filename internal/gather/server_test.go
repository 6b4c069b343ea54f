package gather

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const patience = 20 * time.Millisecond

// server is a group whose batches the test answers one by one.
type server struct {
	Group[int]
	batches chan batch
	dropped chan []int
	silent  bool // Send reports that nothing was answered

	startMu sync.Mutex // guards the fields below
	adding  bool
	delayed []func() // goroutines to start when add has added all items
}

type batch struct {
	items  []int
	answer chan<- struct{}
}

func newServer(most int) *server {
	s := &server{batches: make(chan batch, 100), dropped: make(chan []int, 10)}
	s.Group = Group[int]{
		Send: func(items []int) bool {
			answer := make(chan struct{})
			s.batches <- batch{items, answer}
			<-answer
			return !s.silent
		},
		Drop: func(items []int) { s.dropped <- items },
		Go:   s.start, Most: most, Patience: patience,
	}
	return s
}

// add adds items. Goroutines that the group starts run after the last item is added, so that the test does not depend
// on how they are scheduled.
func (s *server) add(items ...int) {
	s.startMu.Lock()
	s.adding = true
	s.startMu.Unlock()
	for _, item := range items {
		s.Add(item)
	}
	s.startMu.Lock()
	defer s.startMu.Unlock()
	s.adding = false
	for _, f := range s.delayed {
		go f()
	}
	s.delayed = nil
}

func (s *server) start(f func()) {
	s.startMu.Lock()
	defer s.startMu.Unlock()
	if s.adding {
		s.delayed = append(s.delayed, f)
		return
	}
	go f()
}

// next returns the oldest batch in flight that next has not returned yet, which must have the wanted items.
func (s *server) next(t *testing.T, want ...int) batch {
	t.Helper()
	synctest.Wait()
	select {
	case next := <-s.batches:
		if !slices.Equal(next.items, want) {
			t.Errorf("sent %v, want %v", next.items, want)
		}
		return next
	default:
		t.Fatalf("sent nothing, want %v", want)
		return batch{}
	}
}

// sendsNothing fails the test if another batch is sent.
func (s *server) sendsNothing(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if len(s.batches) > 0 {
		t.Errorf("sent %v, want nothing", (<-s.batches).items)
	}
}

// leaveRoomForOne fills the group with batches in flight until just one more may be sent. They return when answer is
// called.
func (s *server) leaveRoomForOne(t *testing.T) (answer func()) {
	t.Helper()
	var inFlight []batch
	for range maxTogether - 1 {
		s.add(-1)
		inFlight = append(inFlight, s.next(t, -1))
	}
	return func() {
		for _, b := range inFlight {
			b.done()
		}
	}
}

func (b batch) done() { close(b.answer) }
