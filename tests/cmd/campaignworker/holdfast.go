package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
)

// locks are those of one client of the library.
type locks struct {
	rdb    *redis.Client
	client *holdfast.Client
}

func open(s worker.Setting) (worker.Locks, error) {
	if s.Nodes != nil {
		return openQuorum(s)
	}
	return openAt(s, s.Addr)
}

func openAt(s worker.Setting, addr string) (*locks, error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr, DialTimeout: s.CommandTimeout, ReadTimeout: s.CommandTimeout})
	client, err := holdfastgoredis.New(rdb, &holdfast.Config{
		CommandTimeout: s.CommandTimeout,
		RetryTimeout:   s.RetryTimeout,
		LocalHandovers: s.LocalHandovers,
		MaxTTL:         s.MaxTTL,
		Strict:         s.Mode == "strict",
		TTL:            s.MaxTTL, // every lock has its own
	})
	return &locks{rdb, client}, err
}

// optionsOf are the options of a lock.
func optionsOf(w worker.Want) []holdfast.Option {
	options := []holdfast.Option{holdfast.TTL(w.TTL), holdfast.Renew(!w.Fixed), holdfast.Reentrant(w.Again)}
	switch {
	case w.Redisson:
		options = append(options, holdfast.Redisson(w.Key))
	case w.Key != "":
		options = append(options, holdfast.Key(w.Key))
	}
	if w.MaxHold > 0 {
		options = append(options, holdfast.MaxHold(w.MaxHold))
	}
	if w.Poll > 0 {
		options = append(options, holdfast.Poll(w.Poll, 0))
	}
	if w.NodeTimeout > 0 {
		options = append(options, holdfast.NodeTimeout(w.NodeTimeout))
	}
	return options
}

func (l *locks) Acquire(ctx context.Context, w worker.Want) (worker.Lease, error) {
	options := optionsOf(w)
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
	case worker.Owned:
		lock = l.client.Mutex(w.Name, append(options, holdfast.Owner(fmt.Sprint("owner-", w.Owner)), holdfast.Reentrant(true))...)
	case worker.Together:
		lock = l.client.Multi(w.Names(), options...)
	}
	return acquire(ctx, lock, w)
}

func acquire(ctx context.Context, lock *holdfast.Lock, w worker.Want) (worker.Lease, error) {
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

// Do is Once.Do, or Once.TryDo.
func (l *locks) Do(ctx context.Context, w worker.Want, slot string, job func(worker.Lease) (string, error)) (worker.Done, error) {
	window := holdfast.Every(w.Window)
	if slot != "" {
		window = holdfast.SlotKey(slot, time.Hour)
	}
	once := l.client.Once(w.Name, window, optionsOf(w)...)
	do := once.Do
	if w.Try {
		do = once.TryDo
	}
	run, err := do(ctx, func(_ context.Context, got *holdfast.Lease) (string, error) { return job(lease{got, once.Lock()}) })
	return worker.Done{Fence: run.Fence, Result: run.Result, At: run.Completed.UnixMicro(), Try: run.Try, Here: run.Here}, err
}

// Lead is Election.Run.
func (l *locks) Lead(ctx context.Context, w worker.Want, lead func(worker.Lease) bool) error {
	return l.client.Election(w.Name, optionsOf(w)...).Run(ctx, func(_ context.Context, term *holdfast.Lease) error {
		if lead(lease{Lease: term}) {
			return holdfast.ErrResign
		}
		return nil
	})
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

func (l lease) Fences() map[string]uint64 { return l.Tokens() }

func (l lease) Done() <-chan struct{} { return l.Context().Done() }

func (l lease) Extend(ctx context.Context, ttl time.Duration) error { return l.Lease.Extend(ctx, ttl) }
