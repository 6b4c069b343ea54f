package conformance

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/script"
)

// These scenarios test the free path: clients that take it, and clients that meet locks acquired on it.

// The tokens of a holder and of a waiter that the kit itself is.
const (
	holderToken = "conformanceHolderAAAAA"
	waiterToken = "conformanceWaiterAAAAA"
)

// set sets the lock as the free path does: its value has no fence yet. It returns the fence of the grant.
func (t *trial) set() (fence uint64, err error) {
	now, err := t.now()
	if err != nil {
		return 0, err
	}
	var is *redis.BoolCmd
	if _, err := t.rdb.TxPipelined(t.ctx, func(p redis.Pipeliner) error {
		is = p.SetNX(t.ctx, t.key, fmt.Sprintf(`hf2:%s:0:%d:0:{"o":"holdfast conformance"}`, holderToken, now/1000), long)
		return p.XAdd(t.ctx, &redis.XAddArgs{Stream: fences, MaxLen: 1, Approx: true, Values: []string{"g", ""}}).Err()
	}); err != nil || !is.Val() {
		return 0, problemf("the transaction that sets the free lock: %t, %v", is.Val(), err)
	}
	t.note("another client", "has the lock, without a fence in its value")
	return t.lastFence()
}

// meetsYoungLock lets the client meet a lock whose fence is not written yet: it is held, it is waited for under a mark, and its
// release hands it over.
func meetsYoungLock(t *trial) error {
	fence, err := t.set()
	if err != nil {
		return err
	}
	c, err := t.start()
	if err != nil {
		return err
	}
	if err := c.must("held", "try %d", long.Milliseconds()); err != nil {
		return err
	}
	if err := c.tell("acquire %d", long.Milliseconds()); err != nil {
		return err
	}
	if err := t.waiting(1); err != nil {
		return err
	}
	if got, err := t.rdb.Get(t.ctx, t.key).Result(); err != nil || !strings.HasPrefix(got, "hf2:"+holderToken+":0:") || !strings.HasSuffix(got, "}+") {
		return problemf("the client waits, and the lock's value is %q: not the holder's, with a mark (%v)", got, err)
	}
	t.note("another client", "releases the lock")
	if said, err := t.rdb.Eval(t.ctx, script.Release().Source, []string{t.key, t.queue, fences}, "", holderToken, "", 0).Text(); err != nil || !strings.HasPrefix(said, "released ") {
		return problemf("the other client's release: %s, %v", said, err)
	}
	next, err := c.granted()
	if err != nil {
		return err
	}
	if next <= fence {
		return problemf("the fence %d of a hand-over follows %d", next, fence)
	}
	return c.must("released", "release")
}

// passesNoWaiter lets the client ask for a lock that is free and awaited, as after an expiry. The waiter gets it.
func passesNoWaiter(t *trial) error {
	channel := "holdfast:c:" + t.name
	heard := t.rdb.Subscribe(t.ctx, channel)
	defer heard.Close()
	if _, err := heard.Receive(t.ctx); err != nil {
		return problemf("SUBSCRIBE: %v", err)
	}
	c, err := t.start()
	if err != nil {
		return err
	}
	now, err := t.now()
	if err != nil {
		return err
	}
	member := strings.Join([]string{waiterToken, fmt.Sprint(long.Milliseconds()), channel, `{"o":"holdfast conformance"}`}, "\n")
	if err := t.rdb.ZAdd(t.ctx, t.queue, redis.Z{Score: float64(now), Member: member}).Err(); err != nil {
		return problemf("ZADD: %v", err)
	}
	t.note("another client", "waits for the lock, which is free")
	if err := c.must("held", "try %d", long.Milliseconds()); err != nil {
		return err
	}
	select {
	case m := <-heard.Channel():
		if !strings.HasPrefix(m.Payload, "hf2 grant "+waiterToken+" ") {
			return problemf("the waiter is told %q, and not that it has the lock", m.Payload)
		}
	case <-time.After(t.cfg.Answer):
		return problemf("the waiter is not told that it has the lock")
	case <-t.ctx.Done():
		return t.ctx.Err()
	}
	if token, _, _, err := t.held(); err != nil || token != waiterToken {
		return problemf("the lock has the token %s, and not that of the waiter (%v)", token, err)
	}
	if err := t.rdb.Del(t.ctx, t.key).Err(); err != nil {
		return problemf("DEL: %v", err)
	}
	if _, err := c.try(long); err != nil {
		return err
	}
	return c.must("released", "release")
}

// handsOver lets Holdfast wait while the client has the lock. The client's release must see the mark, and hand the lock over.
func handsOver(t *trial) error {
	c, err := t.start()
	if err != nil {
		return err
	}
	fence, err := c.try(long)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.ctx, soon)
		defer cancel()
		lease, err := t.lock.Acquire(ctx)
		switch {
		case err != nil:
			done <- problemf("%s does not hand the lock over to a waiter of which the mark in its value tells: %v", c.who, err)
		case lease.Fence() <= fence:
			done <- problemf("the fence %d of a hand-over follows %d", lease.Fence(), fence)
		default:
			done <- t.release(lease)
		}
	}()
	if err := t.waiting(1); err != nil {
		return err
	}
	// Holdfast has promised to look within a claim. That look would find a lock that was freed and not handed over.
	if err := t.pause(promised); err != nil {
		return err
	}
	if err := c.must("released", "release"); err != nil {
		return err
	}
	return <-done
}
