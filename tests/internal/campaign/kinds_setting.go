package campaign

import "time"

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
