package bench

import (
	"sync"
	"time"
)

// board is where holders of the contended lock sign in and out. It notices overlaps, and how long the lock takes from
// one holder to the next, without asking the server.
type board struct {
	mu         sync.Mutex
	holders    map[lease]bool
	waiting    int
	released   time.Time // when the last holder called Release; zero if nobody was waiting then
	releasedBy int       // the client of that holder
	overlaps   int
}

func newBoard() *board { return &board{holders: map[lease]bool{}} }

// wait is called before the lock is acquired.
func (b *board) wait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting++
}

// handover is how the lock went from a holder to a waiter.
type handover struct {
	took    time.Duration // from the call of Release to the next holder's first step; 0 if there was no hand-over
	between bool          // the two have different clients
}

// enter is called by a waiter that has become a holder. Two holders at once are an overlap, unless one of them knows
// that its lease is lost.
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
		h = handover{max(now.Sub(b.released), 1), b.releasedBy != client}
		b.released = time.Time{}
	}
	return h
}

// leave is called by a holder just before it releases.
func (b *board) leave(client int, l lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.holders, l)
	if b.waiting > 0 {
		b.released, b.releasedBy = time.Now(), client
	}
}

// giveUp is called by a waiter that stops waiting.
func (b *board) giveUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting--
}
