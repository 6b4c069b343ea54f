package main

import (
	"context"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// etcdLocker has one client, and one session for all locks, whose lease renews them together. In contended, each goroutine
// has a session of its own: etcd's mutex does not exclude goroutines that share one.
type etcdLocker struct {
	c        *clientv3.Client
	sessions []*concurrency.Session
	taken    atomic.Int64
}

func openEtcd(j job) (locker, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: j.Addrs})
	if err != nil {
		return nil, err
	}
	l := &etcdLocker{c: c}
	sessions := 1
	if j.Kind == "contended" {
		sessions = j.Goroutines
	}
	for range sessions {
		s, err := concurrency.NewSession(c, concurrency.WithTTL(int(ttl/time.Second)))
		if err != nil {
			l.close()
			return nil, err
		}
		l.sessions = append(l.sessions, s)
	}
	return l, nil
}

// lock gives the sessions to locks in turn.
func (l *etcdLocker) lock(name string) lock {
	s := l.sessions[int(l.taken.Add(1))%len(l.sessions)]
	return &etcdLock{s, concurrency.NewMutex(s, name)}
}

// close leaves the sessions' leases: the servers end after the turn.
func (l *etcdLocker) close() { _ = l.c.Close() }

type etcdLock struct {
	s *concurrency.Session
	m *concurrency.Mutex
}

func (l *etcdLock) acquire(ctx context.Context) error { return l.m.Lock(ctx) }

func (l *etcdLock) release() error { return l.m.Unlock(context.Background()) }

func (l *etcdLock) lost() bool {
	select {
	case <-l.s.Done():
		return true
	default:
		return false
	}
}
