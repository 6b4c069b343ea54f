package main

import (
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/tests/history"
)

// board is memory that all processes of a turn share. It tells of overlaps, and how long it
// takes from one holder to the next, without asking the server anything.
type board struct {
	inside   atomic.Int64 // holders
	over     atomic.Int64 // 1 once the turn is: what is cancelled then may overlap
	waiting  atomic.Int64 // goroutines
	released atomic.Int64 // when the latest holder called release, if somebody waited then; else 0
	overlaps atomic.Int64 // grants beside another holder
}

const boardSize = 5 * 8

// enter is called by who has the lock now. It tells how long ago the one before called
// release, if it was waited for.
func (b *board) enter() (handover time.Duration, ok bool) {
	now := history.Now()
	if b.inside.Add(1) != 1 && b.over.Load() == 0 {
		b.overlaps.Add(1)
	}
	released := b.released.Swap(0)
	return time.Duration(now - released), released != 0
}

// leave is called just before release.
func (b *board) leave() {
	b.inside.Add(-1)
	if b.waiting.Load() > 0 {
		b.released.Store(history.Now())
	}
}
