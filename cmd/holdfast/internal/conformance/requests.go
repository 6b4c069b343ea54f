package conformance

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/script"
)

// warm loads the scripts that a client may send, and starts one that has acquired and released the lock once. If the server did not
// know a script, it would answer NOSCRIPT, and if that reply were lost, the script would not run.
func (t *trial) warm() (*client, error) {
	for _, s := range []script.Script{script.Acquire(), script.Release(), script.BatchRelease(), script.Renew(), script.BatchRenew()} {
		if err := t.rdb.ScriptLoad(t.ctx, s.Source).Err(); err != nil {
			return nil, problemf("SCRIPT LOAD: %v", err)
		}
	}
	c, err := t.start()
	if err == nil {
		_, err = c.try(long)
	}
	if err == nil {
		err = c.must("released", "release")
	}
	return c, err
}

// replyDelay is much shorter than the 2 s after which a client gives up a request, because a new connection may need several replies.
const replyDelay = 500 * time.Millisecond

// countsFromRequest delays the reply that grants the lock, and loses the reply to a renewal. The client's lease ends at the deadline
// that counts from its first request: when the lock would have expired, less the drift. Then the client must release the lock, which
// the renewal has extended.
func countsFromRequest(t *trial) error {
	c, err := t.warm()
	if err != nil {
		return err
	}
	t.note("the network", "delays replies")
	t.network.DelayReplies(replyDelay)
	if _, err := c.try(lasting); err != nil {
		return err
	}
	pttl, err := t.rdb.PTTL(t.ctx, t.key).Result()
	if err != nil {
		return problemf("the expiry of %s: %v", t.key, err)
	}
	expiry := time.Now().Add(pttl)
	t.network.DelayReplies(0)
	t.note("the network", "loses replies, beginning with that to the next request")
	t.network.loseReplies()
	const leeway = 10 * time.Millisecond // PTTL is in whole ms, and its reply takes a while
	if err := t.pause(time.Until(expiry.Add(-lasting/100 + leeway))); err != nil {
		return err
	}
	if err := c.must("no", "holds"); err != nil {
		return err
	}
	t.network.set(nil)
	t.network.SwallowReplies(false)
	t.network.Cut() // otherwise the next reply would answer an earlier request
	t.note("the network", "has cut the connections, and works")
	var left time.Duration // at the latest look
	looks := 0
	if err := t.until("a free lock", func() (bool, error) {
		pttl, err := t.rdb.PTTL(t.ctx, t.key).Result()
		if pttl < 0 || err != nil {
			return err == nil, err
		}
		left = pttl
		looks++
		return looks == 1 && left < lasting/20, nil // no renewal arrived: the lock is about to expire
	}); err != nil {
		return err
	}
	if looks > 1 && left < time.Second {
		return problemf("%s did not release the lock when its lease had ended: the lock was held until it expired", c.who)
	}
	return nil
}

func losesReply(t *trial) error {
	c, err := t.warm()
	if err != nil {
		return err
	}
	t.note("the network", "loses replies")
	t.network.SwallowReplies(true)
	if err := c.tell("try %d", short.Milliseconds()); err != nil {
		return err
	}
	err = t.until("a request to acquire the lock", func() (bool, error) {
		n, err := t.rdb.Exists(t.ctx, t.key).Result()
		return n == 1, err
	})
	text, _ := t.rdb.Get(t.ctx, t.key).Result() // if it fails, so does what follows
	t.network.SwallowReplies(false)
	t.network.Cut()
	t.note("the network", "has cut the connections, and works")
	if err != nil {
		return err
	}
	answer, err := c.next("an answer to the try whose reply was lost")
	switch {
	case errors.As(err, new(*clientError)):
		// The client does not know whether it has the lock. Either way, the lock must become free.
	case err != nil:
		return err
	case answer == "held":
		return problemf("the client takes its own lock for another's: nobody else asked for it")
	default:
		fence, err := c.grantedBy(answer)
		if err != nil {
			return err
		}
		token, inValue, _, err := t.held()
		switch {
		case err != nil:
			return err
		case isFresh(text) && strings.HasPrefix(text, "hf2:"+token+":"):
			return problemf("the client goes on with a token of the free path that went unanswered")
		case inValue != fence && inValue != 0:
			return problemf("the client says that its fence is %d; the lock's value has %d", fence, inValue)
		}
		if err := c.must("released", "release"); err != nil {
			return err
		}
	}
	return t.until("a free lock", func() (bool, error) {
		n, err := t.rdb.Exists(t.ctx, t.key).Result()
		return n == 0, err
	})
}

// isFresh reports whether that is the value of a lock that was set on the free path.
func isFresh(text string) bool {
	parts := value().FindStringSubmatch(text)
	return parts != nil && parts[2] == "0"
}

func refusesLateCopy(t *trial) error {
	c, err := t.warm()
	if err != nil {
		return err
	}
	kept := t.network.keep()
	t.note("the network", "keeps a request back")
	answer, err := c.ask("try %d", long.Milliseconds())
	gaveUp := errors.As(err, new(*clientError))
	if err != nil && !gaveUp {
		return err
	}
	var request []byte
	select {
	case request = <-kept:
	default:
		return problemf("%s answers %s without asking the server", c.who, printable.Word(answer, 200))
	}
	isNative := isTransaction(request)
	if gaveUp {
		// The client must release what the request may still acquire, on a connection that keeps nothing back.
		t.network.Cut()
		cut := time.Now()
		err = t.until("a release of the acquire that went unanswered", func() (bool, error) {
			if isNative { // which no tombstone stops
				return t.network.latest().After(cut), nil
			}
			n, err := t.rdb.ZCount(t.ctx, t.queue, "-inf", "(0").Result()
			return n > 0, err
		})
	} else if _, err = c.grantedBy(answer); err == nil {
		err = c.must("released", "release")
	}
	if err != nil {
		return err
	}
	if isNative {
		return t.deliverGhost(request)
	}
	if err := t.deliverLate(request, "after the release"); err != nil {
		return err
	}
	// The tombstone, if there is one, ends when the server no longer carries the request out.
	tombstones, err := t.rdb.ZRangeWithScores(t.ctx, t.queue, 0, 0).Result()
	if err != nil {
		return problemf("the queue: %v", err)
	}
	for _, z := range tombstones {
		now, err := t.now()
		if err != nil {
			return err
		}
		if err := t.pause(min(time.Duration(int64(-z.Score)-now)*time.Microsecond+10*time.Millisecond, t.cfg.Answer)); err != nil {
			return err
		}
	}
	return t.deliverLate(request, "after the tombstone's end")
}

// deliverLate delivers an acquire that was kept back. It must not take the lock.
func (t *trial) deliverLate(request []byte, when string) error {
	t.note("the network", "delivers the request, "+when)
	if err := t.network.deliver(t.ctx, request); err != nil {
		return problemf("the network: %v", err)
	}
	if n, err := t.rdb.Exists(t.ctx, t.key).Result(); n != 0 || err != nil {
		return problemf("an acquire took the lock for a token that had ended: it went unanswered, and arrived %s (%v)", when, err)
	}
	return nil
}

// isTransaction reports whether a request acquires on the free path.
func isTransaction(request []byte) bool {
	return bytes.Contains(bytes.ToUpper(request), []byte("MULTI\r\n"))
}

// deliverGhost delivers a transaction of the free path that was kept back. It sets the lock for a token that has ended, and the client
// must go on releasing that.
func (t *trial) deliverGhost(request []byte) error {
	t.note("the network", "delivers the transaction")
	if err := t.network.deliver(t.ctx, request); err != nil {
		return problemf("the network: %v", err)
	}
	for began := time.Now(); time.Since(began) < soon; {
		if n, err := t.rdb.Exists(t.ctx, t.key).Result(); n == 0 && err == nil {
			return nil
		}
		if err := t.pause(20 * time.Millisecond); err != nil {
			return err
		}
	}
	return problemf("an acquire keeps the lock for a token that has ended: it went unanswered, arrived late, and is not released within %s", soon)
}

func givesUp(t *trial) error {
	lease, err := t.acquire()
	if err != nil {
		return err
	}
	c, err := t.start()
	if err != nil {
		return err
	}
	// A client whose time ends while it waits for a reply may answer error.
	if err := c.must("held", "acquire %d %d", long.Milliseconds(), 2000); err != nil && !errors.As(err, new(*clientError)) {
		return err
	}
	if err := t.waiting(0); err != nil {
		return err
	}
	if err := t.release(lease); err != nil {
		return err
	}
	_, err = c.try(long)
	return err
}
