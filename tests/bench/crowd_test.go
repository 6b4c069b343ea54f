package main

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// A waiter subscribes, is told of the release, has the lock, and unsubscribes. Nothing is left on the server.
func TestRedissonsLockOverGoredis(t *testing.T) {
	s := server.Start(t, server.One(t))
	l, err := redissonScriptsOverGoredis(job{Addrs: []string{s.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	listeners := func(want int64) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; {
			reply, err := s.Do("PUBSUB", "NUMSUB", "redisson_lock__channel:{lock}")
			if err != nil {
				t.Fatal(err)
			}
			if reply.([]any)[1] == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%v listen, not %d", reply, want)
			}
		}
	}
	first, second := l.lock("lock"), l.lock("lock")
	if err := second.release(); !errors.Is(err, errNotHeld) {
		t.Errorf("a release of a lock that is not held: %v", err)
	}
	for range 3 {
		if err := first.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		listeners(0)
		acquired := make(chan error)
		go func() { acquired <- second.acquire(t.Context()) }()
		listeners(1)
		select {
		case err := <-acquired:
			t.Fatalf("two have the lock: %v", err)
		default:
		}
		if err := first.release(); err != nil {
			t.Fatal(err)
		}
		// The lock's lease lasts longer than this.
		select {
		case err := <-acquired:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(ttl / 2):
			t.Fatal("the waiter was not told of the release")
		}
		if err := second.release(); err != nil {
			t.Fatal(err)
		}
		listeners(0)
	}
	if keys, err := s.Do("DBSIZE"); keys != int64(0) {
		t.Errorf("%v keys are left: %v", keys, err)
	}
}

// What a crowd's turn counts lies between the coming and the going of its processes.
func TestACrowdIsCountedWhileAllAreThere(t *testing.T) {
	var before, after crowdReading
	before.cycles, before.cpu, before.sent = 100, time.Second, 1000
	after.cycles, after.cpu, after.sent = 300, time.Second+20*time.Millisecond, 1500
	got, err := after.since(before, 2*time.Second)
	if err != nil || got["rate"] != 100 || got["redis_us"] != 100 || got["commands"] != 2.5 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := before.since(before, time.Second); err == nil {
		t.Errorf("nobody had the lock, but the figures are %v", got)
	}
}
