package conformance

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/script"
)

// warm starts a client that has had the lock once, undisturbed. The server knows all its scripts: one that is not known is not
// carried out if the reply that says so is lost.
func (t *trial) warm() (*client, error) {
	for _, s := range []script.Script{script.Renew(), script.BatchRenew()} {
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

// replyDelay is much less than the 2 s after which a sending is given up: a new connection may need several replies.
const replyDelay = 500 * time.Millisecond

// countsFromRequest grants the lock by a slow reply, and carries out a renewal whose reply is lost. So the client believes in
// its lease until the deadline of the first request, and has to release what the renewal got.
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
	t.network.DelayReplies(0)
	t.note("the network", "loses replies, from that to the next request on")
	t.network.loseReplies()
	if err := t.pause(time.Until(t.network.latest().Add(lasting - lasting/100 - 2*time.Millisecond))); err != nil {
		return err
	}
	if err := c.must("no", "holds"); err != nil {
		return err
	}
	t.network.set(nil)
	t.network.SwallowReplies(false)
	t.network.Cut() // else the next reply would answer the first request without one
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
		return looks == 1 && left < lasting/10, nil // no renewal arrived, so there is hardly anything to release
	}); err != nil {
		return err
	}
	if looks > 1 && left < time.Second {
		return problemf("%s did not release a lease that was over: the lock was held until it expired", c.who)
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
	t.network.SwallowReplies(false)
	t.network.Cut()
	t.note("the network", "has cut the connections, and works")
	if err != nil {
		return err
	}
	answer, err := c.next("an answer to the try whose reply was lost")
	switch {
	case errors.As(err, new(*clientError)):
		// It does not know. Whatever it got must end.
	case err != nil:
		return err
	case answer == "held":
		return problemf("the client takes its own lock for another's: nobody else asked for it")
	default:
		fence, err := c.grantedBy(answer)
		if err != nil {
			return err
		}
		if _, inValue, _, err := t.held(); err != nil || inValue != fence {
			return problemf("the client says that its fence is %d; the lock's value has %d (%v)", fence, inValue, err)
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

func refusesLateCopy(t *trial) error {
	c, err := t.warm()
	if err != nil {
		return err
	}
	kept := t.network.keep()
	t.note("the network", "keeps a request back")
	answer, err := c.ask("try %d", long.Milliseconds())
	switch {
	case errors.As(err, new(*clientError)):
		// It has to release what the request may bring yet, on a connection on which nothing was kept back.
		t.network.Cut()
		err = t.until("a tombstone of the acquire that went unanswered", func() (bool, error) {
			n, err := t.rdb.ZCount(t.ctx, t.queue, "-inf", "(0").Result()
			return n > 0, err
		})
	case err == nil:
		if _, err = c.grantedBy(answer); err == nil {
			err = c.must("released", "release")
		}
	}
	if err != nil {
		return err
	}
	var request []byte
	select {
	case request = <-kept:
	default:
		return problemf("%s answers %s, and did not ask the server", c.who, printable.Word(answer, 200))
	}
	if err := t.arrivesLate(request, "after the release"); err != nil {
		return err
	}
	// The tombstone, if there is one, ends with the time until which the server carries the request out.
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
	return t.arrivesLate(request, "after the tombstone's end")
}

// arrivesLate delivers an acquire that was kept back, which must not take the lock.
func (t *trial) arrivesLate(request []byte, when string) error {
	t.note("the network", "delivers the request, "+when)
	if err := t.network.deliver(t.ctx, request); err != nil {
		return problemf("the network: %v", err)
	}
	if n, err := t.rdb.Exists(t.ctx, t.key).Result(); n != 0 || err != nil {
		return problemf("an acquire took the lock for a token that had ended: it went unanswered, and arrived %s (%v)", when, err)
	}
	return nil
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
	// A client whose time is up while it waits for an answer may say error.
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
