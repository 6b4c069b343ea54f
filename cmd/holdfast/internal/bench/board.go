package bench

import (
	"sync"
	"time"
)

// board is where holders of the contended lock sign in and out. It tells of overlaps, and
// how long it takes from one holder to the next, without asking the server anything.
type board struct {
	mu       sync.Mutex
	holders  map[lease]bool
	waiting  int
	released time.Time // when the latest holder called release, if somebody waited then; else zero
	by       int       // the client that released
	overlaps int
}

func newBoard() *board { return &board{holders: map[lease]bool{}} }

// wait is called before the lock is asked for.
func (b *board) wait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting++
}

// handover is how one holder followed another that was waited for.
type handover struct {
	took    time.Duration // from the call of release to the next holder's running; 0 if nobody waited
	between bool          // two clients
}

// enter is called by who has the lock now, instead of waiting. Two that hold at once are an
// overlap, unless one of them knows that it has lost the lock.
func (b *board) enter(client int, l lease) (h handover) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting--
	for other := range b.holders {
		if other.Err() == nil && l.Err() == nil {
			b.overlaps++
			break
		}
	}
	b.holders[l] = true
	if !b.released.IsZero() {
		h = handover{max(now.Sub(b.released), 1), b.by != client}
		b.released = time.Time{}
	}
	return h
}

// leave is called just before release.
func (b *board) leave(client int, l lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.holders, l)
	if b.waiting > 0 {
		b.released, b.by = time.Now(), client
	}
}

// giveUp is called by who waits no longer.
func (b *board) giveUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting--
}
