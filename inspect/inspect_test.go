package inspect_test

import (
	"context"
	"errors"
	"net"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// newClient returns a client with a prefix that no other test has, of a server that all tests share.
func newClient(t *testing.T) *holdfast.Client {
	t.Helper()
	c, err := holdfast.New(redistest.Shared(t).Driver(), &holdfast.Config{
		Prefix: redistest.Prefix(), TTL: time.Minute, CommandTimeout: 10 * time.Second, RetryTimeout: time.Minute, Identity: "me",
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
	if h, held := s.Holder(); err != nil || !held || s.Kind != holdfast.KindMutex || h.Identity != "me" || h.Grant == "" || h.Fence != 0 && h.Fence != mutex.Fence() {
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

// Without a pattern, locks are watched whose names no pattern of one * matches.
func TestWatchSeesAllLocks(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for _, name := range []string{"plain", "orders/1", "orders/2/a"} {
		acquire(t, c.Mutex(name))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := map[string]inspect.EventType{}
	for e, err := range inspect.New(c).Watch(ctx, "") {
		if err != nil {
			t.Fatalf("%v; seen until then: %v", err, seen)
		}
		if seen[e.Status.Name] = e.Type; len(seen) == 3 {
			break
		}
	}
	for name, what := range seen {
		if what != inspect.EventPresent {
			t.Errorf("%s: %s", name, what)
		}
	}
}

// An error about many locks names no lock, but what was tried, and where.
func TestErrorsSayWhatWasTried(t *testing.T) {
	t.Parallel()
	c, err := holdfast.New(adapter.Bare("127.0.0.1:1", func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:1")
	}), &holdfast.Config{RetryTimeout: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	in := inspect.New(c)
	tried := map[string]error{}
	for _, err := range in.List(t.Context(), "") {
		tried["list all locks"] = err
	}
	for _, err := range in.Watch(t.Context(), "orders/*") {
		tried[`watch locks that match "orders/*"`] = err
		break
	}
	for _, err := range in.History(t.Context()) {
		tried["list breaks"] = err
	}
	for task, err := range tried {
		want := "holdfast: " + task + " on 127.0.0.1:1: server is unavailable: "
		if !errors.Is(err, holdfast.ErrUnavailable) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if len(tried) != 3 {
		t.Errorf("%d of 3 fail", len(tried))
	}
}
