package conformance

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// turn is a time during which somebody surely had the lock: after it was told so, and before it was told to release it.
type turn struct {
	who      string
	from, to time.Duration // since the scenario began
	fence    uint64
}

// competes lets two clients and two of Holdfast's goroutines take turns.
func competes(t *trial) error {
	var mu sync.Mutex
	var turns []turn
	began := time.Now()
	record := func(who string, from time.Duration, fence uint64) {
		mu.Lock()
		defer mu.Unlock()
		turns = append(turns, turn{who, from, time.Since(began), fence})
	}
	var clients []*client
	for range 2 {
		c, err := t.start()
		if err != nil {
			return err
		}
		clients = append(clients, c)
	}
	began = time.Now()
	over := func() bool { return time.Since(began) > t.cfg.For }
	problems := make([]error, 4)
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			for problems[i] == nil && !over() {
				problems[i] = c.takeTurn(func(from time.Duration, fence uint64) { record(c.who, from, fence) }, began)
			}
		})
	}
	for i := range 2 {
		all.Go(func() {
			for p := &problems[len(clients)+i]; *p == nil && !over(); {
				*p = t.takeTurn(func(from time.Duration, fence uint64) { record("Holdfast", from, fence) }, began)
			}
		})
	}
	all.Wait()
	return cmp.Or(errors.Join(problems...), judge(turns))
}

// turnLasts is how long a turn lasts at least.
const turnLasts = time.Millisecond

func (c *client) takeTurn(record func(from time.Duration, fence uint64), began time.Time) error {
	if err := c.tell("acquire %d", long.Milliseconds()); err != nil {
		return err
	}
	fence, err := c.granted()
	if err != nil {
		return err
	}
	from := time.Since(began)
	time.Sleep(turnLasts)
	record(from, fence)
	return c.must("released", "release")
}

func (t *trial) takeTurn(record func(from time.Duration, fence uint64), began time.Time) error {
	ctx, cancel := context.WithTimeout(t.ctx, t.cfg.Answer)
	defer cancel()
	lease, err := t.lock.Acquire(ctx)
	if err != nil {
		return problemf("Holdfast does not get the lock: %v", err)
	}
	from := time.Since(began)
	time.Sleep(turnLasts)
	record(from, lease.Fence())
	if err := lease.Release(t.ctx); err != nil {
		return problemf("Holdfast's release: %v", err)
	}
	return nil
}

// judge says what is wrong with turns: that two had the lock at once, or that a later one had no higher fence.
func judge(turns []turn) error {
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Compare(a.from, b.from) })
	byClients := 0
	for i, b := range turns {
		if b.who != "Holdfast" {
			byClients++
		}
		if i == 0 {
			continue
		}
		a := turns[i-1]
		if b.from < a.to {
			return problemf("two had the lock at once: %s from %s to %s with fence %d, and %s from %s to %s with fence %d",
				a.who, a.from, a.to, a.fence, b.who, b.from, b.to, b.fence)
		}
		if b.fence <= a.fence {
			return problemf("the fence %d of %s follows %d, which %s had", b.fence, b.who, a.fence, a.who)
		}
	}
	if byClients == 0 {
		return problemf("the clients had no turn")
	}
	return nil
}
