// Package behaviour tests what a mutex does when nothing goes wrong, and what it
// refuses, on the embedded server and on every real one.
package behaviour

import (
	"errors"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

func TestMain(m *testing.M) {
	backend.AtOnce(32)
	backend.LongLeases()
	os.Exit(m.Run())
}

// random returns random numbers for the nth goroutine of a test, the same in every run.
func random(n int) *rand.Rand { return rand.New(rand.NewPCG(uint64(n), 0)) }

// upTo returns a random duration below most.
func upTo(most time.Duration, r *rand.Rand) time.Duration {
	return time.Duration(r.Int64N(int64(most)))
}

// timedOut reports whether err is what a caller gets whose Wait is over. A real server may not yet have answered what it was
// asked last.
func timedOut(b *backend.Backend, err error) bool {
	return errors.Is(err, holdfast.ErrHeld) || b.Server != nil && errors.Is(err, holdfast.ErrUnavailable)
}

// queue acquires the lock in a goroutine, and returns when that many processes wait on the server.
func queue(t testing.TB, l *holdfast.Lock, waiters int) <-chan *holdfast.Lease {
	t.Helper()
	leases := backend.Start(t, l)
	backend.Waiters(t, l, waiters)
	return leases
}

// wantErr requires that err matches target; if that is nil, that there is no error.
func wantErr(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: %v; want %v", what, err, target)
	}
}

// errOf returns the error of a call that also returns something else.
func errOf[T any](_ T, err error) error { return err }

// must ends the test if there is an error, and noError goes on.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
