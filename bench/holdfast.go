package main

import (
	"context"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfastrueidis"
)

func holdfastOverGoredis(localHandovers int) func(string) (locker, error) {
	return func(addr string) (locker, error) {
		rdb := dialGoredis(addr)
		return newHoldfast(holdfastgoredis.New(rdb), localHandovers, func() { _ = rdb.Close() })
	}
}

func holdfastOverRueidis(localHandovers int) func(string) (locker, error) {
	return func(addr string) (locker, error) {
		return newHoldfast(holdfastrueidis.New(rueidisOption(addr)), localHandovers, func() {})
	}
}

type holdfastLocker struct {
	client *holdfast.Client
	after  func() // what is left to close
}

func newHoldfast(d holdfast.Driver, localHandovers int, after func()) (locker, error) {
	c, err := holdfast.New(d, &holdfast.Config{TTL: ttl, LocalHandovers: localHandovers})
	if err != nil {
		return nil, err
	}
	return &holdfastLocker{c, after}, nil
}

func (l *holdfastLocker) lock(name string) lock { return &holdfastLock{l: l.client.Mutex(name)} }

func (l *holdfastLocker) close() {
	_ = l.client.Close(context.Background())
	l.after()
}

type holdfastLock struct {
	l     *holdfast.Lock
	lease *holdfast.Lease
}

func (l *holdfastLock) acquire(ctx context.Context) (err error) {
	l.lease, err = l.l.Acquire(ctx)
	return err
}

func (l *holdfastLock) release() error { return l.lease.Release(context.Background()) }

func (l *holdfastLock) lost() bool { return l.lease.Err() != nil }
