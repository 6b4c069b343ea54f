package conformance

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// turn is a time during which somebody surely had the lock: after it was told so, and before it was told to release it.
type turn struct {
	who      string
	from, to time.Duration // since the scenario began
	fence    uint64
	reads    bool
}

func competes(t *trial) error   { return t.competeFor(t.lock) }
func rwCompetes(t *trial) error { return t.competeFor(t.lock, t.reader) }

// competeFor lets two clients and two of Holdfast's goroutines compete for the lock. Each goes through the sides in turn.
func (t *trial) competeFor(sides ...*holdfast.Lock) error {
	clients, err := t.started(2)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var turns []turn
	began := time.Now()
	over := func() bool { return time.Since(began) > t.cfg.For }
	problems := make([]error, 4)
	var all sync.WaitGroup
	for i := range problems {
		all.Go(func() {
			for n := i; problems[i] == nil && !over(); n++ {
				lock := sides[n%len(sides)]
				record := func(had turn) {
					mu.Lock()
					defer mu.Unlock()
					turns = append(turns, had)
				}
				if i < len(clients) {
					problems[i] = clients[i].takeTurn(lock, record, began)
				} else {
					problems[i] = t.takeTurn(lock, record, began)
				}
			}
		})
	}
	all.Wait()
	return cmp.Or(errors.Join(problems...), judge(turns))
}

// turnLasts is how long a turn lasts at least.
const turnLasts = time.Millisecond

func (c *client) takeTurn(lock *holdfast.Lock, record func(turn), began time.Time) error {
	verb := c.t.verb("acquire")
	if lock == c.t.reader {
		verb = "acquire-read"
	}
	if err := c.tell("%s %d", verb, long.Milliseconds()); err != nil {
		return err
	}
	fence, err := c.granted()
	if err != nil {
		return err
	}
	from := time.Since(began)
	time.Sleep(turnLasts)
	to := time.Since(began)
	// A client that stood still may have lost the lock during its turn. Such a turn is not recorded.
	answer, err := c.ask("release")
	switch {
	case err != nil:
		return err
	case answer == "released":
		record(turn{c.who, from, to, fence, lock == c.t.reader})
	case answer != "lost":
		return problemf("%s answers %s to a release; want released", c.who, printable.Word(answer, 200))
	}
	return nil
}

func (t *trial) takeTurn(lock *holdfast.Lock, record func(turn), began time.Time) error {
	ctx, cancel := context.WithTimeout(t.ctx, t.cfg.Answer)
	defer cancel()
	lease, err := lock.Acquire(ctx)
	if err != nil {
		return problemf("Holdfast does not get the lock: %v", err)
	}
	from := time.Since(began)
	time.Sleep(turnLasts)
	to := time.Since(began)
	switch err := lease.Release(t.ctx); {
	case err == nil:
		record(turn{"Holdfast", from, to, lease.Fence(), lock == t.reader})
	case !errors.Is(err, holdfast.ErrLost):
		return problemf("Holdfast's release: %v", err)
	}
	return nil
}

// judge says what is wrong with turns: that two had the lock at once of which one was no reader, or that a later one had no
// higher fence. Readers that follow a reader may have its fence.
func judge(turns []turn) error {
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Compare(a.from, b.from) })
	byClients := 0
	var writer, reader, latest turn // so far: the last writer, the reader with the highest fence, and the one that ended last
	for _, b := range turns {
		if b.who != "Holdfast" {
			byClients++
		}
		for _, a := range []turn{writer, reader, latest} {
			if a.who == "" || a.reads && b.reads {
				continue
			}
			if b.from < a.to {
				return problemf("two had the lock at once: %s from %s to %s with fence %d, and %s from %s to %s with fence %d",
					a.who, a.from, a.to, a.fence, b.who, b.from, b.to, b.fence)
			}
			if b.fence <= a.fence {
				return problemf("the fence %d of %s follows %d, which %s had", b.fence, b.who, a.fence, a.who)
			}
		}
		if !b.reads {
			writer = b
			continue
		}
		if b.fence < reader.fence {
			return problemf("the fence %d of %s, a reader, follows %d, which %s had", b.fence, b.who, reader.fence, reader.who)
		}
		reader = b
		if b.to > latest.to {
			latest = b
		}
	}
	if byClients == 0 {
		return problemf("the clients had no turn")
	}
	return nil
}
