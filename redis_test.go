package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) {
	engine.MinClaim = time.Minute // a machine that stands still must not cost a waiter the lock that it is handed
	redistest.Main(m)
}

// space is one test's part of the shared server: the keys and channels that begin with its prefix.
type space struct {
	t      *testing.T
	server *redistest.Server
	prefix string
}

func newSpace(t *testing.T) *space {
	t.Helper()
	return &space{t, redistest.Shared(t), redistest.Prefix()}
}

// inParallel returns a space for a test that runs in parallel with others.
func inParallel(t *testing.T) *space {
	t.Helper()
	t.Parallel()
	return newSpace(t)
}

// client returns a new client, which the server takes for another process. Its leases and timeouts outlast a machine that
// stands still for some seconds, unless change says otherwise.
func (s *space) client(change ...func(*holdfast.Config)) *holdfast.Client {
	s.t.Helper()
	return s.clientWith(s.server.Driver(), change...)
}

func (s *space) clientWith(d driver.Driver, change ...func(*holdfast.Config)) *holdfast.Client {
	s.t.Helper()
	cfg := &holdfast.Config{Prefix: s.prefix, TTL: time.Minute, CommandTimeout: 10 * time.Second, RetryTimeout: time.Minute}
	for _, f := range change {
		f(cfg)
	}
	c, err := holdfast.New(d, cfg)
	must(s.t, err)
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if s.t.Failed() {
			cancel() // leases that the test did not release are not waited for
		}
		if err := c.Close(ctx); err != nil && !s.t.Failed() {
			s.t.Errorf("Close: %v", err)
		}
	})
	return c
}

// tapped returns a client whose calls all go through on.
func (s *space) tapped(on func(ctx context.Context, call driver.Call, next redistest.Run) (string, error), change ...func(*holdfast.Config)) *holdfast.Client {
	s.t.Helper()
	return s.clientWith(redistest.Tap{Driver: s.server.Driver(), On: on}, change...)
}

// do runs a command on the server.
func (s *space) do(args ...string) string {
	s.t.Helper()
	reply, err := s.server.Do(args...)
	if err != nil {
		s.t.Fatalf("%q: %v", args, err)
	}
	return reply
}

// key returns the key of the lock with that name.
func (s *space) key(name string) string { return s.prefix + "{" + name + "}" }

// steal makes the lock of that name another program's, and give frees it again.
func (s *space) steal(name string) { s.t.Helper(); s.do("SET", s.key(name), "theirs") }
func (s *space) give(name string)  { s.t.Helper(); s.do("DEL", s.key(name)) }

// cleaned requires that soon nothing of the test's locks is left on the server, except what remembers late requests and
// expires by itself.
func (s *space) cleaned() {
	s.t.Helper()
	eventually(s.t, "nothing is left on the server", func() bool {
		for key := range strings.Lines(s.do("KEYS", s.prefix+"*")) {
			if key = strings.TrimSpace(key); key != "" && s.do("PTTL", key) == "-1" && !strings.HasPrefix(key, s.prefix+"fence") {
				return false
			}
		}
		return true
	})
}

// patience bounds waits for what has to happen, so that a test that hangs ends.
const patience = 5 * time.Minute

// eventually waits until f returns true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %s it is still not true that %s", patience, what)
		}
	}
}

// receive waits for a value from a goroutine.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("nothing came for %s", patience)
		panic("unreachable")
	}
}

// outcome is the result of a call in a goroutine.
type outcome[T any] struct {
	value T
	err   error
}

// start calls f in a goroutine.
func start[T any](t *testing.T, f func(context.Context) (T, error)) <-chan outcome[T] {
	over := make(chan outcome[T], 1)
	go func() {
		v, err := f(soon(t))
		over <- outcome[T]{v, err}
	}()
	return over
}

// succeeded waits for a call that must succeed.
func succeeded[T any](t *testing.T, from <-chan outcome[T]) T {
	t.Helper()
	got := receive(t, from)
	if got.err != nil {
		t.Fatal(got.err)
	}
	return got.value
}

// wantWaiting requires that a call has not returned yet.
func wantWaiting[T any](t *testing.T, who string, from <-chan T) {
	t.Helper()
	select {
	case got := <-from:
		t.Fatalf("%s has not waited: %+v", who, got)
	default:
	}
}

// soon returns a context for calls that must not hang.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func acquire(t *testing.T, l *holdfast.Lock) *holdfast.Lease {
	t.Helper()
	lease, err := l.Acquire(soon(t))
	if err != nil {
		t.Fatalf("Acquire of %s: %v", l, err)
	}
	return lease
}

func release(t *testing.T, leases ...*holdfast.Lease) {
	t.Helper()
	for _, l := range leases {
		if err := l.Release(t.Context()); err != nil {
			t.Fatalf("Release of %s: %v", l, err)
		}
	}
}

// answered calls f until the server has answered it in time: a slow machine can miss the bound of a short Wait.
func answered(t *testing.T, f func() error) error {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		err := f()
		var refused *holdfast.ServerError
		if !errors.As(err, &refused) || !errors.Is(err, holdfast.ErrUnavailable) || refused.Code != "" || time.Now().After(end) {
			return err
		}
	}
}

// locked is anything that has a status.
type locked interface {
	Status(ctx context.Context) (holdfast.Status, error)
}

func status(t *testing.T, l locked) holdfast.Status {
	t.Helper()
	s, err := l.Status(t.Context())
	if err != nil {
		t.Fatalf("Status: %v", err)
	}
	return s
}

// awaitWaiters waits until that many processes are queued.
func awaitWaiters(t *testing.T, l locked, n int) {
	t.Helper()
	eventually(t, "the waiters are queued", func() bool { return len(status(t, l).Waiters) == n })
}

// awaitRelease waits until nobody holds the lock, as after a release in the background.
func awaitRelease(t *testing.T, l locked) {
	t.Helper()
	eventually(t, "the lock is free", func() bool { return !status(t, l).Held() })
}

// wantHeld requires that a lock is somebody else's.
func wantHeld(t *testing.T, l *holdfast.Lock) {
	t.Helper()
	if lease, err := l.TryAcquire(soon(t)); !errors.Is(err, holdfast.ErrHeld) {
		t.Errorf("TryAcquire of %s: %v, %v; want ErrHeld", l, lease, err)
	}
}

// want requires that err matches target.
func want(t *testing.T, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: %v; want %v", what, err, target)
	}
}

// equal requires that what was got is what was wanted.
func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v; want %v", what, got, want)
	}
}

// heldBy requires that err says that the lock of that name is held, by whom, if that is not "", and with which fence, if there is a lease.
func heldBy(t *testing.T, what string, err error, name, identity string, lease *holdfast.Lease) {
	t.Helper()
	var held *holdfast.HeldError
	if !errors.As(err, &held) || held.Name != name || identity != "" && held.Holder.Identity != identity || lease != nil && !isFenceOf(held.Holder.Fence, lease) {
		t.Errorf("%s: %v; want that %q is held by %q", what, err, name, identity)
	}
}

// must ends the test if there is an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
