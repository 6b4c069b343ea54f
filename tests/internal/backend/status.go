package backend

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
)

// Locked is anything that tells its status: a lock, a latch, an election and so on.
type Locked interface {
	Status(ctx context.Context) (holdfast.Status, error)
}

// HolderOf returns who holds a lock, one of them if there are several; holdfast.ErrNotHeld if nobody does.
func HolderOf(ctx context.Context, l Locked) (holdfast.Holder, error) {
	s, err := l.Status(ctx)
	if err != nil {
		return holdfast.Holder{}, err
	}
	h, held := s.Holder()
	if !held {
		return h, holdfast.ErrNotHeld
	}
	return h, nil
}

// HoldersOf returns all who hold a lock.
func HoldersOf(ctx context.Context, l Locked) ([]holdfast.Holder, error) {
	s, err := l.Status(ctx)
	return s.Holders, err
}

// IsHeld reports whether anybody holds a lock.
func IsHeld(ctx context.Context, l Locked) (bool, error) {
	s, err := l.Status(ctx)
	return s.Held(), err
}

// Waiting returns how many processes wait for a lock that is held.
func Waiting(ctx context.Context, l Locked) (int, error) {
	s, err := l.Status(ctx)
	if err == nil && !s.Held() {
		err = holdfast.ErrNotHeld
	}
	return len(s.Waiters), err
}

// HasCode reports whether an error is that of a server which is unavailable, in its own word.
func HasCode(err error, code string) bool {
	var server *holdfast.ServerError
	return errors.As(err, &server) && server.Code == code && errors.Is(err, holdfast.ErrUnavailable)
}

// Code is the word of a server that is unavailable, as an error that Matches compares with.
type Code string

func (c Code) Error() string { return string(c) }

// Matches is errors.Is, and HasCode if what is wanted is a Code.
func Matches(err, want error) bool {
	if code, is := want.(Code); is {
		return HasCode(err, string(code))
	}
	return errors.Is(err, want)
}

// Renew is the option of a lease that is renewed, or is not.
func Renew(on bool) holdfast.Option {
	if on {
		return holdfast.Options()
	}
	return holdfast.NoRenew()
}

// IsDone reports whether a job was completed in its window.
func IsDone(ctx context.Context, job *holdfast.Once) (bool, error) {
	last, err := job.Last(ctx)
	if errors.Is(err, holdfast.ErrOnceNone) {
		return false, nil
	}
	return last.Current, err
}
