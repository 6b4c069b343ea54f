package campaign

import (
	"os"
	"path/filepath"
	"time"
)

// dataKinds are faults of the server's data and its clock, and those caused by other programs.
var dataKinds = []*Kind{
	{Name: "queue-deleted", Waiting: true, HidesQueue: true, LosesQueue: true, Slow: true, Do: func(s *Scene) { s.delete(s.lock().Queue) }},
	{Name: "queue-wrong-type", HidesQueue: true, LosesQueue: true, Slow: true, Do: func(s *Scene) {
		queue := s.lock().Queue
		s.do("SET", queue, "no queue", "PX", 2000)
		s.sleep(s.brief())
		s.undo("DEL", queue)
	}},
	{Name: "fences-deleted", ForgetsFences: true, Do: func(s *Scene) { s.delete("holdfast:fences") }},
	// A program that knows only SET and compare-and-delete wants the same lock.
	{Name: "stranger", Slow: true, Prepare: shareKeys, Do: func(s *Scene) { s.strange.poll(s, s.lock()) }},

	{Name: "lock-deleted", Breaks: OwnKeys, Slow: true, Do: func(s *Scene) {
		for range 1 + s.random.IntN(5) {
			s.delete(s.lock().Key)
			s.sleep(s.brief())
		}
	}},
	{Name: "eviction", Breaks: OwnKeys, HidesQueue: true, Slow: true, Do: func(s *Scene) {
		s.undo("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
		s.set(s.aWhile(), "maxmemory", "1", "0")
		s.undo("CONFIG", "SET", "maxmemory-policy", "noeviction")
	}},
	{Name: "flushall", ForgetsFences: true, Breaks: DataKept, HidesQueue: true, Slow: true, Do: func(s *Scene) { s.do("FLUSHALL") }},
	{Name: "wiped-restart", ForgetsFences: true, Breaks: DataKept, HidesQueue: true, Slow: true, Do: func(s *Scene) {
		s.restart(func() { s.exchange("") })
	}},
	{Name: "older-restart", ForgetsFences: true, BringsBack: true, Breaks: DataKept, HidesQueue: true, Orphans: true, Slow: true, Do: olderRestart},
	clockJump,
}

// longestJump bounds a jump of the clock. A TTL that was set before the clock jumped back lasts too long by up
// to this much.
const longestJump = 15 * time.Second

// clockJump needs a clock that can be moved: Config.Clock.
var clockJump = &Kind{Name: "clock-jump", Breaks: ClockRun, HidesQueue: true, Orphans: true, Slow: true, Do: func(s *Scene) {
	d := s.between(time.Second, longestJump)
	s.clock.Jump(d)
	s.struck()
	s.sleep(s.aWhile())
	s.clock.Jump(-d)
}}

// olderRestart restarts the server from a copy of its log that is some writes old.
func olderRestart(s *Scene) {
	copied := filepath.Join(s.harness.TempDir(), "older")
	if err := os.CopyFS(copied, os.DirFS(s.appendOnly())); err != nil {
		return // the other fault of the pair has removed it
	}
	s.sleep(s.aWhile())
	s.restart(func() { s.exchange(copied) })
}

// delete strikes if there is something to delete.
func (s *Scene) delete(key string) {
	if n, _ := s.server.Do("DEL", key); n == int64(1) {
		s.struck()
	}
}

// shareKeys gives every lock an exact key.
func shareKeys(p *Plan) {
	for i := range p.Names {
		p.Names[i].share()
	}
}
