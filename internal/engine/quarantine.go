package engine

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
)

// In a quarantine, waiters queue as they do for a lock that is held, and get the same answer. When a waiter's context ends, its error has
// to mention the quarantine, but then it is too late to ask the server. So the server is asked while they wait.

const (
	// quarantineLook is how long waiters wait before the server is asked about a quarantine. Most hand-overs come sooner, and then cost no
	// extra command.
	quarantineLook = 20 * time.Millisecond

	// quarantineKnown is how long a client believes that there is no quarantine. Each grant to a waiter shows that there is none.
	quarantineKnown = time.Second
)

// untilLook returns how long a waiter waits before the server is asked about a quarantine.
func (c *Client) untilLook() time.Duration {
	return max(quarantineLook, quarantineKnown-clock.Mono().Sub(clock.Reading(c.grantingAt.Load())))
}

// lookForQuarantine asks the server, with a try, whether it is in quarantine: only a try is told. If the try is granted the lock, the first
// waiter gets it.
func (wq *waitQueue) lookForQuarantine(l *Target) {
	ctx, cancel := context.WithTimeout(context.Background(), wq.l.c.Server.AnswerGrace())
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
	default:
		wq.mu.Lock()
		wq.noteQuarantine(got.quarantine())
		wq.mu.Unlock()
	}
	a.abandon()
}

// noteQuarantine notes for how long the server of a Strict client grants nothing; 0 means that it is not in quarantine. The caller holds
// wq.mu.
func (wq *waitQueue) noteQuarantine(left time.Duration) {
	if !wq.l.c.Config.Strict {
		return
	}
	grantingAt := clock.Mono()
	switch {
	case left > 0:
		grantingAt = 0
		wq.needContention().restsUntil = time.Now().Add(left)
	case wq.contention != &noContention:
		wq.contention.restsUntil = time.Time{}
	}
	wq.l.c.grantingAt.Store(int64(grantingAt))
}

// quarantine returns for how much longer the server grants nothing, as it has replied.
func (g grantOrReply) quarantine() time.Duration {
	if g.Word != codec.Quarantined {
		return 0
	}
	return g.Refusal.Quarantine
}

// quarantineLeft returns for how much longer the server grants nothing; 0 if the queue knows of no quarantine. The caller holds wq.mu.
func (wq *waitQueue) quarantineLeft() time.Duration {
	if wq.contention.restsUntil.IsZero() {
		return 0
	}
	return max(time.Until(wq.contention.restsUntil).Round(time.Millisecond), 0)
}
