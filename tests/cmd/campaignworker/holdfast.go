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
	"github.com/holdfast-go/holdfast/tests/internal/options"
)

// locks are the locks of one client of the library.
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
		CommandTimeout:    s.CommandTimeout,
		RetryTimeout:      s.RetryTimeout,
		MaxLocalHandovers: s.LocalHandovers,
		MaxTTL:            s.MaxTTL,
		Strict:            s.Mode == "strict",
		TTL:               s.MaxTTL, // every lock has its own TTL
	})
	return &locks{rdb, client}, err
}

// optionOf returns the options of any lock, as one.
func optionOf(w worker.Want) holdfast.Option {
	all := []holdfast.Option{holdfast.TTL(w.TTL)}
	if w.Fixed {
		all = append(all, holdfast.NoRenew())
	}
	if w.MaxHold > 0 {
		all = append(all, holdfast.MaxHold(w.MaxHold))
	}
	return holdfast.Options(all...)
}

// waitingOptionsOf returns the options of a lock that is waited for, in the queue or by polling.
func waitingOptionsOf(w worker.Want) []holdfast.PollOption {
	all := []holdfast.PollOption{optionOf(w)}
	if w.Poll > 0 {
		all = append(all, holdfast.Poll(w.Poll))
	}
	return all
}

// mutexOptionsOf returns the options of a mutex of any form.
func mutexOptionsOf(w worker.Want) []holdfast.MutexOption {
	all := options.For[holdfast.MutexOption](waitingOptionsOf(w))
	if w.Again {
		all = append(all, holdfast.Reentrant())
	}
	return all
}

func (l *locks) Acquire(ctx context.Context, w worker.Want) (worker.Lease, error) {
	var lock *holdfast.Lock
	switch w.Share {
	case worker.Whole, worker.Carried:
		lock = l.mutex(w)
	case worker.Reading:
		lock = l.readWrite(w).Reader()
	case worker.Writing:
		lock = l.readWrite(w).Writer()
	case worker.Permits:
		lock = l.client.Semaphore(w.Name, w.Permits, options.For[holdfast.SemaphoreOption](waitingOptionsOf(w))...).Permits(w.Take)
	case worker.Owned:
		lock = l.client.OwnerMutex(w.Name, fmt.Sprint("owner-", w.Owner), mutexOptionsOf(w)...)
	case worker.Together:
		lock = l.client.Multi(w.Names(), options.For[holdfast.MultiOption](mutexOptionsOf(w))...)
	}
	return acquire(ctx, lock, w)
}

func (l *locks) mutex(w worker.Want) *holdfast.Lock {
	switch {
	case w.Redisson:
		return l.client.RedissonMutex(w.Key, mutexOptionsOf(w)...)
	case w.Key != "":
		return l.client.MutexKey(w.Key, mutexOptionsOf(w)...)
	}
	return l.client.Mutex(w.Name, mutexOptionsOf(w)...)
}

func (l *locks) readWrite(w worker.Want) *holdfast.RWMutex {
	return l.client.RWMutex(w.Name, options.For[holdfast.RWMutexOption](mutexOptionsOf(w))...)
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

func (l *locks) Admit(ctx context.Context) error { return l.client.Admit(ctx) }

func (l *locks) Close(ctx context.Context) error {
	return errors.Join(l.client.Close(ctx), l.rdb.Close())
}

// Do calls Once.Do or Once.TryDo.
func (l *locks) Do(ctx context.Context, w worker.Want, slot string, job func(worker.Lease) (string, error)) (worker.Done, error) {
	window := holdfast.Every(w.Window)
	if slot != "" {
		window = holdfast.Slot(slot, time.Hour)
	}
	once := l.client.Once(w.Name, window, options.For[holdfast.OnceOption](waitingOptionsOf(w))...)
	do := once.Do
	if w.Try {
		do = once.TryDo
	}
	run, err := do(ctx, func(_ context.Context, got *holdfast.Lease) (string, error) { return job(lease{Lease: got}) })
	return worker.Done{Fence: run.Fence, Result: run.Result, At: run.Time.UnixMicro(), Try: run.Try, Here: run.Here}, err
}

// Lead calls Election.Run.
func (l *locks) Lead(ctx context.Context, w worker.Want, lead func(worker.Lease) bool) error {
	return l.client.Election(w.Name, options.For[holdfast.ElectionOption](waitingOptionsOf(w))...).Run(ctx, func(_ context.Context, term *holdfast.Lease) error {
		if lead(lease{Lease: term}) {
			return holdfast.ErrResign
		}
		return nil
	})
}

// Adopt calls Client.Adopt.
func (l *locks) Adopt(ctx context.Context, w worker.Want, text string) (_ worker.Lease, good bool, err error) {
	var ticket holdfast.Ticket
	if err := ticket.UnmarshalText([]byte(text)); err != nil {
		return nil, false, err
	}
	got, err := l.client.Adopt(ctx, ticket, optionOf(w))
	if err != nil {
		return nil, !errors.Is(err, holdfast.ErrLost), err
	}
	return adopted{lease{Lease: got}}, true, nil
}

// adopted is a lease that cannot be acquired again: the options of an adoption do not make it Reentrant.
type adopted struct{ lease }

// Again is not for it.
func (adopted) Again() {}

type lease struct {
	*holdfast.Lease
	lock *holdfast.Lock
}

// Detach calls Lease.Detach.
func (l lease) Detach(ctx context.Context, ttl time.Duration) (string, error) {
	ticket, err := l.Lease.Detach(ctx, ttl)
	if err != nil {
		return "", err
	}
	text, err := ticket.MarshalText()
	return string(text), err
}

func (l lease) Again() (worker.Lease, error) {
	got, err := l.lock.Acquire(l.Context(context.Background()))
	if err != nil {
		return nil, err
	}
	return lease{got, l.lock}, nil
}
