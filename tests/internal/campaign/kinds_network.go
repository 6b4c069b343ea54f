package campaign

import (
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/harness"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
)

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
