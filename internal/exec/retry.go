package exec

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/pipe"
)

// Operations that are treated in a special way.
const (
	OpReach   = "reach"   // the first contact
	OpRelease = "release" // goes on while the client closes
)

// Persist calls f, which sends something once, until it succeeds, by the same rules as Server.Do. Each attempt ends after CommandTimeout,
// and at once when ctx ends, even if f has not returned by then. The first attempt began at start; zero means now.
func Persist[T any](ctx context.Context, s *Server, op, name string, start time.Time, f func(context.Context) (T, error)) (result T, unanswered bool, err error) {
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
		if over := ctx.Err(); over != nil && (err == over || err == Unsent(over)) {
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

// Hasty returns a context within which a refused connection is an error at once, without retries, unless ctx is Patient.
func Hasty(ctx context.Context) context.Context {
	if ctx.Value(hastyKey{}) != nil {
		return ctx
	}
	return context.WithValue(ctx, hastyKey{}, true)
}

// Patient returns a context within which a refused connection is retried like any other failure.
func Patient(ctx context.Context) context.Context { return context.WithValue(ctx, hastyKey{}, false) }

func isHasty(ctx context.Context) bool { return ctx.Value(hastyKey{}) == true }

// isRefused reports whether an error says that nothing listens at the server's address.
func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// Try calls f once, within timeout and ctx. f must return when its context ends. The server may carry out what f has sent by then all the
// same.
func Try[T any](ctx context.Context, s *Server, timeout time.Duration, f func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, Unsent(err)
	}
	work, cancel := context.WithTimeoutCause(ctx, timeout, errTimedOut)
	defer cancel()
	value, err := f(work)
	switch over := ctx.Err(); {
	case err == nil || over == nil || !errors.Is(err, over):
		return value, err
	// mutants: left-before-sent
	case errors.Is(err, driver.ErrNotSent):
		return none, Unsent(over)
	default:
		return none, over
	}
}

// errTimedOut is the cause of an attempt's context if the attempt's own timeout ended it, not the caller.
var errTimedOut = errors.New("the attempt took too long")

// shielded calls f, which uses the driver, in a goroutine. When ctx ends, shielded returns but f goes on: cancelling the driver's context
// would tear down a connection that other requests use.
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

// Unheard returns the error of a request that was sent at sent and not answered before ctx ended. If ctx was cancelled, that is ctx's
// error. If ctx's deadline passed, the error also says that the server did not answer.
func (s *Server) Unheard(ctx context.Context, op, name string, sent time.Time) error {
	if ctx.Err() != context.DeadlineExceeded {
		return ctx.Err()
	}
	return EndedBy(ctx, &Failure{
		Op: op, Name: name, Server: s.Addr(), Kind: ErrUnavailable, Ambiguous: true,
		Err: fmt.Errorf("no answer for %s", time.Since(sent).Round(time.Millisecond)),
	})
}

// IsSilent reports whether a request sent at sent, and not answered since, has waited so long that something is wrong with the server, or
// with the way to it. The server has answered before.
func (s *Server) IsSilent(sent time.Time) bool {
	return time.Since(sent) > max(100*time.Millisecond, 4*s.RTT.Mean())
}

// AnswerGrace returns how long a caller waits for an answer after its own time is up: long enough for a server or a process that is slow
// for a moment. If it were shorter, a waiter for a lock that is held might report an unavailable server instead.
func (s *Server) AnswerGrace() time.Duration {
	return max(min(time.Second, s.cfg.CommandTimeout), 4*s.RTT.Mean())
}

// staysReadOnly reports whether a server that refuses writes is most likely a replica, not a master that was replaced: it has never
// accepted a write from this client, and the driver cannot find another server.
func (s *Server) staysReadOnly() bool {
	info := s.Info()
	return info != nil && !info.Cluster && !info.Sentinel && !s.written.Load()
}

// Unsent returns err as the error of a request that was certainly not sent.
func Unsent(err error) error { return pipe.NotSent{Err: err} }
