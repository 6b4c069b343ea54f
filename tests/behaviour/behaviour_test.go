// Package behaviour tests what a mutex does when nothing goes wrong, and what it
// refuses, on the embedded server and on every real one.
package behaviour

import (
	"context"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

func TestMain(m *testing.M) {
	backend.AtOnce(32)
	backend.LongLeases()
	os.Exit(m.Run())
}

// virtually runs a test as backend.Virtual does, in parallel with others.
func virtually(t *testing.T, f func(t *testing.T, b *backend.Backend)) {
	t.Parallel()
	backend.Virtual(t, f)
}

// eachOf is backend.Each in a subtest.
func eachOf(t *testing.T, what string, f func(t *testing.T, b *backend.Backend)) {
	t.Helper()
	t.Run(what, func(t *testing.T) { backend.Each(t, f) })
}

// async calls f in a goroutine, and returns where its result will be.
func async[T any](f func() T) <-chan T {
	over := make(chan T, 1)
	go func() { over <- f() }()
	return over
}

// lasting returns a context for calls that have to end within that time.
func lasting(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// random returns random numbers for the nth goroutine of a test, the same in every run.
func random(n int) *rand.Rand { return rand.New(rand.NewPCG(uint64(n), 0)) }

// upTo returns a random duration below most.
func upTo(most time.Duration, r *rand.Rand) time.Duration {
	return time.Duration(r.Int64N(int64(most)))
}

// queue acquires the lock in a goroutine, and returns when that many processes wait on the server.
func queue(t testing.TB, l *holdfast.Lock, waiters int) <-chan *holdfast.Lease {
	t.Helper()
	leases := backend.Start(t, l)
	backend.Waiters(t, l, waiters)
	return leases
}

// wantNoKeys requires that the server has no keys but the fence counter.
func wantNoKeys(t testing.TB, b *backend.Backend) {
	t.Helper()
	expect.Same(t, "keys left behind", b.Keys(t), nil)
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
