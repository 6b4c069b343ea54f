package campaign

import (
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
	"github.com/holdfast-go/holdfast/tests/internal/harness"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/resp"
)

// serverKinds are faults of the server's process and its connections.
var serverKinds = []*Kind{
	{Name: "server-pause", Do: func(s *Scene) { s.pauseServer(s.brief()) }},
	{Name: "server-pause-long", Do: func(s *Scene) { s.pauseServer(s.past()) }},
	{Name: "server-stall", Do: func(s *Scene) { s.do("DEBUG", "SLEEP", s.aWhile().Seconds()) }},
	{Name: "server-restart", HidesQueue: true, Do: func(s *Scene) { s.restart(func() {}) }},
	{Name: "killed-clients", HidesQueue: true, Do: func(s *Scene) {
		for range 1 + s.random.IntN(3) {
			s.do("CLIENT", "KILL", "TYPE", "normal")
			s.sleep(s.brief())
		}
	}},
	{Name: "killed-subscribers", Waiting: true, Do: func(s *Scene) {
		for range 1 + s.random.IntN(3) {
			s.do("CLIENT", "KILL", "TYPE", "pubsub")
			s.sleep(s.brief())
		}
	}},
	{Name: "client-pause-write", Do: func(s *Scene) { s.pauseClients("WRITE") }},
	{Name: "client-pause-all", Do: func(s *Scene) { s.pauseClients("ALL") }},
	{Name: "script-flush", Do: func(s *Scene) {
		for range 10 {
			s.do("SCRIPT", "FLUSH")
			s.sleep(s.brief() / 4)
		}
	}},
	{Name: "busy-script", Do: busy},
}

func (s *Scene) pauseServer(d time.Duration) {
	s.power.Lock()
	defer s.power.Unlock()
	s.server.Pause()
	s.struck()
	s.sleep(d)
	s.server.Resume()
}

func (s *Scene) pauseClients(which string) {
	d := s.aWhile()
	s.do("CLIENT", "PAUSE", d.Milliseconds(), which)
	s.sleep(d)
}

// restart kills the server, and starts it again after between has changed its data.
func (s *Scene) restart(between func()) {
	s.power.Lock()
	defer s.power.Unlock()
	s.server.Kill()
	s.struck()
	between()
	s.sleep(s.brief())
	s.server.Restart()
}

// busy runs a script until it is killed.
func busy(s *Scene) {
	c, err := resp.Dial(s.server.Addr(), time.Minute)
	if err != nil {
		return
	}
	defer c.Close()
	if err := c.Send("EVAL", "while true do end", 0); err != nil {
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = c.Receive()
	}()
	s.sleep(s.between(60*time.Millisecond, 150*time.Millisecond)) // after 50 ms the server says BUSY
	for {                                                         // the first script that is killed may be another one
		if killScript(s) {
			s.struck()
		}
		select {
		case <-ended:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// killScript may come before the script has begun, if clients are paused. A busy server then does not read from
// that connection any more, so each try has a connection of its own.
func killScript(s *Scene) bool {
	c, err := resp.Dial(s.server.Addr(), 100*time.Millisecond)
	if err != nil {
		return false
	}
	defer c.Close()
	_, err = c.Do("SCRIPT", "KILL")
	return err == nil
}

// settingKinds are faults that make servers refuse commands for a while, because of their settings or of what
// they lack.
var settingKinds = []*Kind{
	{Name: "out-of-memory", Slow: true, Do: func(s *Scene) { s.set(s.aWhile(), "maxmemory", "1", "0") }},
	{Name: "no-replicas", Do: func(s *Scene) { s.set(s.aWhile(), "min-replicas-to-write", "1", "0") }},
	// It becomes a replica of a port that refuses connections.
	{Name: "read-only", Do: func(s *Scene) {
		s.do("REPLICAOF", "127.0.0.1", "1")
		s.sleep(s.aWhile())
		s.undo("REPLICAOF", "NO", "ONE")
	}},
	{Name: "no-publishing", Waiting: true, Mutes: true, Slow: true, Do: func(s *Scene) { s.deny("-publish", "+publish") }},
	{Name: "no-channels", Waiting: true, Mutes: true, Slow: true, Do: func(s *Scene) { s.deny("resetchannels", "allchannels") }},
}

func (s *Scene) deny(rule, usual string) {
	s.do("ACL", "SETUSER", "default", rule)
	s.sleep(min(s.aWhile(), 200*time.Millisecond))
	s.undo("ACL", "SETUSER", "default", usual)
}

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
	// allkeys-lru also evicts the fence counter, which has no expiry.
	{Name: "eviction", ForgetsFences: true, Breaks: OwnKeys, HidesQueue: true, Slow: true, Do: func(s *Scene) {
		s.undo("CONFIG", "SET", "maxmemory-policy", []string{"volatile-random", "allkeys-lru"}[s.random.IntN(2)])
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

// networkKinds are faults of the network, between one process and the server or between all and the server.
var networkKinds = []*Kind{
	{Name: "lost-reply", Do: func(s *Scene) {
		for range 1 + s.random.IntN(3) {
			s.link().LoseReply(s.request(), s.after())
		}
	}},
	{Name: "lost-request", Do: func(s *Scene) {
		for range 1 + s.random.IntN(3) {
			s.link().Hold(s.request(), s.after())
		}
	}},
	// A copy of an acquire may arrive after the original was answered and the lock was released. It then takes
	// the lock for nobody, since the server cannot tell a copy from a new request.
	{Name: "doubled-request", Orphans: true, Slow: true, Do: func(s *Scene) {
		for range 1 + s.random.IntN(5) {
			s.link().Double(s.request())
		}
	}},
	// The client asks again on another connection; then the first copy arrives.
	{Name: "late-copy", Do: func(s *Scene) {
		held := s.link().Hold(s.request(), s.after())
		s.sleep(s.plan.CommandTimeout + s.aWhile())
		go func() {
			h := harness.New() // for failures that do not matter: nothing was held, or the history has ended
			h.Guard(func() { held.Forward(h) })
		}()
	}},
	{Name: "delayed-replies", Do: func(s *Scene) { s.delay(s.brief(), (*proxy.Proxy).DelayReplies) }},
	{Name: "late-replies", Do: func(s *Scene) { s.delay(s.past(), (*proxy.Proxy).DelayReplies) }},
	{Name: "delayed-requests", Do: func(s *Scene) { s.delay(s.aWhile(), (*proxy.Proxy).DelayRequests) }},
	{Name: "slow-network", Do: func(s *Scene) {
		for _, p := range s.links() {
			p.DelayRequests(s.between(time.Millisecond, 8*time.Millisecond))
			p.DelayReplies(s.between(time.Millisecond, 8*time.Millisecond))
		}
		s.struck()
		s.sleep(4 * s.aWhile())
		for _, p := range s.proxies {
			p.DelayRequests(0)
			p.DelayReplies(0)
		}
	}},
	{Name: "swallowed-replies", Mutes: true, Slow: true, Do: func(s *Scene) {
		s.during(s.aWhile(), (*proxy.Proxy).SwallowReplies)
	}},
	{Name: "refused-connections", Do: func(s *Scene) {
		s.during(s.aWhile(), func(p *proxy.Proxy, on bool) {
			p.Refuse(on)
			if on {
				p.Cut()
			}
		})
	}},
	{Name: "cut-connections", Do: func(s *Scene) {
		for range 1 + s.random.IntN(3) {
			s.link().Cut()
			s.struck()
			s.sleep(s.brief())
		}
	}},
	{Name: "cut-subscriptions", Waiting: true, Do: func(s *Scene) {
		for _, p := range s.links() {
			p.CutSubscriptions()
		}
		s.struck()
	}},
	// The server still counts the subscribers as receivers.
	{Name: "deaf-subscriptions", Waiting: true, Mutes: true, Slow: true, Do: func(s *Scene) { s.during(s.aWhile(), (*proxy.Proxy).Deafen) }},
}

func (s *Scene) during(d time.Duration, do func(p *proxy.Proxy, on bool)) {
	links := s.links()
	for _, p := range links {
		do(p, true)
	}
	s.struck()
	s.sleep(d)
	for _, p := range links {
		do(p, false)
	}
}

func (s *Scene) delay(d time.Duration, set func(*proxy.Proxy, time.Duration)) {
	s.during(s.aWhile(), func(p *proxy.Proxy, on bool) {
		if !on {
			d = 0
		}
		set(p, d)
	})
}

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
