package simulation

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"time"
)

// stream is one direction of a connection: data written at one end arrives at the other after a delay, in
// order. Writing never blocks: a server that waited for a reader while it holds its lock would stop the
// bubble's clock. It has one reader at a time.
type stream struct {
	link  *link
	up    bool // from the client to the server
	wake  chan struct{}
	timer *time.Timer

	mu       sync.Mutex
	rand     *rand.Rand
	flights  []flight
	last     time.Time // when the latest flight arrives
	deadline time.Time // of reads
	swallow  bool      // data written from now on is lost
	gone     error     // the error that reads return instead of data in flight; nil while the stream works
}

// flight is data on its way.
type flight struct {
	at   time.Time // when it arrives, unless a process is paused or the link is stalled then
	data []byte
	end  bool // the end of the stream instead of data
}

func newStream(l *link, up bool, r *rand.Rand) *stream {
	s := &stream{link: l, up: up, wake: make(chan struct{}, 1), rand: r, timer: time.NewTimer(time.Hour)}
	s.timer.Stop()
	return s
}

// read waits for data to arrive.
func (s *stream) read(p []byte) (int, error) {
	for {
		n, wait, err := s.take(p)
		if n > 0 || err != nil {
			s.timer.Stop()
			return n, err
		}
		if wait < 0 {
			<-s.wake
			continue
		}
		s.timer.Reset(wait)
		select {
		case <-s.timer.C:
		case <-s.wake:
		}
	}
}

// take reads data that has arrived, or returns how long to wait; negative for no bound.
func (s *stream) take(p []byte) (n int, wait time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	wait = -1
	switch {
	case s.gone != nil:
		return 0, 0, s.gone
	case !s.deadline.IsZero():
		if wait = s.deadline.Sub(now); wait <= 0 {
			return 0, 0, os.ErrDeadlineExceeded
		}
	}
	if len(s.flights) == 0 {
		return 0, wait, nil
	}
	first := &s.flights[0]
	if left := s.link.landing(first.at, s.up).Sub(now); left > 0 {
		if wait < 0 || left < wait {
			wait = left
		}
		return 0, wait, nil
	}
	if first.end {
		return 0, 0, io.EOF
	}
	n = copy(p, first.data)
	if first.data = first.data[n:]; len(first.data) == 0 {
		s.flights = s.flights[1:]
	}
	return n, 0, nil
}

// idle returns an error if a read would return something now.
func (s *stream) idle() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.gone != nil:
		return s.gone
	case len(s.flights) > 0 && !s.link.landing(s.flights[0].at, s.up).After(time.Now()):
		return errLanded
	}
	return nil
}

// errLanded is the error if data arrives where none should.
var errLanded = errors.New("something has come on an idle connection")

// write sends data on its way.
func (s *stream) write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone != nil {
		return 0, syscall.EPIPE
	}
	if !s.swallow {
		s.send(flight{at: s.landingTime(), data: append([]byte(nil), data...)})
	}
	return len(data), nil
}

// finish sends the end of the stream. If that is swallowed, it is found out when the other end's system checks
// whether the peer is still there.
func (s *stream) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.landingTime()
	if s.swallow {
		at = time.Now().Add(keepalive)
	}
	s.send(flight{at: at, end: true})
}

// keepalive is how long a server keeps a connection whose other end is silent.
const keepalive = 5 * time.Minute

func (s *stream) send(f flight) {
	s.flights = append(s.flights, f)
	s.poke()
}

// landingTime draws when something that is sent now arrives. A paused process sends when it goes on.
func (s *stream) landingTime() time.Time {
	at := s.link.lands(s.up, s.rand)
	if at.Before(s.last) {
		at = s.last
	}
	s.last = at
	return at
}

// end makes reads return err at once.
func (s *stream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone == nil {
		s.gone, s.flights = err, nil
		s.poke()
	}
}

func (s *stream) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swallow = true
}

func (s *stream) setDeadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = t
	s.poke()
}

func (s *stream) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
