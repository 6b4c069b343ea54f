package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// turn is a period in which a holder certainly had the lock: from the grant until it was told to release the lock.
type turn struct {
	who      string
	from, to time.Duration // since the scenario began
	fence    uint64
	reads    bool
}

// competes lets two clients and two of Holdfast's goroutines compete for the lock. Each is a writer and a reader in turn.
func competes(t *trial) {
	sides := []*holdfast.Lock{t.lock}
	if t.reader != nil {
		sides = append(sides, t.reader)
	}
	clients := t.started(2)
	var mu sync.Mutex
	var turns []turn
	began := time.Now()
	problems := make([]error, 4)
	var all sync.WaitGroup
	for i := range problems {
		all.Go(func() {
			problems[i] = caught(func() {
				for n := i; time.Since(began) < t.lasts; n++ {
					lock, who, take := sides[n%len(sides)], "Holdfast", t.hold
					if i < len(clients) {
						who, take = clients[i].who, clients[i].hold
					}
					fence, release := take(lock)
					from := time.Since(began)
					time.Sleep(turnLasts)
					to := time.Since(began)
					// A turn is not judged if the holder has lost the lock, as it may after it stood still.
					if kept := release(); kept {
						mu.Lock()
						turns = append(turns, turn{who, from, to, fence, lock == t.reader})
						mu.Unlock()
					}
				}
			})
		})
	}
	all.Wait()
	check(errors.Join(problems...))
	check(judge(turns))
}

// turnLasts is the minimum length of a turn.
const turnLasts = time.Millisecond

// hold makes the client acquire one side of the lock. release reports whether the client still had it.
func (c *client) hold(lock *holdfast.Lock) (fence uint64, release func() (kept bool)) {
	verb := c.t.verb("acquire")
	if lock == c.t.reader {
		verb = "acquire-read"
	}
	c.tell("%s %d", verb, longMs)
	return c.granted(), func() bool {
		answer := c.ask("release")
		if answer != "released" && answer != "lost" {
			failf("%s answers %s to a release; want released", c.who, printable.Word(answer, 200))
		}
		return answer == "released"
	}
}

// hold acquires one side of the lock for Holdfast. release reports whether Holdfast still had it.
func (t *trial) hold(lock *holdfast.Lock) (fence uint64, release func() (kept bool)) {
	lease := t.take(lock)
	return lease.Fence(), func() bool {
		err := lease.Release(t.ctx)
		if err != nil && !errors.Is(err, holdfast.ErrLost) {
			failf("Holdfast's release: %v", err)
		}
		return err == nil
	}
}

// judge returns an error if a writer's turn overlaps another turn, or if a turn's fence is not above those of all earlier turns. Readers
// that follow each other may have the same fence.
func judge(turns []turn) error {
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Compare(a.from, b.from) })
	byClients := 0
	var writer, reader, latest turn // so far: the last writer, the reader with the highest fence, and the reader that ended last
	for _, b := range turns {
		if b.who != "Holdfast" {
			byClients++
		}
		for _, a := range []turn{writer, reader, latest} {
			if a.who == "" || a.reads && b.reads {
				continue
			}
			if b.from < a.to {
				return fmt.Errorf("two had the lock at once: %s from %s to %s with fence %d, and %s from %s to %s with fence %d",
					a.who, a.from, a.to, a.fence, b.who, b.from, b.to, b.fence)
			}
			if b.fence <= a.fence {
				return fmt.Errorf("the fence %d of %s follows %d, which %s had", b.fence, b.who, a.fence, a.who)
			}
		}
		if !b.reads {
			writer = b
			continue
		}
		if b.fence < reader.fence {
			return fmt.Errorf("the fence %d of %s, a reader, follows %d, which %s had", b.fence, b.who, reader.fence, reader.who)
		}
		reader = b
		if b.to > latest.to {
			latest = b
		}
	}
	if byClients == 0 {
		return errors.New("the clients had no turn")
	}
	return nil
}
