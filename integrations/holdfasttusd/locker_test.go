package holdfasttusd_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/integrations/holdfasttusd"
)

func newLock(t *testing.T, l *holdfasttusd.Locker, id string) handler.Lock {
	t.Helper()
	lock, err := l.NewLock(id)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// locked locks an upload; what ends it may call requestUnlock.
func locked(t *testing.T, l *holdfasttusd.Locker, id string, requestUnlock func()) handler.Lock {
	t.Helper()
	lock := newLock(t, l, id)
	must(t, "Lock", lock.Lock(t.Context(), requestUnlock))
	return lock
}

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func never(t *testing.T) func() {
	return func() { t.Error("a request is asked to stop, though nobody waits") }
}

// pairs calls f with two requests' lockers: those of one process, and those of two.
func pairs(t *testing.T, f func(t *testing.T, one, other *holdfasttusd.Locker)) {
	for where, lockers := range map[string]func(t *testing.T) (one, other *holdfasttusd.Locker){
		"in one process": func(t *testing.T) (one, other *holdfasttusd.Locker) {
			l := holdfasttusd.NewLocker(holdfasttest.New(t).Client)
			return l, l
		},
		"in two processes": func(t *testing.T) (one, other *holdfasttusd.Locker) {
			c := holdfasttest.New(t)
			return holdfasttusd.NewLocker(c.Client), holdfasttusd.NewLocker(c.Server.NewClient(t, nil).Client)
		},
	} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one, other := lockers(t)
				f(t, one, other)
			})
		})
	}
}

func TestTimeout(t *testing.T) {
	pairs(t, func(t *testing.T, one, other *holdfasttusd.Locker) {
		var asked atomic.Int64
		lock := locked(t, one, "a", func() { asked.Add(1) })
		began := time.Now()
		if err := newLock(t, other, "a").Lock(within(t, 20*time.Second), never(t)); !errors.Is(err, handler.ErrLockTimeout) {
			t.Errorf("Lock: %v", err)
		}
		if took := time.Since(began); took < 20*time.Second {
			t.Errorf("it waits for %s", took)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("the holder is asked %d times", n)
		}
		must(t, "Unlock", lock.Unlock())
		must(t, "Unlock", locked(t, other, "a", never(t)).Unlock())
	})
}

func TestRequestUnlock(t *testing.T) {
	pairs(t, func(t *testing.T, one, other *holdfasttusd.Locker) {
		for _, age := range []time.Duration{0, time.Minute} {
			var lock handler.Lock
			var asked time.Time
			lock = locked(t, one, "a", func() {
				asked = time.Now()
				time.Sleep(10 * time.Millisecond)
				must(t, "Unlock", lock.Unlock())
			})
			time.Sleep(age)
			began := time.Now()
			second := newLock(t, other, "a")
			must(t, "Lock", second.Lock(within(t, 20*time.Second), never(t)))
			if took := asked.Sub(began); took > 2*time.Second {
				t.Errorf("the holder is asked after %s", took)
			}
			time.Sleep(time.Minute) // nobody asks it
			must(t, "Unlock", second.Unlock())
		}
	})
}

// Of several requests each gets the lock, since each that has it is asked to let go as long as others wait.
func TestSeveralRequests(t *testing.T) {
	pairs(t, func(t *testing.T, one, other *holdfasttusd.Locker) {
		inside := 0
		var all sync.WaitGroup
		for i := range 6 {
			l := []*holdfasttusd.Locker{one, other}[i%2]
			all.Go(func() {
				lock, asked := newLock(t, l, "a"), make(chan struct{})
				must(t, "Lock", lock.Lock(within(t, time.Minute), func() { close(asked) }))
				if inside++; inside != 1 {
					t.Errorf("%d are inside", inside)
				}
				select {
				case <-asked:
				case <-time.After(time.Hour): // the last one
				}
				inside--
				must(t, "Unlock", lock.Unlock())
			})
		}
		all.Wait()
	})
}

// A request that has lost its lock is to stop.
func TestALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := holdfasttest.New(t)
		told := make(chan struct{})
		lock := locked(t, holdfasttusd.NewLocker(c.Client), "a", func() { close(told) })
		c.Expire("tusd/a")
		<-told
		if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock: %v", err)
		}
		if err := lock.Unlock(); err == nil {
			t.Error("Unlock without Lock succeeds")
		}
	})
}

// Without a server no request gets a lock.
func TestNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := holdfasttest.New(t)
		l := holdfasttusd.NewLocker(c.Client)
		defer c.Partition()()
		if err := newLock(t, l, "a").Lock(within(t, time.Minute), never(t)); !errors.Is(err, holdfast.ErrUnavailable) {
			t.Errorf("Lock: %v", err)
		}
	})
}

// An upload's ID may be longer than a lock's name.
func TestALongID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := holdfasttusd.NewLocker(holdfasttest.New(t).Client)
		one := locked(t, l, strings.Repeat("x", 2000), never(t))
		other := locked(t, l, strings.Repeat("x", 2001), never(t))
		must(t, "Unlock", one.Unlock())
		must(t, "Unlock", other.Unlock())
	})
}
