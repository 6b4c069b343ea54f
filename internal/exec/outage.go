package exec

import (
	"sync"
	"sync/atomic"
	"time"
)

// outage detects when the server stops answering and when it answers again. An error sent by the server is an answer. It is no outage if
// one connection breaks while requests on others are answered, or if a broken connection is replaced at once.
type outage struct {
	answers atomic.Int64 // counts answered requests
	silent  atomic.Bool  // a request failed unanswered, and none has been answered since

	mu     sync.Mutex
	since  time.Time // when the request that set silent was sent
	lost   bool      // Config.Lost was called, and Config.Found has not been called since
	news   Limiter   // calls Config.Lost, Found and ClientClosed, one after another
	closed bool      // Config.ClientClosed was called
}

// try records when a request was sent, and how many requests had been answered by then.
type try struct {
	sent   time.Time
	before int64
}

// trying notes that a request is being sent.
func (s *Server) trying() try { return try{time.Now(), s.outage.answers.Load()} }

// tried notes the outcome of a request.
func (s *Server) tried(t try, err error) {
	o := &s.outage
	if err != nil {
		switch fate, kind := Classify(err); {
		case kind == ErrClientClosed:
			o.mu.Lock()
			defer o.mu.Unlock()
			if !o.closed && s.cfg.ClientClosed != nil && !s.isClosing() { // it is no outage of the server
				o.closed = true
				o.news.Run(s.cfg.ClientClosed)
			}
			return
		case fate != Refused && kind == ErrUnavailable:
			s.unanswered(t, err)
			return
		}
	}
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
		o.news.Run(func() { s.cfg.Found(down) })
	}
}

// unanswered notes that a request was not answered. The server is lost if it has answered no other request for a while.
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
	o.news.Run(func() { s.cfg.Lost(told(err)) })
}
