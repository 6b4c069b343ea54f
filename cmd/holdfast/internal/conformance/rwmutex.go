package conformance

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
)

// The scenarios of read-write locks. Where one does not say which side it means, trial.lock and trial.verb are the writer's.
var rwScenarios = []scenario{
	{"rw-sharing", "readers share the lock and its fence, and one's release leaves it to the others", readersShare, rwmutex},
	{"rw-exclusion", "a writer keeps everyone out, and is kept out by everyone", writersExclude, rwmutex},
	{"rw-fences", "a writer's fence is above all before it, and a reader's above the last writer's", rwFencesRise, rwmutex},
	{"rw-queue", "a writer that waits is passed by no reader, and releases hand the lock over", writersAreNotPassed, rwmutex},
	{"rw-quiet", "a writer that waits does not poll", isQuiet, rwmutex},
	{"rw-renewal", "leases of both sides are renewed for as long as they are held", rwRenews, rwmutex},
	{"rw-loss", "a writer whose lock is deleted says so at its next renewal", losesDeleted, rwmutex},
	{"rw-outage", "a writer that gets no answer does not rely on its lease for longer than it lasts", losesInOutage, rwmutex},
	{"rw-expiry", "a reader or writer that is killed keeps others out until its lease ends, and no longer", rwExpires, rwmutex},
	{"rw-competition", "readers and writers take turns for a while: no writer beside another, and fences rise", rwCompetes, rwmutex},
}

// started starts several clients.
func (t *trial) started(n int) (clients []*client, err error) {
	for range n {
		c, err := t.start()
		if err != nil {
			return nil, err
		}
		clients = append(clients, c)
	}
	return clients, nil
}

// keepsOutHoldfast checks that Holdfast does not get a side of the lock while a client has the lock.
func (t *trial) keepsOutHoldfast(lock *holdfast.Lock, side string) error {
	t.note("holdfast", "tries the lock as a "+side)
	if lease, err := lock.TryAcquire(t.ctx); !errors.Is(err, holdfast.ErrHeld) {
		t.lease = lease
		return problemf("while a client has the lock, Holdfast's TryAcquire as a %s gets: %v", side, err)
	}
	return nil
}

func readersShare(t *trial) error {
	clients, err := t.started(3)
	if err != nil {
		return err
	}
	a, b, writer := clients[0], clients[1], clients[2]
	lease, err := t.take(t.reader)
	if err != nil {
		return err
	}
	for _, c := range clients[:2] {
		if fence, err := c.take("try-read", long); err != nil {
			return err
		} else if fence != lease.Fence() {
			return problemf("the fence of %s is %d; it shares the lock with a reader whose fence is %d", c.who, fence, lease.Fence())
		}
	}
	if err := t.release(lease); err != nil {
		return err
	}
	if err := a.must("released", "release"); err != nil {
		return err
	}
	if err := b.must("yes", "holds"); err != nil {
		return err
	}
	if err := t.keepsOutHoldfast(t.lock, "writer"); err != nil {
		return err
	}
	if err := writer.must("held", "try-write %d", long.Milliseconds()); err != nil {
		return err
	}
	if err := b.must("released", "release"); err != nil {
		return err
	}
	_, err = writer.take("try-write", long)
	return err
}

func writersExclude(t *trial) error {
	clients, err := t.started(2)
	if err != nil {
		return err
	}
	a, b := clients[0], clients[1]
	if _, err := a.take("try-write", long); err != nil {
		return err
	}
	if err := t.keepsOutHoldfast(t.lock, "writer"); err != nil {
		return err
	}
	if err := t.keepsOutHoldfast(t.reader, "reader"); err != nil {
		return err
	}
	if err := b.must("held", "try-read %d", long.Milliseconds()); err != nil {
		return err
	}
	if err := a.must("released", "release"); err != nil {
		return err
	}
	for _, c := range []struct {
		lock *holdfast.Lock
		out  []string
	}{{t.lock, []string{"try-read", "try-write"}}, {t.reader, []string{"try-write"}}} {
		lease, err := t.take(c.lock)
		if err != nil {
			return err
		}
		for _, verb := range c.out {
			if err := b.must("held", "%s %d", verb, long.Milliseconds()); err != nil {
				return err
			}
		}
		if err := t.release(lease); err != nil {
			return err
		}
	}
	return nil
}

func rwFencesRise(t *trial) error {
	return t.fencesRise("try-write", "try-read", "try-write", "try-write", "try-read")
}

// writersAreNotPassed lets a writer wait for a reader, and two readers wait behind the writer. They have to get the lock in that
// order.
func writersAreNotPassed(t *trial) error {
	lease, err := t.take(t.reader)
	if err != nil {
		return err
	}
	writer, err := t.waiter(1)
	if err != nil {
		return err
	}
	readers, err := t.started(2)
	if err != nil {
		return err
	}
	for i, c := range readers {
		if err := c.must("held", "try-read %d", long.Milliseconds()); err != nil {
			return err
		}
		if err := c.tell("acquire-read %d", long.Milliseconds()); err != nil {
			return err
		}
		if err := t.waiting(2 + i); err != nil {
			return err
		}
	}
	if err := t.release(lease); err != nil {
		return err
	}
	written, err := writer.granted()
	if err != nil {
		return err
	}
	if written <= lease.Fence() {
		return problemf("the writer's fence %d follows %d, which a reader had", written, lease.Fence())
	}
	if err := writer.must("released", "release"); err != nil {
		return err
	}
	for _, c := range readers { // both have the lock before either releases it
		if fence, err := c.granted(); err != nil {
			return err
		} else if fence <= written {
			return problemf("the fence %d of %s, a reader, follows the writer's %d", fence, c.who, written)
		}
	}
	for _, c := range readers {
		if err := c.must("released", "release"); err != nil {
			return err
		}
	}
	return t.waiting(0)
}

func rwRenews(t *trial) error {
	c, err := t.start()
	if err != nil {
		return err
	}
	for _, verb := range []string{"try-read", "try-write"} {
		fence, err := c.take(verb, short)
		if err != nil {
			return err
		}
		if err := t.pause(short * 2); err != nil {
			return err
		}
		if err := c.must("yes", "holds"); err != nil {
			return err
		}
		s, err := t.lock.Status(t.ctx)
		if err != nil {
			return problemf("the lock's state: %v", err)
		}
		if holder, _ := s.Holder(); len(s.Holders) != 1 || holder.Fence != fence {
			return problemf("%s after %s the lock has %d holders, the first with fence %d; the client has %d",
				short*2, verb, len(s.Holders), holder.Fence, fence)
		}
		if err := c.must("released", "release"); err != nil {
			return err
		}
	}
	return nil
}

func losesDeleted(t *trial) error {
	_, err := t.robbed("deletes the lock", func() error { return t.rdb.Del(t.ctx, t.key).Err() })
	return err
}

// clocksDiffer allows for a clock here that is slower than the server's.
const clocksDiffer = 100 * time.Millisecond

func rwExpires(t *trial) error {
	for _, verbs := range [][2]string{{"try-read", "acquire-write"}, {"try-write", "acquire-read"}} {
		clients, err := t.started(2)
		if err != nil {
			return err
		}
		dies, next := clients[0], clients[1]
		began := time.Now() // the lease lasts for short after this, or longer
		if _, err := dies.take(verbs[0], short); err != nil {
			return err
		}
		if err := next.tell("%s %d", verbs[1], long.Milliseconds()); err != nil {
			return err
		}
		if err := t.waiting(1); err != nil {
			return err
		}
		dies.kill()
		if _, err := next.granted(); err != nil {
			return err
		}
		if waited := time.Since(began); waited < short-clocksDiffer {
			return problemf("%s is granted to another client within %s of the %s of a client that was killed, whose lease lasts for %s", verbs[1], waited, verbs[0], short)
		}
		if err := next.must("released", "release"); err != nil {
			return err
		}
	}
	return nil
}
