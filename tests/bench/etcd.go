package main

import (
	"context"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// openEtcd makes one client, and one session for all locks, whose lease renews them together. In contended, each goroutine
// has a session of its own: etcd's mutex does not exclude goroutines that share one. The sessions' leases are left: the servers
// end after the turn.
func openEtcd(j job) (locker, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: j.Addrs})
	if err != nil {
		return nil, err
	}
	sessions := make([]*concurrency.Session, 1)
	if j.Kind == "contended" {
		sessions = make([]*concurrency.Session, j.Goroutines)
	}
	for i := range sessions {
		if sessions[i], err = concurrency.NewSession(c, concurrency.WithTTL(int(ttl/time.Second))); err != nil {
			_ = c.Close()
			return nil, err
		}
	}
	var taken atomic.Int64
	return &maker{end: func() { _ = c.Close() }, mutex: func(name string) lock {
		s := sessions[int(taken.Add(1))%len(sessions)]
		m := concurrency.NewMutex(s, name)
		return &handle{
			take: m.Lock,
			free: func() error { return m.Unlock(context.Background()) },
			isLost: func() bool {
				select {
				case <-s.Done():
					return true
				default:
					return false
				}
			},
		}
	}}, nil
}
