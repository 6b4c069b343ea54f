package main

import (
	"time"

	"github.com/holdfast-go/holdfast"
)

// The scenarios in this file are about read-write locks and semaphores. trial.lock and trial.verb are those of a read-write lock's writer.

func readersShare(t *trial) {
	clients := t.started(3)
	a, b, writer := clients[0], clients[1], clients[2]
	lease := t.take(t.reader)
	for _, c := range clients[:2] {
		if fence := c.take("try-read", long); fence != lease.Fence() {
			failf("the fence of %s is %d; it shares the lock with a reader whose fence is %d", c.who, fence, lease.Fence())
		}
	}
	t.release(lease)
	a.release()
	b.holds()
	t.keepsOutHoldfast(t.lock, "writer")
	writer.refused("try-write")
	b.release()
	writer.take("try-write", long)
}

func writersExclude(t *trial) {
	clients := t.started(2)
	a, b := clients[0], clients[1]
	a.take("try-write", long)
	t.keepsOutHoldfast(t.lock, "writer")
	t.keepsOutHoldfast(t.reader, "reader")
	b.refused("try-read")
	a.release()
	for _, c := range []struct {
		lock *holdfast.Lock
		out  []string
	}{{t.lock, []string{"try-read", "try-write"}}, {t.reader, []string{"try-write"}}} {
		lease := t.take(c.lock)
		for _, verb := range c.out {
			b.refused(verb)
		}
		t.release(lease)
	}
}

func rwFencesRise(t *trial) {
	t.fencesRise("try-write", "try-read", "try-write", "try-write", "try-read")
}

// writersAreNotPassed makes a writer wait for a reader, and two readers wait behind the writer. The waiters must get the lock in that
// order.
func writersAreNotPassed(t *trial) {
	lease := t.take(t.reader)
	writer := t.waiter(1)
	readers := t.started(2)
	for i, c := range readers {
		c.refused("try-read")
		c.tell("acquire-read %d", longMs)
		t.waiting(2 + i)
	}
	t.release(lease)
	written := writer.handedOver(lease.Fence())
	writer.release()
	for _, c := range readers { // both get the lock before either releases it
		c.handedOver(written)
	}
	for _, c := range readers {
		c.release()
	}
	t.waiting(0)
}

func rwRenews(t *trial) {
	c := t.start()
	for _, verb := range []string{"try-read", "try-write"} {
		fence := c.take(verb, short)
		t.pause(short * 2)
		c.holds()
		s := t.status()
		if holder, _ := s.Holder(); len(s.Holders) != 1 || holder.Fence != fence {
			failf("%s after %s the lock has %d holders, the first with fence %d; the client has %d",
				short*2, verb, len(s.Holders), holder.Fence, fence)
		}
		c.release()
	}
}

func losesDeleted(t *trial) {
	t.robbed("deletes the lock", func() error { return t.rdb.Del(t.ctx, t.key).Err() })
}

// clocksDiffer allows for a clock here that is slower than the server's.
const clocksDiffer = 100 * time.Millisecond

func rwExpires(t *trial) {
	for _, verbs := range [][2]string{{"try-read", "acquire-write"}, {"try-write", "acquire-read"}} {
		clients := t.started(2)
		dies, next := clients[0], clients[1]
		began := time.Now() // the lease lasts at least until short has passed from here
		dies.take(verbs[0], short)
		next.tell("%s %d", verbs[1], longMs)
		t.waiting(1)
		dies.kill()
		next.granted()
		if waited := time.Since(began); waited < short-clocksDiffer {
			failf("%s is granted to another client within %s of the %s of a client that was killed, whose lease lasts for %s",
				verbs[1], waited, verbs[0], short)
		}
		next.release()
	}
}

// permits is the number of permits of a semaphore.
const permits = 2

// givesPermits lets Holdfast and two clients share two permits.
func givesPermits(t *trial) {
	lease := t.acquire()
	a := t.start()
	second := a.try(long)
	t.keepsOutHoldfast(t.lock, "third")
	b := t.start()
	b.refused("try-permit")
	b.tell("acquire-permit %d", longMs)
	t.waiting(1)
	t.release(lease)
	third := b.grantedWithin(soon)
	if second <= lease.Fence() || third <= second {
		failf("the fences of three permits are %d, %d and %d, in the order of their grants", lease.Fence(), second, third)
	}
	for _, c := range []*client{a, b} {
		c.holds()
		c.release()
	}
}
