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

	mu      sync.Mutex
	since   time.Time // when the request that set silent was sent
	lost    bool      // Config.Lost was called, and Config.Found has not been called since
	news    []func()  // pending calls of Config.Lost, Found and ClientClosed
	telling bool      // a goroutine is calling them
	closed  bool      // Config.ClientClosed was called
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
	if err != nil {
		switch fate, kind := Classify(err); {
		case kind == ErrClientClosed:
			s.clientClosed()
			return
		case fate != Refused && kind == ErrUnavailable:
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
	s.tell(func() { s.cfg.Lost(told(err)) })
}

// clientClosed notes that the program has closed its Redis client, which is no outage of the server.
func (s *Server) clientClosed() {
	o := &s.outage
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || s.cfg.ClientClosed == nil || s.isClosing() {
		return
	}
	o.closed = true
	s.tell(s.cfg.ClientClosed)
}

// tell calls news in the background, after earlier calls. The caller holds outage.mu.
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
