package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/tests/internal/options"
)

// library are the locks of this library: of a client or, if there are several nodes, of quorums.
type library struct {
	*holdfast.Client // of the first node
	clients          []*holdfast.Client
	connections      []*redis.Client

	mu      sync.Mutex
	quorums map[time.Duration]*quorum.Quorum // by node timeout
}

// Open opens the locks of this library.
func Open(s Setting) (Locks, error) {
	l := &library{quorums: map[time.Duration]*quorum.Quorum{}}
	addresses := s.Nodes
	if addresses == nil {
		addresses = []string{s.Addr}
	}
	for _, addr := range addresses {
		rdb := redis.NewClient(&redis.Options{Addr: addr, DialTimeout: s.CommandTimeout, ReadTimeout: s.CommandTimeout})
		client, err := holdfastgoredis.New(rdb, &holdfast.Config{
			CommandTimeout:    s.CommandTimeout,
			RetryTimeout:      s.RetryTimeout,
			MaxLocalHandovers: s.LocalHandovers,
			MaxTTL:            s.MaxTTL,
			Strict:            s.Mode == "strict",
			TTL:               s.MaxTTL, // every lock has its own TTL
		})
		if err != nil {
			return nil, err
		}
		l.clients, l.connections = append(l.clients, client), append(l.connections, rdb)
	}
	l.Client = l.clients[0]
	return l, nil
}

// quorum returns the quorum of all nodes with that node timeout.
func (l *library) quorum(nodeTimeout time.Duration) (*quorum.Quorum, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.quorums[nodeTimeout]; known != nil {
		return known, nil
	}
	made, err := quorum.New(l.clients, &quorum.Config{NodeTimeout: nodeTimeout})
	if err == nil {
		l.quorums[nodeTimeout] = made
	}
	return made, err
}

// Admit admits empty servers to the strict mode, so that they grant locks.
func (l *library) Admit(ctx context.Context) error {
	if len(l.clients) == 1 {
		return inspect.New(l.Client).Admit(ctx)
	}
	q, err := l.quorum(0)
	if err != nil {
		return err
	}
	return inspect.NewQuorum(q).Admit(ctx)
}

// Close closes all clients at once, since a lease of several nodes ends when most of them do.
func (l *library) Close(ctx context.Context) error {
	errs := make([]error, len(l.clients))
	var closed sync.WaitGroup
	for i, c := range l.clients {
		closed.Go(func() { errs[i] = errors.Join(c.Close(ctx), l.connections[i].Close()) })
	}
	closed.Wait()
	return errors.Join(errs...)
}

// option returns the options of any lock, as one.
func (w *Want) option() holdfast.Option {
	all := []holdfast.Option{holdfast.TTL(w.TTL)}
	if w.Fixed {
		all = append(all, holdfast.NoRenew())
	}
	if w.MaxHold > 0 {
		all = append(all, holdfast.MaxHold(w.MaxHold))
	}
	return holdfast.Options(all...)
}

// optionsOf returns the options of a kind of lock that is waited for, in the queue or by polling.
func optionsOf[Kind any](w Want) []Kind {
	all := []holdfast.WaitOption{w.option()}
	if w.Poll > 0 {
		all = append(all, holdfast.Poll(w.Poll))
	}
	return options.For[Kind](all)
}

// mutexOptionsOf returns the options of a mutex of any form.
func mutexOptionsOf(w Want) []holdfast.MutexOption {
	all := optionsOf[holdfast.MutexOption](w)
	if w.Again {
		all = append(all, holdfast.Reentrant())
	}
	return all
}

func (l *library) lock(w Want) (*holdfast.Lock, error) {
	mutex := mutexOptionsOf(w)
	switch w.Share {
	case Reading:
		return l.RWMutex(w.Name, options.For[holdfast.RWMutexOption](mutex)...).Reader(), nil
	case Writing:
		return l.RWMutex(w.Name, options.For[holdfast.RWMutexOption](mutex)...).Writer(), nil
	case Permits:
		return l.Semaphore(w.Name, w.Permits, optionsOf[holdfast.SemaphoreOption](w)...).Permits(w.Take), nil
	case Owned:
		return l.OwnerMutex(w.Name, fmt.Sprint("owner-", w.Owner), mutex...), nil
	case Together:
		return l.Multi(w.Names(), options.For[holdfast.MultiOption](mutex)...), nil
	case Agreed:
		q, err := l.quorum(w.NodeTimeout)
		if err != nil {
			return nil, err
		}
		return q.Mutex(w.Name, optionsOf[quorum.Option](w)...), nil
	}
	switch {
	case w.Redisson:
		return l.RedissonMutex(w.Key, mutex...), nil
	case w.Key != "":
		return l.MutexKey(w.Key, mutex...), nil
	}
	return l.Mutex(w.Name, mutex...), nil
}

// Acquire calls Acquire or TryAcquire.
func (l *library) Acquire(ctx context.Context, w Want) (Lease, error) {
	lock, err := l.lock(w)
	if err != nil {
		return nil, err
	}
	acquire := lock.Acquire
	if w.Try {
		acquire = lock.TryAcquire
	}
	got, err := acquire(ctx)
	if err != nil {
		return nil, err
	}
	return held{got, lock}, nil
}

// held is a lease and the lock of which it is.
type held struct {
	*holdfast.Lease
	lock *holdfast.Lock
}

// acquireAgain acquires the lock under the lease.
func (h held) acquireAgain() (Lease, error) {
	got, err := h.lock.Acquire(h.Context(context.Background()))
	if err != nil {
		return nil, err
	}
	return held{got, h.lock}, nil
}
