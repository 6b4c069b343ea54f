package conformance

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// The scenarios of messages: what a waiter does if they come late, are forged, or do not come.

// A waiter that is not told anything looks 30 s after it has looked. One that notices that it may have missed something looks much
// sooner: at once, or after the 10 s of silence that a subscription may have.
const (
	soon          = 15 * time.Second
	afterSilence  = 22 * time.Second
	unconfirmed   = 900 * time.Millisecond // a waiter may enter the queue without a subscription after 1 s
	confirmsAfter = 10 * time.Second
)

// entry returns the token and the channel of the only waiter.
func (t *trial) entry() (token, channel string, err error) {
	members, err := t.rdb.ZRangeArgs(t.ctx, redis.ZRangeArgs{Key: t.queue, Start: "0", Stop: "+inf", ByScore: true}).Result()
	if err != nil {
		return "", "", problemf("the queue: %v", err)
	}
	if len(members) != 1 {
		return "", "", problemf("the queue has %d waiters, and not the client alone", len(members))
	}
	lines := strings.Split(members[0], "\n")
	if len(lines) < 4 {
		return "", "", problemf("the queue has an entry of another form: %s", printable.Word(members[0], 300))
	}
	return lines[0], lines[2], nil
}

// tells sends a message to a client: what follows its token.
func (t *trial) tells(channel, kind, token, format string, args ...any) error {
	text := "hf1 " + kind + " " + token + " " + fmt.Sprintf(format, args...)
	t.note("a message", strings.Replace(text, token, "TOKEN", 1))
	if err := t.rdb.Publish(t.ctx, channel, text).Err(); err != nil {
		return problemf("PUBLISH: %v", err)
	}
	return nil
}

// now returns the server's time, in µs.
func (t *trial) now() (int64, error) {
	now, err := t.rdb.Time(t.ctx).Result()
	if err != nil {
		return 0, problemf("the server's time: %v", err)
	}
	return now.UnixMicro(), nil
}

// grantArrivesLate keeps a grant from a waiter until another holder has the lock.
func grantArrivesLate(t *trial) error {
	lease, c, err := t.behind()
	if err != nil {
		return err
	}
	t.note("the network", "delivers nothing")
	heal := t.network.Partition()
	defer heal()
	if err := t.release(lease); err != nil {
		return err
	}
	lease, err = t.acquire() // once the client's claim has ended
	if err != nil {
		return err
	}
	t.note("the network", "delivers")
	heal()
	if err := t.until("a place in the queue", func() (bool, error) {
		select {
		case line, is := <-c.lines:
			if !is {
				return false, problemf("%s has ended", c.who)
			}
			return false, problemf("%s says %s of a grant whose claim had ended; Holdfast has the lock", c.who, printable.Word(line, 200))
		default:
		}
		s, err := t.lock.Status(t.ctx)
		return s.Waiting == 1, err
	}); err != nil {
		return err
	}
	if err := t.release(lease); err != nil {
		return err
	}
	if _, err := c.granted(); err != nil {
		return err
	}
	return c.must("released", "release")
}

// believesNoForgery sends grants with fences that no server gives: one too high, and one below those before.
func believesNoForgery(t *trial) error {
	lease, c, err := t.behind()
	if err != nil {
		return err
	}
	token, channel, err := t.entry()
	if err != nil {
		return err
	}
	now, err := t.now()
	if err != nil {
		return err
	}
	for _, fence := range []int64{now + time.Hour.Microseconds(), 1} {
		if err := t.tells(channel, "grant", token, "%d %d %d %s", now, 1500, fence, t.key); err != nil {
			return err
		}
	}
	if err := t.release(lease); err != nil {
		return err
	}
	fence, err := c.granted()
	if err != nil {
		return err
	}
	if _, inValue, _, err := t.held(); err != nil || inValue != fence {
		return problemf("the client believes a forged message, with the fence %d; the lock's value has %d (%v)", fence, inValue, err)
	}
	return c.must("released", "release")
}

// looksWhenTold frees the lock so that nobody is told, and tells a waiter to look.
func looksWhenTold(t *trial) error {
	_, c, err := t.behind()
	if err != nil {
		return err
	}
	token, channel, err := t.entry()
	if err != nil {
		return err
	}
	t.note("somebody", "deletes the lock")
	if err := t.rdb.Del(t.ctx, t.key).Err(); err != nil {
		return problemf("DEL: %v", err)
	}
	now, err := t.now()
	if err != nil {
		return err
	}
	if err := t.tells(channel, "standby", token, "%d %d", now, now); err != nil {
		return err
	}
	_, err = c.grantedWithin(soon)
	return err
}

// losesSubscription hands the lock over to a waiter that does not hear of it: its connections are cut, or its subscription is
// silent.
func losesSubscription(t *trial) error {
	for _, f := range []struct {
		what   string
		begin  func() (end func())
		within time.Duration
	}{
		{"cuts the connections, and delivers nothing", func() func() { heal := t.network.Partition(); t.network.Cut(); return heal }, soon},
		{"delivers nothing to subscriptions, whose connections stay", func() func() { t.network.silence(); return func() {} }, afterSilence},
	} {
		lease, c, err := t.behind()
		if err != nil {
			return err
		}
		t.note("the network", f.what)
		end := f.begin()
		err = t.release(lease)
		t.note("the network", "works")
		end()
		if err != nil {
			return err
		}
		if _, err := c.grantedWithin(f.within); err != nil {
			return err
		}
		if err := c.must("released", "release"); err != nil {
			return err
		}
	}
	return nil
}

// subscribesFirst lets no subscription be confirmed for a while.
func subscribesFirst(t *trial) error {
	lease, err := t.acquire()
	if err != nil {
		return err
	}
	var confirmed atomic.Bool
	open := t.network.subscribing.Shut()
	confirm := func() { confirmed.Store(true); open() }
	defer confirm()
	// A client may wait for its subscription before it says that it is ready.
	defer time.AfterFunc(confirmsAfter, confirm).Stop()
	c, err := t.start()
	if err != nil {
		return err
	}
	told := time.Now()
	if err := c.tell("acquire %d", long.Milliseconds()); err != nil {
		return err
	}
	for time.Since(told) < unconfirmed {
		n, err := t.rdb.ZCard(t.ctx, t.queue).Result()
		if err != nil {
			return problemf("the queue: %v", err)
		}
		if n > 0 && time.Since(told) < unconfirmed && !confirmed.Load() {
			return problemf("%s is in the queue before its subscription is confirmed", c.who)
		}
		if err := t.pause(10 * time.Millisecond); err != nil {
			return err
		}
	}
	confirm()
	if err := t.waiting(1); err != nil {
		return err
	}
	if err := t.release(lease); err != nil {
		return err
	}
	_, err = c.grantedWithin(soon)
	return err
}
