package engine

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
)

// Waiters queue in a quarantine as they do for a lock that is held, and the server's answer looks the same. A waiter whose
// context ends has to say that there is a quarantine, and must not ask the server then. So the server is asked beforehand.

const (
	// quarantineLook is how long waiters wait before the server is asked whether it is in quarantine. Most hand-overs come sooner, and
	// cost no further command.
	quarantineLook = 20 * time.Millisecond

	// quarantineKnown is for how long a client does not ask again. While locks go from hand to hand, grants say that there is none.
	quarantineKnown = time.Second
)

// untilLook returns how long to wait before the server is asked.
func (c *Client) untilLook() time.Duration {
	return max(quarantineLook, quarantineKnown-clock.Mono().Sub(clock.Reading(c.grants.Load())))
}

// lookForQuarantine asks the server whether it is in quarantine. Only the answer to a try tells; if it grants the lock, the
// first waiter gets it.
func (wq *waitQueue) lookForQuarantine(l *target) {
	ctx, cancel := context.WithTimeout(context.Background(), wq.c.server.AnswerGrace())
	defer cancel()
	a := l.newAttempt()
	got, err := a.ask(ctx, codec.Try, 1)
	switch {
	case err != nil:
	case got.hold != nil:
		if wq.deliver(got.hold) {
			return
		}
		a = &got.hold.attempt
	case got.Word == codec.Quarantined:
		wq.noteQuarantineLocking(got.Refusal.Quarantine)
	default:
		wq.noteQuarantineLocking(0)
	}
	a.abandon()
}

// noteQuarantine notes for how long a Strict client's server grants nothing; 0 if it is in no quarantine. The caller holds wq.mu.
func (wq *waitQueue) noteQuarantine(left time.Duration) {
	if !wq.c.cfg.Strict {
		return
	}
	grants := clock.Mono()
	switch {
	case left > 0:
		grants = 0
		wq.needContention().restsUntil = time.Now().Add(left)
	case wq.contention != nil:
		wq.contention.restsUntil = time.Time{}
	}
	wq.c.grants.Store(int64(grants))
}

// noteQuarantineLocking is noteQuarantine for callers that do not hold wq.mu.
func (wq *waitQueue) noteQuarantineLocking(left time.Duration) {
	wq.mu.Lock()
	defer wq.mu.Unlock()
	wq.noteQuarantine(left)
}

// quarantineLeft returns for how much longer the server grants nothing, as far as the queue knows. The caller holds wq.mu.
func (wq *waitQueue) quarantineLeft() time.Duration {
	if wq.contention == nil || wq.contention.restsUntil.IsZero() {
		return 0
	}
	return max(time.Until(wq.contention.restsUntil).Round(time.Millisecond), 0)
}
