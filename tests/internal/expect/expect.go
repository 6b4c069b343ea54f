// Package expect has the checks that most tests make. Each says what was checked, what was got, and what was wanted.
package expect

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
)

// OK ends the test if there is an error.
func OK(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Result is what a call returned.
type Result[T any] struct {
	value T
	err   error
}

// Of returns the result of a call, as in expect.Of(os.Open(name)).OK(t).
func Of[T any](value T, err error) Result[T] { return Result[T]{value, err} }

// OK returns the value, or ends the test if there is an error.
func (r Result[T]) OK(tb testing.TB) T {
	tb.Helper()
	OK(tb, r.err)
	return r.value
}

// Is requires that the call has returned that value, and no error.
func (r Result[T]) Is(tb testing.TB, what string, want T) {
	tb.Helper()
	if r.err != nil || any(r.value) != any(want) {
		tb.Errorf("%s: %v, %v; want %v", what, r.value, r.err, want)
	}
}

// ErrOf returns the error of a call that also returns something else.
func ErrOf[T any](_ T, err error) error { return err }

// Err requires that err matches target, or is nil if target is nil.
func Err(tb testing.TB, what string, err, target error) {
	tb.Helper()
	if !errors.Is(err, target) {
		tb.Errorf("%s: %v; want %v", what, err, target)
	}
}

// ErrBut requires that err matches target, and not the other.
func ErrBut(tb testing.TB, what string, err, target, other error) {
	tb.Helper()
	if !errors.Is(err, target) || errors.Is(err, other) {
		tb.Errorf("%s: %v; want %v, and not %v", what, err, target, other)
	}
}

// ErrBoth requires that err matches both targets.
func ErrBoth(tb testing.TB, what string, err, one, other error) {
	tb.Helper()
	if !errors.Is(err, one) || !errors.Is(err, other) {
		tb.Errorf("%s: %v; want %v and %v", what, err, one, other)
	}
}

// ErrSays requires that err matches target, and that its text contains what was wanted.
func ErrSays(tb testing.TB, what string, err, target error, want string) {
	tb.Helper()
	if !errors.Is(err, target) || !strings.Contains(err.Error(), want) {
		tb.Errorf("%s: %v; want %v with %q in it", what, err, target, want)
	}
}

// Fails requires that there is an error.
func Fails(tb testing.TB, what string, err error) {
	tb.Helper()
	if err == nil {
		tb.Errorf("%s: no error", what)
	}
}

// Equal requires that what was got is what was wanted.
func Equal[T comparable](tb testing.TB, what string, got, want T) {
	tb.Helper()
	if got != want {
		tb.Errorf("%s: %v; want %v", what, got, want)
	}
}

// Same requires that a list has what was wanted, in this order.
func Same[T comparable](tb testing.TB, what string, got, want []T) {
	tb.Helper()
	if !slices.Equal(got, want) {
		tb.Errorf("%s: %v; want %v", what, got, want)
	}
}

// Contains requires that a text contains what was wanted.
func Contains(tb testing.TB, what, got, want string) {
	tb.Helper()
	if !strings.Contains(got, want) {
		tb.Errorf("%s: %q; want %q in it", what, got, want)
	}
}

// Begins requires that a text begins as was wanted.
func Begins(tb testing.TB, what, got, want string) {
	tb.Helper()
	if !strings.HasPrefix(got, want) {
		tb.Errorf("%s: %q; want %q at its begin", what, got, want)
	}
}

// Lacks requires that a text does not contain what is unwanted.
func Lacks(tb testing.TB, what, got, unwanted string) {
	tb.Helper()
	if strings.Contains(got, unwanted) {
		tb.Errorf("%s: %q; %q is in it", what, got, unwanted)
	}
}

// Between requires that what was got is within bounds.
func Between[T cmp.Ordered](tb testing.TB, what string, got, least, most T) {
	tb.Helper()
	if got < least || got > most {
		tb.Errorf("%s: %v; want %v to %v", what, got, least, most)
	}
}

// AtMost requires that what was got does not exceed most.
func AtMost[T cmp.Ordered](tb testing.TB, what string, got, most T) {
	tb.Helper()
	if got > most {
		tb.Errorf("%s: %v; want at most %v", what, got, most)
	}
}

// AtLeast requires that what was got is not below least.
func AtLeast[T cmp.Ordered](tb testing.TB, what string, got, least T) {
	tb.Helper()
	if got < least {
		tb.Errorf("%s: %v; want at least %v", what, got, least)
	}
}

// Rises requires that one fence is above another that was granted before it.
func Rises[T cmp.Ordered](tb testing.TB, before, fence T) {
	tb.Helper()
	if fence <= before {
		tb.Errorf("fence %v follows %v", fence, before)
	}
}
