package exec

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// These operations are treated in a way of their own.
const (
	OpReach   = "reach"   // the first contact
	OpRelease = "release" // is repeated while the client closes
)

// Persist calls f, which sends something once, until it succeeds, as Server.Do does with a request. Each attempt is
// given up after CommandTimeout, and at once when ctx ends, even if f does not return then.
func Persist[T any](ctx context.Context, s *Server, op, name string, f func(context.Context) (T, error)) (result T, unanswered bool, err error) {
	return PersistSince(time.Time{}, ctx, s, op, name, f)
}

// PersistSince is Persist of something that has been tried since then, if that is not zero.
func PersistSince[T any](start time.Time, ctx context.Context, s *Server, op, name string, f func(context.Context) (T, error)) (result T, unanswered bool, err error) {
	if start.IsZero() {
		start = time.Now()
	}
	closing := s.cfg.Closing
	if op == OpRelease {
		closing = nil
	}
	var failure *Failure // of the latest attempt
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		result, err := Try(ctx, s, s.cfg.CommandTimeout, f)
		if err == nil {
			return result, unanswered, nil
		}
		fate, kind := Classify(err)
		unanswered = unanswered || fate == Unknown
		if over := ctx.Err(); over != nil && (err == over || err == NotSent{over}) {
			if failure == nil {
				return result, unanswered, s.Unheard(ctx, op, name, start)
			}
			failure.Ambiguous = unanswered
			return result, unanswered, EndedBy(ctx, failure)
		}
		failure = s.Failure(op, name, err)
		failure.Ambiguous = unanswered
		if ctx.Err() != nil && fate != Refused {
			return result, unanswered, EndedBy(ctx, failure)
		}
		left := s.cfg.RetryTimeout - time.Since(start)
		wait := min(pause/2+rand.N(pause/2), left)
		end, bounded := ctx.Deadline()
		if !Temporary(kind) || op == OpReach && Hopeless(err) || isRefused(err) && isHasty(ctx) || kind == ErrReadOnly && s.staysReadOnly() || left <= 0 || bounded && time.Until(end) < wait {
			return result, unanswered, failure
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return result, unanswered, EndedBy(ctx, failure)
		case <-closing:
			return result, unanswered, ErrClosed
		}
	}
}

type hastyKey struct{}

// Hasty returns a context with which a refused connection is an error at once, and not retried, unless ctx is Patient.
func Hasty(ctx context.Context) context.Context {
	if ctx.Value(hastyKey{}) != nil {
		return ctx
	}
	return context.WithValue(ctx, hastyKey{}, true)
}

// Patient returns a context with which a refused connection is retried as any other failure.
func Patient(ctx context.Context) context.Context { return context.WithValue(ctx, hastyKey{}, false) }

func isHasty(ctx context.Context) bool { return ctx.Value(hastyKey{}) == true }

// isRefused reports whether an error says that nothing listens at the server's address.
func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// Try calls f once, within timeout and ctx. f must return when its context ends; what it has sent may be carried out all the same.
func Try[T any](ctx context.Context, s *Server, timeout time.Duration, f func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, NotSent{err}
	}
	work, cancel := context.WithTimeoutCause(ctx, timeout, errTimedOut)
	defer cancel()
	value, err := f(work)
	switch over := ctx.Err(); {
	case err == nil || over == nil || !errors.Is(err, over):
		return value, err
	// mutants: left-before-sent
	case errors.Is(err, driver.ErrNotSent):
		return none, NotSent{over}
	default:
		return none, over
	}
}

// errTimedOut is the cause if an attempt's context ended by its own timeout, and not by its caller.
var errTimedOut = errors.New("the attempt took too long")

// shielded calls f, which uses the driver, in a goroutine. When ctx ends, shielded returns, and f goes on: cancelling the driver's
// context would tear down its connection. Nobody wants the reply any more then, but others want the connection.
func shielded[T any](ctx context.Context, s *Server, f func(context.Context) (T, error)) (T, error) {
	end := time.Now().Add(s.cfg.CommandTimeout)
	if wanted, bounded := ctx.Deadline(); bounded && wanted.After(end) {
		end = wanted
	}
	work, cancel := context.WithDeadline(context.WithoutCancel(ctx), end)
	type result struct {
		value T
		err   error
	}
	results := make(chan result, 1)
	sent := s.trying()
	s.cfg.Tasks.Run(func() {
		defer cancel()
		value, err := f(work)
		s.tried(sent, err)
		results <- result{value, err}
	})
	select {
	case r := <-results:
		return r.value, r.err
	case <-ctx.Done():
		if context.Cause(ctx) == errTimedOut { // f may never return
			s.tried(sent, ctx.Err())
		}
		var none T
		return none, ctx.Err()
	}
}

// Unheard returns the error of a request that was sent then, and not answered before ctx ended. If ctx was cancelled, that is
// ctx's error. If its deadline passed, the error also says that the server did not answer.
func (s *Server) Unheard(ctx context.Context, op, name string, sent time.Time) error {
	if ctx.Err() != context.DeadlineExceeded {
		return ctx.Err()
	}
	return EndedBy(ctx, &Failure{
		Op: op, Name: name, Server: s.Addr(), Kind: ErrUnavailable, Ambiguous: true,
		Err: fmt.Errorf("no answer for %s", time.Since(sent).Round(time.Millisecond)),
	})
}

// IsSilent reports whether a server that has answered before has left a request, sent then, unanswered for so long that
// something is wrong with it, or with the way to it.
func (s *Server) IsSilent(sent time.Time) bool {
	return time.Since(sent) > max(100*time.Millisecond, 4*s.RTT.Mean())
}

// AnswerGrace is how long a caller waits for an answer after its own time is up. It is long enough for a server, or a process, that
// is slow for a moment. If it were shorter, a waiter for a lock that is held might report an unavailable server instead.
func (s *Server) AnswerGrace() time.Duration {
	return max(min(time.Second, s.cfg.CommandTimeout), 4*s.RTT.Mean())
}

// staysReadOnly reports whether a server that refuses writes is most likely a replica, and not a master that was
// replaced: it has never taken a write from this client, and the driver finds no other server.
func (s *Server) staysReadOnly() bool {
	info := s.Info()
	return info != nil && !info.Cluster && !info.Sentinel && !s.written.Load()
}

// NotSent marks the error of something that was certainly not sent.
type NotSent struct{ error }

// Unsent returns err as the error of something that was certainly not sent.
func Unsent(err error) error { return NotSent{err} }

// Is makes a NotSent match driver.ErrNotSent.
func (e NotSent) Is(target error) bool { return target == driver.ErrNotSent }

// Unwrap returns the reason.
func (e NotSent) Unwrap() error { return e.error }
