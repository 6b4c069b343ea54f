package campaign

import (
	"time"

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
