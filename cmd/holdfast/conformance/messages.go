package main

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// The scenarios in this file are about messages to a waiter that are late, forged or lost.

// A waiter that gets no message looks at the lock every 30 s. A waiter that may have missed a message looks sooner: at once, or after its
// subscription has been silent for 10 s.
const (
	soon          = 15 * time.Second
	afterSilence  = 22 * time.Second
	unconfirmed   = 900 * time.Millisecond // after 1 s, a waiter may enter the queue without a confirmed subscription
	confirmsAfter = 10 * time.Second
)

// messenger returns a function that sends a message to the only waiter, and the server's time in µs.
func (t *trial) messenger() (send func(kind, format string, args ...any), now int64) {
	members := reply(t.rdb.ZRangeArgs(t.ctx, redis.ZRangeArgs{Key: t.queue, Start: "0", Stop: "+inf", ByScore: true}))
	if len(members) != 1 {
		failf("the queue has %d waiters, and not the client alone", len(members))
	}
	lines := strings.Split(members[0], "\n")
	if len(lines) < 4 {
		failf("the queue has an entry of another form: %s", printable.Word(members[0], 300))
	}
	token, channel := lines[0], lines[2]
	return func(kind, format string, args ...any) {
		rest := " " + fmt.Sprintf(format, args...)
		t.note("a message", "hf2 "+kind+" TOKEN"+rest)
		reply(t.rdb.Publish(t.ctx, channel, "hf2 "+kind+" "+token+rest))
	}, t.now()
}

// ignoresLateGrant delays a waiter's grant until Holdfast has the lock.
func ignoresLateGrant(t *trial) {
	lease, c := t.behind()
	t.note("the network", "delivers nothing")
	heal := t.network.Partition()
	defer heal()
	t.release(lease)
	lease = t.acquire() // returns when the client's claim has ended
	t.note("the network", "delivers")
	heal()
	t.until("a place in the queue", func() bool {
		select {
		case line, is := <-c.lines:
			if !is {
				failf("%s has ended", c.who)
			}
			failf("%s says %s after a grant whose claim had ended; Holdfast has the lock", c.who, printable.Word(line, 200))
		default:
		}
		return t.status().Waiting == 1
	})
	t.release(lease)
	c.granted()
	c.release()
}

// ignoresForgedGrants sends grants with fences that no server would issue: one is too high, and one is below earlier fences.
func ignoresForgedGrants(t *trial) {
	lease, c := t.behind()
	send, now := t.messenger()
	for _, fence := range []int64{now + time.Hour.Microseconds(), 1} {
		send("grant", "%d %d %d %s", now, 1500, fence, t.key)
	}
	t.release(lease)
	fence := c.granted()
	if _, inValue, _ := t.held(); inValue != fence {
		failf("the client believes a forged message with fence %d; the lock's value has %d", fence, inValue)
	}
	c.release()
}

// looksWhenTold deletes the lock, which notifies nobody, and tells the waiter to look.
func looksWhenTold(t *trial) {
	_, c := t.behind()
	t.note("somebody", "deletes the lock")
	reply(t.rdb.Del(t.ctx, t.key))
	send, now := t.messenger()
	send("standby", "%d %d", now, now)
	c.grantedWithin(soon)
}

// losesSubscription hands the lock over to a waiter that gets no message, because its connections are cut or its subscription is silent.
func losesSubscription(t *trial) {
	for _, f := range []struct {
		what   string
		begin  func() (end func())
		within time.Duration
	}{
		{"cuts the connections, and delivers nothing", func() func() { heal := t.network.Partition(); t.network.Cut(); return heal }, soon},
		{"delivers nothing to subscriptions, and keeps their connections", func() func() { t.network.silence(); return func() {} }, afterSilence},
	} {
		lease, c := t.behind()
		t.note("the network", f.what)
		end := f.begin()
		failed := caught(func() { t.release(lease) })
		t.note("the network", "works")
		end()
		check(failed)
		c.grantedWithin(f.within)
		c.release()
	}
}

// subscribesFirst delays the confirmation of subscriptions. Until then the client must not enter the queue.
func subscribesFirst(t *trial) {
	lease := t.acquire()
	var confirmed atomic.Bool
	open := t.network.subscribing.Shut()
	confirm := func() { confirmed.Store(true); open() }
	defer confirm()
	// A client may wait for its subscription before it says that it is ready.
	defer time.AfterFunc(confirmsAfter, confirm).Stop()
	c := t.start()
	told := time.Now()
	c.tell("acquire %d", longMs)
	for time.Since(told) < unconfirmed {
		if n := reply(t.rdb.ZCard(t.ctx, t.queue)); n > 0 && time.Since(told) < unconfirmed && !confirmed.Load() {
			failf("%s is in the queue before its subscription is confirmed", c.who)
		}
		t.pause(10 * time.Millisecond)
	}
	confirm()
	t.waiting(1)
	t.release(lease)
	c.grantedWithin(soon)
}
