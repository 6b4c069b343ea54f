package keeper

import (
	"encoding/json"
	"slices"
	"sync"
)

// outbox sends messages in order. Adding a message never waits for the receiver, which may be stopped: the sender must stay able to act at
// the deadline.
type outbox[M any] struct {
	enc      *json.Encoder
	replaces func(older, newer M) bool // reports whether older need not be sent before newer

	mu      sync.Mutex
	waiting []M
	closed  bool
	changed *sync.Cond
	done    chan struct{} // closed when run has returned
}

func newOutbox[M any](enc *json.Encoder, replaces func(older, newer M) bool) *outbox[M] {
	o := &outbox[M]{enc: enc, replaces: replaces, done: make(chan struct{})}
	o.changed = sync.NewCond(&o.mu)
	go o.run()
	return o
}

func (o *outbox[M]) add(m M) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.waiting = append(slices.DeleteFunc(o.waiting, func(older M) bool { return o.replaces(older, m) }), m)
	o.changed.Signal()
}

// close waits until all messages have been sent, or have failed. Messages that are added later are dropped.
func (o *outbox[M]) close() {
	o.mu.Lock()
	o.closed = true
	o.changed.Signal()
	o.mu.Unlock()
	<-o.done
}

func (o *outbox[M]) run() {
	defer close(o.done)
	for {
		o.mu.Lock()
		for len(o.waiting) == 0 && !o.closed {
			o.changed.Wait()
		}
		if len(o.waiting) == 0 {
			o.mu.Unlock()
			return
		}
		m := o.waiting[0]
		o.waiting = slices.Delete(o.waiting, 0, 1)
		o.mu.Unlock()
		// Encode fails if the receiver has gone. The sender learns of that by the end of the receiver's messages.
		_ = o.enc.Encode(m)
	}
}
