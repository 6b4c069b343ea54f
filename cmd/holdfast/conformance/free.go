package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/script"
)

// The scenarios in this file test the free path: clients that take it, and clients that meet locks acquired on it.

// The tokens with which the kit itself holds and waits.
const (
	holderToken = "conformanceHolderAAAAA"
	waiterToken = "conformanceWaiterAAAAA"
)

// set acquires the lock as the free path does, so that its value has no fence yet. It returns the fence of the grant.
func (t *trial) set() (fence uint64) {
	now := t.now()
	var is *redis.BoolCmd
	if _, err := t.rdb.TxPipelined(t.ctx, func(p redis.Pipeliner) error {
		is = p.SetNX(t.ctx, t.key, fmt.Sprintf(`hf2:%s:0:%d:0:{"o":"conformance"}`, holderToken, now/1000), long)
		return p.XAdd(t.ctx, &redis.XAddArgs{Stream: fences, MaxLen: 1, Approx: true, Values: []string{"g", ""}}).Err()
	}); err != nil || !is.Val() {
		failf("the transaction that sets the free lock: %t, %v", is.Val(), err)
	}
	t.note("another client", "has the lock, without a fence in its value")
	return t.lastFence()
}

// meetsYoungLock makes the client try a lock whose value has no fence yet, and then wait for it. The client must mark the value, so that
// the release hands the lock over to it.
func meetsYoungLock(t *trial) {
	fence := t.set()
	c := t.start()
	c.refused("try")
	c.tell("acquire %d", longMs)
	t.waiting(1)
	if got := reply(t.rdb.Get(t.ctx, t.key)); !strings.HasPrefix(got, "hf2:"+holderToken+":0:") || !strings.HasSuffix(got, "}+") {
		failf("the client waits, and the lock's value is %q: not the holder's, with a mark", got)
	}
	t.note("another client", "releases the lock")
	said := reply(t.rdb.Eval(t.ctx, script.Release().Source, []string{t.key, t.queue, fences}, "", holderToken, "", 0))
	if !strings.HasPrefix(fmt.Sprint(said), "released ") {
		failf("the other client's release: %s", said)
	}
	c.handedOver(fence)
	c.release()
}

// passesNoWaiter makes the client try a lock that is free while another client is queued for it, as after an expiry. The waiter must get
// the lock.
func passesNoWaiter(t *trial) {
	channel := "holdfast:c:" + t.name
	heard := t.rdb.Subscribe(t.ctx, channel)
	defer heard.Close()
	_, err := heard.Receive(t.ctx)
	check(err)
	c := t.start()
	member := strings.Join([]string{waiterToken, fmt.Sprint(longMs), channel, `{"o":"conformance"}`}, "\n")
	reply(t.rdb.ZAdd(t.ctx, t.queue, redis.Z{Score: float64(t.now()), Member: member}))
	t.note("another client", "waits for the lock, which is free")
	c.refused("try")
	select {
	case m := <-heard.Channel():
		if !strings.HasPrefix(m.Payload, "hf2 grant "+waiterToken+" ") {
			failf("the waiter is told %q, and not that it has the lock", m.Payload)
		}
	case <-time.After(t.answer):
		failf("the waiter is not told that it has the lock")
	case <-t.ctx.Done():
		check(context.Cause(t.ctx))
	}
	if token, _, _ := t.held(); token != waiterToken {
		failf("the lock has the token %s, and not that of the waiter", token)
	}
	reply(t.rdb.Del(t.ctx, t.key))
	c.try(long)
	c.release()
}

// promised is longer than a claim, and so longer than the time within which a waiter may have promised to look.
const promised = 2 * time.Second

// handsOver makes Holdfast wait while the client has the lock. The waiter leaves a mark in the lock's value, which the client's release
// must see in order to hand the lock over.
func handsOver(t *trial) {
	c := t.start()
	fence := c.try(long)
	done := make(chan error, 1)
	go func() {
		done <- caught(func() {
			ctx, cancel := context.WithTimeout(t.ctx, soon)
			defer cancel()
			lease, err := t.lock.Acquire(ctx)
			switch {
			case err != nil:
				failf("%s does not hand the lock over to a waiter of which the mark in its value tells: %v", c.who, err)
			case lease.Fence() <= fence:
				failf("the fence %d of a hand-over follows %d", lease.Fence(), fence)
			}
			t.release(lease)
		})
	}()
	t.waiting(1)
	// Let the time pass within which Holdfast has promised to look: that look would take a lock that was only freed, not handed over.
	t.pause(promised)
	c.release()
	check(<-done)
}
