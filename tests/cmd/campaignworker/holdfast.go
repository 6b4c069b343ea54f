package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/campaign/worker"
)

// locks are those of one client of the library.
type locks struct {
	rdb    *redis.Client
	client *holdfast.Client
}

func open(s worker.Setting) (worker.Locks, error) {
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, DialTimeout: s.CommandTimeout, ReadTimeout: s.CommandTimeout})
	client, err := holdfast.New(holdfastgoredis.New(rdb), &holdfast.Config{
		CommandTimeout: s.CommandTimeout,
		RetryTimeout:   s.RetryTimeout,
		LocalHandovers: s.LocalHandovers,
		MaxTTL:         s.MaxTTL,
		Strict:         s.Mode == "strict",
		TTL:            s.MaxTTL, // every lock has its own
	})
	return &locks{rdb, client}, err
}

func (l *locks) Acquire(ctx context.Context, w worker.Want) (worker.Lease, error) {
	options := []holdfast.Option{holdfast.TTL(w.TTL), holdfast.Renew(!w.Fixed), holdfast.Reentrant(w.Again)}
	if w.Key != "" {
		options = append(options, holdfast.Key(w.Key))
	}
	if w.MaxHold > 0 {
		options = append(options, holdfast.MaxHold(w.MaxHold))
	}
	if w.Poll > 0 {
		options = append(options, holdfast.Poll(w.Poll, 0))
	}
	var lock *holdfast.Lock
	switch w.Share {
	case worker.Whole:
		lock = l.client.Mutex(w.Name, options...)
	case worker.Reading:
		lock = l.client.RWMutex(w.Name, options...).Reader()
	case worker.Writing:
		lock = l.client.RWMutex(w.Name, options...).Writer()
	case worker.Permits:
		lock = l.client.Semaphore(w.Name, w.Permits, append(options, holdfast.Weight(w.Take))...).Lock
	}
	acquire := lock.Acquire
	if w.Try {
		acquire = lock.TryAcquire
	}
	got, err := acquire(ctx)
	if err != nil {
		return nil, err
	}
	return lease{got, lock}, nil
}

func (l *locks) Admit(ctx context.Context) error { return l.client.Init(ctx, false) }

func (l *locks) Close(ctx context.Context) error {
	return errors.Join(l.client.Close(ctx), l.rdb.Close())
}

type lease struct {
	*holdfast.Lease
	lock *holdfast.Lock
}

func (l lease) Again() (worker.Lease, error) {
	got, err := l.lock.Acquire(l.Context())
	if err != nil {
		return nil, err
	}
	return lease{got, l.lock}, nil
}

func (l lease) Fence() uint64 { return l.Token() }

func (l lease) Done() <-chan struct{} { return l.Context().Done() }

func (l lease) Extend(ctx context.Context, ttl time.Duration) error { return l.Lease.Extend(ctx, ttl) }
