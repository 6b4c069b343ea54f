package engine

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

// sendAll sends a batch of all, or, in a Cluster, where a script can touch one slot only, a batch of each.
func sendAll[T any](c *Client, all []T, compose func([]T) batch, tell func([]T, outcomes)) (answered bool) {
	if len(all) == 1 || !c.inCluster() {
		return c.sendBatch(compose(all), func(r outcomes) { tell(all, r) })
	}
	batches := make([]batch, len(all))
	for i := range all {
		batches[i] = compose(all[i : i+1])
	}
	return c.sendApart(batches, func(i int, r outcomes) { tell(all[i:i+1], r) })
}

// batch is a script for n locks, of which l is one.
type batch struct {
	l          *Lock
	n          int
	script     driver.Script
	keys, args []string
	urgent     bool
	value      string // of the lock, if DELIFEQ can do the same; else ""

	word     string        // with which its reply begins
	timeless bool          // the reply does not have the time
	numbers  int           // that follow, before those of the locks that it leaves: 1 or none
	node     bool          // the reply may be that a quorum's node grants nothing now
	patience time.Duration // with which the callers wait, if it may be longer than CommandTimeout
}

// outcomes are what became of a batch.
type outcomes struct {
	sent    clock.Instant
	heard   clock.Instant // if it was answered, and the reply has the time
	now     int64         // that time, by the server's clock, µs
	number  int64
	left    []int      // in ascending order
	refusal wire.Reply // of all, for the node's sake; or its zero value
	err     error      // nothing else is known then
}

// done reports whether it was done for a lock. It is asked for all of them in turn.
func (o *outcomes) done(i int) bool {
	if o.err != nil || o.refusal.Word != "" {
		return false
	}
	if len(o.left) > 0 && o.left[0] == i {
		// mutants: next-left
		o.left = o.left[1:]
		return false
	}
	return true
}

// mayBeDone reports whether a batch that failed so may have been carried out, or may still be, for
// some of its locks.
func mayBeDone(err error) bool {
	how, _ := classify(err)
	return how == unknown
}

// sendBatch sends a batch once, and tells once what became of it: what was answered, or that it was
// given up after CommandTimeout, even if the driver does not return then.
func (c *Client) sendBatch(b batch, tell func(outcomes)) (answered bool) {
	work, cancel := context.WithTimeout(context.Background(), max(c.cfg.CommandTimeout, b.patience))
	defer cancel()
	sent := clock.Now()
	inTime := context.AfterFunc(work, func() { tell(outcomes{sent: sent, err: work.Err()}) })
	text, err := c.runBatch(work, b)
	if !inTime() {
		return false
	}
	o := outcomes{sent: sent, err: err}
	if err == nil {
		o.err = c.parseBatch(b, text, &o)
	}
	tell(o)
	return err == nil
}

// sendApart sends batches for a server of a Cluster, and tells of each what sendBatch does.
func (c *Client) sendApart(all []batch, tell func(i int, o outcomes)) (answered bool) {
	work, cancel := context.WithTimeout(context.Background(), c.cfg.CommandTimeout)
	defer cancel()
	calls := make([]driver.Call, len(all))
	for i, b := range all {
		calls[i] = b.call()
		if b.value != "" {
			calls[i] = b.command()
		}
	}
	told := make([]atomic.Bool, len(all))
	var failed atomic.Bool
	sent := clock.Now()
	stop := context.AfterFunc(work, func() {
		for i := range all {
			if !told[i].Swap(true) {
				tell(i, outcomes{sent: sent, err: work.Err()})
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
		o := outcomes{sent: sent, err: err}
		if err == nil {
			o.err = c.parseBatch(all[i], text, &o)
		}
		tell(i, o)
	}
	var mu sync.Mutex // guards scripted
	var scripted []int
	c.runAll(work, calls, func(i int, text string, err error) {
		if all[i].value != "" {
			if lacking(err) {
				mu.Lock()
				defer mu.Unlock()
				scripted = append(scripted, i)
				return
			}
			text = freed(text)
		}
		conclude(i, text, err)
	})
	if len(scripted) > 0 {
		c.native.Store(false)
		calls = nil
		for _, i := range scripted {
			calls = append(calls, all[i].call())
		}
		c.runAll(work, calls, func(n int, text string, err error) { conclude(scripted[n], text, err) })
	}
	return !failed.Load()
}

// call is the batch's script.
func (b *batch) call() driver.Call {
	return driver.Call{Script: b.script, Keys: b.keys, Args: b.args, Urgent: b.urgent}
}

// command is what does the same, if it has a value.
func (b *batch) command() driver.Call {
	return driver.Call{Script: script.DeleteIfEqual, Keys: b.keys, Args: []string{b.value}, Urgent: b.urgent}
}

// freed is what a script would reply in place of the command.
func freed(reply string) string {
	switch reply {
	case "1":
		return "freed"
	case "0":
		return "freed 1"
	}
	return reply
}

// runBatch sends a batch, and returns what its script replies. A release whose command is refused because
// the server does not have it, or not for this user, goes by the script, and so do all after it.
func (c *Client) runBatch(ctx context.Context, b batch) (string, error) {
	if b.value != "" {
		call := b.command()
		reply, err := c.driver.Run(ctx, call)
		if !lacking(err) {
			return freed(reply), err
		}
		c.native.Store(false)
	}
	return c.driver.Run(ctx, b.call())
}

// lacking reports whether an error says that a command cannot be used, now or later. What a server or
// a proxy says that is not known here is taken for that.
func lacking(err error) bool {
	if err == nil {
		return false
	}
	if how, kind := classify(err); how == refused {
		return kind == nil || kind == ErrPermission || kind == ErrUnsupported
	}
	return false
}

func (c *Client) parseBatch(b batch, text string, o *outcomes) error {
	parse := wire.ParseReply
	if b.timeless {
		parse = wire.ParseTimeless
	}
	r, err := parse(text)
	if err != nil {
		return err
	}
	if b.timeless {
		c.rtt.observe(clock.Mono().Sub(o.sent.Mono))
	} else {
		o.heard, o.now = clock.Now(), r.Now
		c.rtt.observe(o.heard.Mono.Sub(o.sent.Mono))
		c.setClock(c.slot(b.l), o.sent, r.Now)
	}
	if b.node && (r.Word == "quarantined" || r.Word == "behind") {
		o.refusal = r
		return nil
	}
	if b.numbers > 0 {
		err = r.Ints(&o.number)
	}
	if err == nil {
		o.left, err = r.Left(b.n)
	}
	if err != nil || r.Word != b.word || o.number < 0 {
		return wire.ErrMalformed
	}
	return nil
}
