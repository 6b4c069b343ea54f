package conformance

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// These scenarios are about messages to a waiter that are late, forged or lost.

// A waiter that gets no message looks at the lock every 30 s. If it notices that it may have missed a message, it looks much sooner: at
// once, or after its subscription has been silent for 10 s.
const (
	soon          = 15 * time.Second
	afterSilence  = 22 * time.Second
	unconfirmed   = 900 * time.Millisecond // after 1 s a waiter may enter the queue without a subscription
	confirmsAfter = 10 * time.Second
)

// messenger returns a function that sends a message to the only waiter, and the server's time, in µs.
func (t *trial) messenger() (send func(kind, format string, args ...any) error, now int64, err error) {
	members, err := t.rdb.ZRangeArgs(t.ctx, redis.ZRangeArgs{Key: t.queue, Start: "0", Stop: "+inf", ByScore: true}).Result()
	if err != nil {
		return nil, 0, problemf("the queue: %v", err)
	}
	if len(members) != 1 {
		return nil, 0, problemf("the queue has %d waiters, and not the client alone", len(members))
	}
	lines := strings.Split(members[0], "\n")
	if len(lines) < 4 {
		return nil, 0, problemf("the queue has an entry of another form: %s", printable.Word(members[0], 300))
	}
	token, channel := lines[0], lines[2]
	now, err = t.now()
	return func(kind, format string, args ...any) error {
		rest := " " + fmt.Sprintf(format, args...)
		t.note("a message", "hf2 "+kind+" TOKEN"+rest)
		if err := t.rdb.Publish(t.ctx, channel, "hf2 "+kind+" "+token+rest).Err(); err != nil {
			return problemf("PUBLISH: %v", err)
		}
		return nil
	}, now, err
}

// now returns the server's time, in µs.
func (t *trial) now() (int64, error) {
	now, err := t.rdb.Time(t.ctx).Result()
	if err != nil {
		return 0, problemf("the server's time: %v", err)
	}
	return now.UnixMicro(), nil
}

// ignoresLateGrant delays a waiter's grant until Holdfast has the lock.
func ignoresLateGrant(t *trial) error {
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
			return false, problemf("%s says %s after a grant whose claim had ended; Holdfast has the lock", c.who, printable.Word(line, 200))
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

// ignoresForgedGrants sends grants with fences that no server gives: one is too high, and one is below earlier fences.
func ignoresForgedGrants(t *trial) error {
	lease, c, err := t.behind()
	if err != nil {
		return err
	}
	send, now, err := t.messenger()
	if err != nil {
		return err
	}
	for _, fence := range []int64{now + time.Hour.Microseconds(), 1} {
		if err := send("grant", "%d %d %d %s", now, 1500, fence, t.key); err != nil {
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
		return problemf("the client believes a forged message with fence %d; the lock's value has %d (%v)", fence, inValue, err)
	}
	return c.must("released", "release")
}

// looksWhenTold deletes the lock, which notifies nobody, and tells the waiter to look.
func looksWhenTold(t *trial) error {
	_, c, err := t.behind()
	if err != nil {
		return err
	}
	t.note("somebody", "deletes the lock")
	if err := t.rdb.Del(t.ctx, t.key).Err(); err != nil {
		return problemf("DEL: %v", err)
	}
	send, now, err := t.messenger()
	if err != nil {
		return err
	}
	if err := send("standby", "%d %d", now, now); err != nil {
		return err
	}
	_, err = c.grantedWithin(soon)
	return err
}

// losesSubscription hands the lock over to a waiter that gets no message, because its connections are cut or its subscription is
// silent.
func losesSubscription(t *trial) error {
	for _, f := range []struct {
		what   string
		begin  func() (end func())
		within time.Duration
	}{
		{"cuts the connections, and delivers nothing", func() func() { heal := t.network.Partition(); t.network.Cut(); return heal }, soon},
		{"delivers nothing to subscriptions, and keeps their connections", func() func() { t.network.silence(); return func() {} }, afterSilence},
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

// subscribesFirst delays the confirmation of subscriptions. Until then the client must not enter the queue.
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
