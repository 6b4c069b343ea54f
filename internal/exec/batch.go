package exec

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Batch is one call for n items. Its reply says which of them it leaves undone.
type Batch struct {
	N          int
	Slot       uint16 // as in Request
	Script     driver.Script
	Keys, Args []string
	Urgent     bool
	Value      string // if DELIFEQ of the only key, with this value, does the same as the script; else ""

	Word     string          // with which its reply begins
	Timeless bool            // the reply does not have the time
	Numbers  int             // that follow, before those of the items that it leaves: 1 or none
	Refusals map[string]bool // words of replies that refuse all items alike; or nil
	Patience time.Duration   // with which the callers wait, if it may be longer than CommandTimeout
}

// Outcomes are what became of a batch.
type Outcomes struct {
	Sent    clock.Instant
	Heard   clock.Instant // if it was answered, and the reply has the time
	Now     int64         // that time, by the server's clock, µs
	Number  int64
	Refusal wire.Reply // of all items; or its zero value
	Err     error      // nothing else is known then

	left []int // in ascending order
}

// Done reports whether item i was done. It is called for all items in turn.
func (o *Outcomes) Done(i int) bool {
	if o.Err != nil || o.Refusal.Word != "" {
		return false
	}
	if len(o.left) > 0 && o.left[0] == i {
		// mutants: next-left
		o.left = o.left[1:]
		return false
	}
	return true
}

// MayBeDone reports whether a batch that failed so may have been carried out, or may still be, for some of its items.
func MayBeDone(err error) bool {
	fate, _ := Classify(err)
	return fate == Unknown
}

// SendAll sends one batch of all items, or, in Cluster mode, where a script can touch one slot only, a batch of each.
func SendAll[T any](s *Server, all []T, compose func([]T) Batch, tell func([]T, Outcomes)) (answered bool) {
	if len(all) == 1 || !s.InCluster() {
		return s.sendBatch(compose(all), func(o Outcomes) { tell(all, o) })
	}
	batches := make([]Batch, len(all))
	for i := range all {
		batches[i] = compose(all[i : i+1])
	}
	return s.sendApart(batches, func(i int, o Outcomes) { tell(all[i:i+1], o) })
}

// sendBatch sends a batch once, and tells once what became of it: its answer, or that it was given up after
// CommandTimeout, even if the driver does not return then.
func (s *Server) sendBatch(b Batch, tell func(Outcomes)) (answered bool) {
	work, cancel := context.WithTimeout(context.Background(), max(s.cfg.CommandTimeout, b.Patience))
	defer cancel()
	sent := clock.Now()
	inTime := context.AfterFunc(work, func() { tell(Outcomes{Sent: sent, Err: work.Err()}) })
	text, err := s.runBatch(work, b)
	if !inTime() {
		return false
	}
	o := Outcomes{Sent: sent, Err: err}
	if err == nil {
		o.Err = s.parseBatch(b, text, &o)
	}
	tell(o)
	return err == nil
}

// sendApart sends batches for one server of a Cluster together, and tells of each what sendBatch does.
func (s *Server) sendApart(all []Batch, tell func(i int, o Outcomes)) (answered bool) {
	work, cancel := context.WithTimeout(context.Background(), s.cfg.CommandTimeout)
	defer cancel()
	calls := make([]driver.Call, len(all))
	for i, b := range all {
		calls[i] = b.call()
		if b.Value != "" {
			calls[i] = b.command()
		}
	}
	told := make([]atomic.Bool, len(all))
	var failed atomic.Bool
	sent := clock.Now()
	stop := context.AfterFunc(work, func() {
		for i := range all {
			if !told[i].Swap(true) {
				tell(i, Outcomes{Sent: sent, Err: work.Err()})
			}
		}
	})
	defer stop()
	conclude := func(i int, text string, err error) {
		if err != nil {
			failed.Store(true)
		}
		if told[i].Swap(true) {
			return
		}
		o := Outcomes{Sent: sent, Err: err}
		if err == nil {
			o.Err = s.parseBatch(all[i], text, &o)
		}
		tell(i, o)
	}
	var mu sync.Mutex // guards scripted
	var scripted []int
	s.runAll(work, calls, func(i int, text string, err error) {
		if all[i].Value != "" {
			if isLacking(err) {
				mu.Lock()
				defer mu.Unlock()
				scripted = append(scripted, i)
				return
			}
			text = deleted(text)
		}
		conclude(i, text, err)
	})
	if len(scripted) > 0 {
		s.native.Store(false)
		calls = nil
		for _, i := range scripted {
			calls = append(calls, all[i].call())
		}
		s.runAll(work, calls, func(n int, text string, err error) { conclude(scripted[n], text, err) })
	}
	return !failed.Load()
}

// call returns the batch's script.
func (b *Batch) call() driver.Call {
	return driver.Call{Script: b.Script, Keys: b.Keys, Args: b.Args, Urgent: b.Urgent}
}

// command returns what does the same, if the batch has a value.
func (b *Batch) command() driver.Call {
	return driver.Call{Script: script.DeleteIfEqual, Keys: b.Keys, Args: []string{b.Value}, Urgent: b.Urgent}
}

// deleted returns what a script would reply in place of the command.
func deleted(reply string) string {
	switch reply {
	case "1":
		return "freed"
	case "0":
		return "freed 1"
	}
	return reply
}

// runBatch sends a batch, and returns what its script replies. A batch whose command is refused because the server does
// not have it, or not for this user, goes by the script, and so do all after it.
func (s *Server) runBatch(ctx context.Context, b Batch) (string, error) {
	if b.Value != "" {
		reply, err := s.driver.Run(ctx, b.command())
		if !isLacking(err) {
			return deleted(reply), err
		}
		s.native.Store(false)
	}
	return s.driver.Run(ctx, b.call())
}

// HasDeleteIfEqual reports whether the server has DELIFEQ, as far as is known.
func (s *Server) HasDeleteIfEqual() bool { return s.native.Load() }

// isLacking reports whether an error says that a command cannot be used, now or later. An error of a server or a proxy
// that is of no known kind is taken for that.
func isLacking(err error) bool {
	if err == nil {
		return false
	}
	if fate, kind := Classify(err); fate == Refused {
		return kind == nil || kind == ErrPermission || kind == ErrUnsupported
	}
	return false
}

func (s *Server) parseBatch(b Batch, text string, o *Outcomes) error {
	parse := wire.ParseReply
	if b.Timeless {
		parse = wire.ParseTimeless
	}
	r, err := parse(text)
	if err != nil {
		return err
	}
	if b.Timeless {
		s.RTT.observe(clock.Mono().Sub(o.Sent.Mono))
	} else {
		o.Heard, o.Now = clock.Now(), r.Now
		s.RTT.observe(o.Heard.Mono.Sub(o.Sent.Mono))
		s.clocks.heard(b.Slot, o.Sent, r.Now)
	}
	if b.Refusals[r.Word] {
		o.Refusal = r
		return nil
	}
	if b.Numbers > 0 {
		err = r.Ints(&o.Number)
	}
	if err == nil {
		o.left, err = r.Left(b.N)
	}
	if err != nil || r.Word != b.Word || o.Number < 0 {
		return wire.ErrMalformed
	}
	return nil
}

// runAll runs calls that go to one server: together, if the driver can do that.
func (s *Server) runAll(ctx context.Context, calls []driver.Call, tell func(i int, reply string, err error)) {
	if d, ok := s.driver.(driver.Batcher); ok {
		d.RunAll(ctx, calls, tell)
		return
	}
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() {
			reply, err := s.driver.Run(ctx, call)
			tell(i, reply, err)
		})
	}
	all.Wait()
}

// Node names the server of a Cluster that has a key; "" if that is not known.
func (s *Server) Node(key string) string {
	if d, ok := s.driver.(driver.Cluster); ok {
		return d.Node(key)
	}
	return ""
}

// Width returns how many calls the driver can have under way at once without one waiting for another; 0 if it does not
// say.
func (s *Server) Width() int {
	if d, ok := s.driver.(driver.Wide); ok {
		return d.Width()
	}
	return 0
}
