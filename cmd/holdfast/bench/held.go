package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
)

var heldFigures = []figure{
	lost,
	{"server_cpu_us", "server CPU per lease and second", duration, sum, false},
	{"client_cpu_us", "client CPU per lease and second", duration, sum, false},
}

const (
	// leastTaking is how long taking the leases may last even in a short run.
	leastTaking = 5 * time.Second
	// takers is how many goroutines take and release the leases.
	takers = 64
)

// held is the experiment in which many leases are held and renewed.
func (b *bench) held(ctx context.Context) error {
	if b.leases == 0 {
		return nil
	}
	b.progress.show(fmt.Sprintf("held: %d leases", b.leases))
	share := b.time * 3 / 10
	takes := make([]acquire, b.leases)
	for i := range takes {
		takes[i] = b.clients[0].ways[ours](b.name(fmt.Sprint("held-", i)))
	}
	began := time.Now()
	leases, err := takeAll(ctx, takes, began.Add(max(share/3, leastTaking)))
	n := float64(len(leases))
	v := values{}
	var held time.Duration
	if err == nil && n > 0 {
		before, since := b.cpu(ctx), time.Now()
		hold(ctx, leases[0], max(time.Until(began.Add(share)), share/3))
		held = time.Since(since)
		v.setCPU(before, b.cpu(ctx), n*held.Seconds())
	}
	losses, releasing := releaseAll(context.WithoutCancel(ctx), leases)
	if held > 0 {
		v[lost.key] = float64(losses)
		about := fmt.Sprintf("%d of %d leases with a TTL of %s", len(leases), b.leases, ttl)
		b.report.add(&result{
			Experiment: "held", Leases: len(leases), Rounds: 1, Millis: held.Milliseconds(),
			about: about, figures: heldFigures, rounds: [][2]values{{ours: v}},
		})
	}
	if err == nil {
		err = releasing
	}
	switch {
	case err != nil || ctx.Err() != nil:
		return err
	case losses > 0:
		return b.tryLock(ctx) // an error of the server may be the reason
	case len(leases) < b.leases:
		b.report.leaveOut("held: %d leases, which were not granted in time", b.leases-len(leases))
	case held < ttl:
		b.report.leaveOut("losses for want of renewals, since leases were held for less than the TTL of %s: use -for 1m", ttl)
	}
	return nil
}

// takeAll acquires locks until all are held, the time until has come, or one fails. It returns the leases of the locks that are held.
func takeAll(ctx context.Context, takes []acquire, until time.Time) ([]lease, error) {
	leases := make([]lease, len(takes))
	err := measure.InParallel(takers, len(takes), func(i int) error {
		if time.Now().After(until) {
			return nil
		}
		l, err := takes[i](ctx)
		if err == nil {
			leases[i] = l
		}
		return err
	})
	return slices.DeleteFunc(leases, func(l lease) bool { return l == nil }), err
}

// hold waits until d has passed, ctx ends, or the first lease is lost. Then the others are most likely lost, too.
func hold(ctx context.Context, first lease, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil && first.Err() == nil; {
		time.Sleep(min(50*time.Millisecond, time.Until(end)))
	}
}

// releaseAll releases leases, and counts those that were lost. After another error, it leaves the rest to expire.
func releaseAll(ctx context.Context, leases []lease) (losses int, err error) {
	var n atomic.Int64
	err = measure.InParallel(takers, len(leases), func(i int) error {
		expired := leases[i].Err() != nil
		err := leases[i].Release(ctx)
		if expired || isLoss(err) {
			n.Add(1)
			return nil
		}
		return err
	})
	return int(n.Load()), err
}
