package backend

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/once"
)

// Locked is anything that has a status: a lock, a latch, an election and so on.
type Locked interface {
	Status(ctx context.Context) (holdfast.Status, error)
}

// HolderOf returns a holder of the lock, or holdfast.ErrNotHeld if there is none.
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

// HoldersOf returns all holders of a lock.
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
	return s.Waiting, err
}

// HasCode reports whether err says that the server is unavailable, with that code.
func HasCode(err error, code string) bool {
	var server *holdfast.ServerError
	return errors.As(err, &server) && server.Code == code && errors.Is(err, holdfast.ErrUnavailable)
}

// Code is a server's error code, as an error for Matches to compare with.
type Code string

func (c Code) Error() string { return string(c) }

// Matches is errors.Is, or HasCode if want is a Code.
func Matches(err, want error) bool {
	if code, is := want.(Code); is {
		return HasCode(err, string(code))
	}
	return errors.Is(err, want)
}

// Renew returns the option that makes a lease renewed, or not renewed.
func Renew(on bool) holdfast.Option {
	if on {
		return holdfast.Options()
	}
	return holdfast.NoRenew()
}

// IsDone reports whether a job was completed in its window.
func IsDone(ctx context.Context, job *once.Job) (bool, error) {
	last, err := job.Last(ctx)
	if errors.Is(err, once.ErrNone) {
		return false, nil
	}
	return last.Current, err
}
