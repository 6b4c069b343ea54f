package campaign

import (
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
)

// processKinds are faults of the processes that use locks.
var processKinds = []*Kind{
	{Name: "process-pause", Do: func(s *Scene) { s.pauseProcess(s.brief()) }},
	{Name: "process-pause-long", Do: func(s *Scene) { s.pauseProcess(s.past()) }},
	{Name: "process-stutter", Do: func(s *Scene) {
		for range 10 {
			s.pauseProcess(s.between(time.Millisecond, 10*time.Millisecond))
			s.sleep(s.between(time.Millisecond, 10*time.Millisecond))
		}
	}},
	{Name: "process-killed", Orphans: true, Slow: true, Do: func(s *Scene) {
		s.turns.Lock()
		defer s.turns.Unlock()
		i := s.random.IntN(len(s.proxies))
		s.cast.kill(i)
		s.struck()
		s.sleep(s.brief())
		s.cast.replace(i)
	}},
	{Name: "process-hogged", Do: func(s *Scene) {
		d := s.between(5*time.Millisecond, 40*time.Millisecond)
		s.cast.order(s.random.IntN(len(s.proxies)), worker.Order{Do: worker.Hog, For: d})
		s.struck()
		s.sleep(d)
	}},
	{Name: "cancelled-acquires", Do: func(s *Scene) {
		for range 5 {
			for i := range s.proxies {
				s.cast.order(i, worker.Order{Do: worker.Cancel})
			}
			s.struck()
			s.sleep(s.brief())
		}
	}},
	{Name: "closed-client", Orphans: true, Slow: true, Do: func(s *Scene) {
		for range 1 + s.random.IntN(3) {
			s.cast.order(s.random.IntN(len(s.proxies)), worker.Order{Do: worker.Reopen})
			s.struck()
			s.sleep(s.brief())
		}
	}},
}

func (s *Scene) pauseProcess(d time.Duration) {
	s.turns.Lock()
	defer s.turns.Unlock()
	i := s.random.IntN(len(s.proxies))
	s.cast.pause(i)
	s.struck()
	s.sleep(d)
	s.cast.resume(i)
}
