package keeper

import (
	"encoding/gob"
	"slices"
	"sync"
)

// outbox sends messages in order. Its user never waits for the receiver, which may be stopped and read
// nothing: the job's deadline comes all the same.
type outbox[M any] struct {
	enc  *gob.Encoder
	over func(older, newer M) bool // reports whether newer makes older superfluous

	mu      sync.Mutex
	waiting []M
	closed  bool
	news    *sync.Cond
	sent    chan struct{} // closed when nothing more is sent
}

func newOutbox[M any](enc *gob.Encoder, over func(older, newer M) bool) *outbox[M] {
	o := &outbox[M]{enc: enc, over: over, sent: make(chan struct{})}
	o.news = sync.NewCond(&o.mu)
	go o.run()
	return o
}

func (o *outbox[M]) add(m M) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.waiting = append(slices.DeleteFunc(o.waiting, func(older M) bool { return o.over(older, m) }), m)
	o.news.Signal()
}

// close waits until everything was sent, or cannot be. What is added later is dropped.
func (o *outbox[M]) close() {
	o.mu.Lock()
	o.closed = true
	o.news.Signal()
	o.mu.Unlock()
	<-o.sent
}

func (o *outbox[M]) run() {
	defer close(o.sent)
	for {
		o.mu.Lock()
		for len(o.waiting) == 0 && !o.closed {
			o.news.Wait()
		}
		if len(o.waiting) == 0 {
			o.mu.Unlock()
			return
		}
		m := o.waiting[0]
		o.waiting = slices.Delete(o.waiting, 0, 1)
		o.mu.Unlock()
		// It fails when the other side is gone, which shows by the end of what comes from there.
		_ = o.enc.Encode(m)
	}
}
