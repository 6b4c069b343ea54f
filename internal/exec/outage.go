package exec

import (
	"sync"
	"sync/atomic"
	"time"
)

// outage notices that the server stops answering, and that it answers again. An error that the server sends is an answer,
// too. A connection that breaks while others are answered, or is replaced at once, is no outage.
type outage struct {
	answers atomic.Int64 // so many requests were answered
	silent  atomic.Bool  // a request failed unanswered, and none has been answered since

	mu      sync.Mutex
	since   time.Time // when that request was sent
	lost    bool      // Config.Lost was called, and Config.Found was not called since
	news    []func()  // calls of Config.Lost and Found that are to be made
	telling bool      // a goroutine makes them
}

// try is when a request was sent, and how many had been answered by then.
type try struct {
	sent   time.Time
	before int64
}

// trying notes that a request is being sent.
func (s *Server) trying() try { return try{time.Now(), s.outage.answers.Load()} }

// tried notes what became of it.
func (s *Server) tried(t try, err error) {
	if err != nil {
		if fate, kind := Classify(err); fate != Refused && kind == ErrUnavailable {
			s.unanswered(t, err)
			return
		}
	}
	o := &s.outage
	o.answers.Add(1)
	if !o.silent.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.silent.Store(false)
	if o.lost {
		o.lost = false
		down := time.Since(o.since)
		s.tell(func() { s.cfg.Found(down) })
	}
}

// unanswered notes that a request was not answered. The server is lost if it has answered nothing else for a while.
func (s *Server) unanswered(t try, err error) {
	if s.cfg.Lost == nil || s.isClosing() {
		return
	}
	o := &s.outage
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.silent.Load() {
		o.since = t.sent
		o.silent.Store(true)
		if o.answers.Load() != t.before {
			o.silent.Store(false)
			return
		}
	}
	// mutants: once-per-outage
	if o.lost || !s.IsSilent(o.since) {
		return
	}
	o.lost = true
	s.tell(func() { s.cfg.Lost(told(err)) })
}

// tell makes a call, in the background, after those of before. Guarded by outage.mu.
func (s *Server) tell(news func()) {
	o := &s.outage
	o.news = append(o.news, news)
	if o.telling {
		return
	}
	o.telling = true
	s.cfg.Tasks.Run(func() {
		for {
			o.mu.Lock()
			if len(o.news) == 0 {
				o.telling = false
				o.mu.Unlock()
				return
			}
			next := o.news[0]
			o.news = o.news[1:]
			o.mu.Unlock()
			next()
		}
	})
}
