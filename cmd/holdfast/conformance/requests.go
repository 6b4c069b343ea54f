package main

import (
	"bytes"
	"time"

	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/script"
)

// The scenarios in this file are about requests and replies that are late or lost.

// warm loads the scripts that a client may send, starts a client, and makes it acquire and release the lock once. If the server did not
// know a script, it would reply NOSCRIPT; if that reply were lost, the script would never run.
func (t *trial) warm() *client {
	for _, s := range []script.Script{script.Acquire(), script.Release(), script.BatchRelease(), script.Renew(), script.BatchRenew()} {
		reply(t.rdb.ScriptLoad(t.ctx, s.Source))
	}
	c := t.start()
	c.try(long)
	c.release()
	return c
}

// mend ends the loss of replies. It cuts the connections, on which the next reply would otherwise answer an earlier request.
func (t *trial) mend() {
	t.network.set(nil)
	t.network.SwallowReplies(false)
	t.network.Cut()
	t.note("the network", "has cut the connections, and works")
}

// isFreed waits until the lock is free.
func (t *trial) isFreed() { t.until("a free lock", func() bool { return !t.exists() }) }

// replyDelay is much shorter than the 2 s after which a client gives up on a request, because a new connection may need several replies.
const replyDelay = 500 * time.Millisecond

// countsFromRequest delays the reply that grants the lock, and loses the reply to a renewal. The client's lease must end when the lock,
// without the renewal, would have expired, less the drift: the deadline counts from the first request. Then the client must release the
// lock, which the renewal has extended.
func countsFromRequest(t *trial) {
	c := t.warm()
	t.note("the network", "delays replies")
	t.network.DelayReplies(replyDelay)
	c.try(lasting)
	expiry := reply(t.rdb.PTTL(t.ctx, t.key))
	expires := time.Now().Add(expiry)
	t.network.DelayReplies(0)
	t.note("the network", "loses replies, beginning with that to the next request")
	t.network.loseReplies()
	const leeway = 10 * time.Millisecond // PTTL is in whole ms, and its reply takes a while
	t.pause(time.Until(expires.Add(-lasting/100 + leeway)))
	c.must("no", "holds")
	t.mend()
	var left time.Duration // until the lock expires, at the latest look
	looks := 0
	t.until("a free lock", func() bool {
		pttl := reply(t.rdb.PTTL(t.ctx, t.key))
		if pttl < 0 {
			return true
		}
		left = pttl
		looks++
		return looks == 1 && left < lasting/20 // no renewal arrived: the lock is about to expire
	})
	if looks > 1 && left < time.Second {
		failf("%s did not release the lock when its lease had ended: the lock was held until it expired", c.who)
	}
}

func losesReply(t *trial) {
	c := t.warm()
	t.note("the network", "loses replies")
	t.network.SwallowReplies(true)
	c.tell("try %d", short.Milliseconds())
	unasked := caught(func() { t.until("a request to acquire the lock", t.exists) })
	text, _ := t.rdb.Get(t.ctx, t.key).Result() // if this fails, so do the requests below
	t.mend()
	check(unasked)
	answer, isError := c.hear(t.answer, "an answer to the try whose reply was lost")
	switch {
	case isError:
		// The client does not know whether it has the lock. Either way, the lock must become free.
	case answer == "held":
		failf("the client takes its own lock for another's: nobody else asked for it")
	default:
		fence := c.grantedBy(answer)
		token, inValue, _ := t.held()
		switch parts := value.FindStringSubmatch(text); {
		case parts != nil && parts[1] == token && parts[2] == "0":
			failf("the client goes on with a token of the free path that went unanswered")
		case inValue != fence && inValue != 0:
			failf("the client says that its fence is %d; the lock's value has %d", fence, inValue)
		}
		c.release()
	}
	t.isFreed()
}

func refusesLateCopy(t *trial) {
	c := t.warm()
	kept := t.network.keep()
	t.note("the network", "keeps a request back")
	c.tell("try %d", longMs)
	answer, gaveUp := c.hear(t.answer, "an answer to the try whose request was kept back")
	var request []byte
	select {
	case request = <-kept:
	default:
		failf("%s answers %s without asking the server", c.who, printable.Word(answer, 200))
	}
	isNative := bytes.Contains(bytes.ToUpper(request), []byte("MULTI\r\n")) // it acquires on the free path
	if gaveUp {
		// The client must release what the request may still acquire, on a connection that keeps nothing back.
		t.network.Cut()
		cut := time.Now()
		t.until("a release of the acquire that went unanswered", func() bool {
			if isNative { // no tombstone stops a transaction
				return t.network.latest().After(cut)
			}
			return reply(t.rdb.ZCount(t.ctx, t.queue, "-inf", "(0")) > 0
		})
	} else {
		c.grantedBy(answer)
		c.release()
	}
	if isNative {
		t.deliverGhost(request)
		return
	}
	t.deliverLate(request, "after the release")
	// A tombstone, if there is one, lasts until the server no longer executes the request.
	for _, z := range reply(t.rdb.ZRangeWithScores(t.ctx, t.queue, 0, 0)) {
		t.pause(min(time.Duration(int64(-z.Score)-t.now())*time.Microsecond+10*time.Millisecond, t.answer))
	}
	t.deliverLate(request, "after the tombstone's end")
}

// deliverLate delivers an acquire that was kept back. The acquire must not take the lock.
func (t *trial) deliverLate(request []byte, when string) {
	t.note("the network", "delivers the request, "+when)
	check(t.network.deliver(t.ctx, request))
	if t.exists() {
		failf("an acquire took the lock for a token that had ended: it went unanswered, and arrived %s", when)
	}
}

// deliverGhost delivers a transaction of the free path that was kept back. The transaction acquires the lock for a token that has ended, so
// the client must have kept trying to release that token.
func (t *trial) deliverGhost(request []byte) {
	t.note("the network", "delivers the transaction")
	check(t.network.deliver(t.ctx, request))
	for began := time.Now(); t.exists(); t.pause(20 * time.Millisecond) {
		if time.Since(began) > soon {
			failf("an acquire keeps the lock for a token that has ended: it went unanswered, arrived late, and is not released within %s", soon)
		}
	}
}

func givesUp(t *trial) {
	lease := t.acquire()
	c := t.start()
	c.tell("acquire %d %d", longMs, 2000)
	// A client whose time ends while it waits for a reply may answer error.
	if got, isError := c.hear(t.answer, "held"); got != "held" && !isError {
		failf("%s answers %s to an acquire whose time is up, and not held", c.who, printable.Word(got, 200))
	}
	t.waiting(0)
	t.release(lease)
	c.try(long)
}
