package main

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
)

func (l *locks) latch(w worker.Want) *holdfast.Latch {
	return l.client.Latch(w.Name, w.Parties, optionOf(w))
}

// Join calls Join or TryJoin.
func (l *locks) Join(ctx context.Context, w worker.Want) (worker.Party, error) {
	if w.Share == worker.Joining {
		latch := l.latch(w)
		got, err := latch.Register(ctx)
		if err != nil {
			return nil, err
		}
		return party{lease{Lease: got.Lease()}, got, nil}, nil
	}
	barrier := l.client.Barrier(w.Name, w.Parties, optionOf(w))
	join := barrier.Join
	if w.Try {
		join = barrier.TryJoin
	}
	got, err := join(ctx)
	if err != nil {
		return nil, err
	}
	return party{lease{Lease: got.Lease()}, nil, got}, nil
}

func (l *locks) CountDown(ctx context.Context, w worker.Want) error { return l.latch(w).CountDown(ctx) }

func (l *locks) Reset(ctx context.Context, w worker.Want) error { return l.latch(w).Reset(ctx) }

func (l *locks) Wait(ctx context.Context, w worker.Want) error { return l.latch(w).Wait(ctx) }

func (l *locks) Count(ctx context.Context, w worker.Want) (int, error) { return l.latch(w).Count(ctx) }

// Tell takes the library at its word: a request may have been carried out only if the error is ErrAmbiguous.
func (l *locks) Tell(err error) worker.Answer {
	var incomplete *holdfast.LatchIncompleteError
	var broken *holdfast.BarrierBrokenError
	switch {
	case errors.As(err, &incomplete):
		return worker.Answer{Outcome: worker.Incomplete, Missing: incomplete.Missing}
	case errors.As(err, &broken):
		return worker.Answer{Outcome: worker.Broken, Phase: broken.Phase, Died: broken.Died}
	case errors.Is(err, holdfast.ErrLatchReset):
		return worker.Answer{Outcome: worker.Anew}
	case errors.Is(err, holdfast.ErrLost):
		return worker.Answer{Outcome: worker.Lost}
	case errors.Is(err, holdfast.ErrHeld):
		return worker.Answer{Outcome: worker.Full}
	case errors.Is(err, holdfast.ErrAmbiguous):
		return worker.Answer{}
	}
	return worker.Answer{Outcome: worker.Undone}
}

// party is a party of a latch or a barrier.
type party struct {
	lease
	latch   *holdfast.LatchParty
	barrier *holdfast.BarrierParty
}

func (p party) CountDown(ctx context.Context) error { return p.latch.CountDown(ctx) }

func (p party) Await(ctx context.Context) (uint64, error) { return p.barrier.Await(ctx) }
