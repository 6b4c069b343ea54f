package inspect_test

import (
	"context"
	"errors"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// newClient returns a client with a prefix that no other test has, of a server that all tests share.
func newClient(t *testing.T) *holdfast.Client {
	t.Helper()
	c, err := holdfast.New(redistest.Shared(t).Driver(), &holdfast.Config{
		Prefix: redistest.Prefix(), TTL: time.Minute, CommandTimeout: 10 * time.Second, RetryTimeout: time.Minute, Owner: "me",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func acquire(t *testing.T, l *holdfast.Lock) *holdfast.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lease.Release(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return lease
}

func TestListAndGet(t *testing.T) {
	t.Parallel()
	c, other := newClient(t), newClient(t)
	mutex := acquire(t, c.Mutex("orders/1"))
	acquire(t, c.Mutex("orders/2/a"))
	acquire(t, c.Semaphore("slots", 3).Permits(2))
	acquire(t, other.Mutex("orders/3"))
	in := inspect.New(c)
	for pattern, want := range map[string][]string{"": {"orders/1", "orders/2/a", "slots"}, "orders/*": {"orders/1"}, "*": {"slots"}, "nothing": nil} {
		var got []string
		for s, err := range in.List(t.Context(), pattern) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, s.Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%q lists %q, want %q", pattern, got, want)
		}
	}
	s, err := in.Get(t.Context(), "orders/1")
	if h, held := s.Holder(); err != nil || !held || s.Kind != holdfast.KindMutex || h.Owner != "me" || h.Fence != mutex.Fence() || s.Fence != mutex.Fence() {
		t.Errorf("Get: %+v, %v", s, err)
	}
	if s, err = in.Get(t.Context(), "slots"); err != nil || s.Kind != holdfast.KindSemaphore || s.Limit != 3 || s.Holders[0].Permits != 2 {
		t.Errorf("Get: %+v, %v", s, err)
	}
	if s, err = in.Get(t.Context(), "free"); err != nil || s.Kind != "" || s.Held() || s.Name != "free" {
		t.Errorf("Get of a free lock: %+v, %v", s, err)
	}
}

func TestBadArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	in := inspect.New(newClient(t))
	for _, err := range in.List(t.Context(), "a[") {
		if !errors.Is(err, holdfast.ErrInvalid) || !errors.Is(err, path.ErrBadPattern) {
			t.Errorf("List: %v", err)
		}
	}
	if _, err := in.Get(t.Context(), "a\nb"); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("Get: %v", err)
	}
}
