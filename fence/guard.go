package fence

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Guard passes requests to handlers only if they show the latest fence seen.
//
// A check stays valid until the handler has written: a request with a higher fence for the same lock waits until
// handlers with lower fences have returned, or its own context ends. So that a client that is paused in the middle of a
// request cannot delay the next one, the contexts of those handlers end, with a cause that matches ErrStale, and reading
// their requests' bodies fails. This holds for handlers behind one Guard. If several servers write to one store, the
// store must compare as well: pass it the stamp that StampFrom returns.
//
// A Guard trusts the header. A client can show a fence above all others and so shut out every holder, for at most the
// MaxLead of the Guard's Marks. Admit only clients that you trust, for example with authentication before the Guard.
type Guard struct {
	// Marks remembers the highest fence seen for each lock.
	Marks Marks
	// Lock returns the name of the lock that a request needs, or "" if it needs none. It must not take the name from what
	// the client sends, since a client could name a lock that nobody else uses.
	Lock func(*http.Request) string
	// Report, if not nil, is called for each request that is refused, with the reason.
	Report func(r *http.Request, err error)

	active activeRequests
}

// Handler returns a handler that guards next. It refuses a request with one of these statuses:
//
//   - 412 Precondition Failed if the fence is stale. Repeating the request does not help. HeaderMark and HeaderMarkOwner
//     have the mark.
//   - 428 Precondition Required if the request has no fence but needs one, or has the fence of another lock.
//   - 400 Bad Request if the fence's headers are invalid, or Marks refuses the fence with ErrAhead.
//   - 503 Service Unavailable if Marks fails, or the request's context ends before older requests have.
//
// A request is guarded until its handler returns. What the handler leaves running after that is not guarded, nor is a
// handler inside the Guard that http.TimeoutHandler has given up.
func (g *Guard) Handler(next http.Handler) http.Handler {
	if g.Marks == nil || g.Lock == nil {
		panic("fence: a Guard needs Marks and Lock")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock := g.Lock(r)
		if lock == "" {
			next.ServeHTTP(w, r)
			return
		}
		s, found, err := readStamp(r.Header)
		switch {
		case err != nil:
			g.refuse(w, r, http.StatusBadRequest, err, "The fence in the request's header is invalid: "+err.Error()+".")
			return
		case !found:
			g.refuse(w, r, http.StatusPreconditionRequired, fmt.Errorf("%w of lock %q", ErrNoLease, lock),
				fmt.Sprintf("This request needs a lease of the lock %q, with its fence in the header.", lock))
			return
		case s.Lock != lock:
			g.refuse(w, r, http.StatusPreconditionRequired, fmt.Errorf("%w of lock %q: its fence is of lock %q", ErrNoLease, lock, s.Lock),
				fmt.Sprintf("This request needs a lease of the lock %q, not of %q.", lock, s.Lock))
			return
		}
		ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), stampKey{}, s))
		defer cancel(nil)
		a := g.active.enter(lock, s, func(later Stamp) {
			cancel(&StaleError{Resource: lock, Stamp: s, Mark: later.mark()})
			// If the deadline cannot be set, the server's own timeouts must do.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now())
		})
		defer g.active.leave(a)
		err = g.Marks.Raise(r.Context(), s, lock)
		if err == nil {
			err = g.active.endOlder(r.Context(), a)
		}
		var stale *StaleError
		switch {
		case errors.As(err, &stale):
			w.Header().Set(HeaderMark, strconv.FormatUint(stale.Mark.Fence, 10))
			w.Header().Set(HeaderMarkOwner, url.PathEscape(stale.Mark.Owner))
			g.refuse(w, r, http.StatusPreconditionFailed, err,
				fmt.Sprintf("Fence %d of the lock %q is stale: fence %d has been seen. The lease is over; do not repeat this request.", s.Fence, lock, stale.Mark.Fence))
		case errors.Is(err, ErrAhead):
			g.refuse(w, r, http.StatusBadRequest, err, fmt.Sprintf("Fence %d of the lock %q is too far ahead of the clock.", s.Fence, lock))
		case err != nil:
			// The error is not for the client, since it may name internal servers.
			g.refuse(w, r, http.StatusServiceUnavailable, err, "The fence cannot be checked now.")
		default:
			next.ServeHTTP(w, r.WithContext(ctx))
		}
	})
}

func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, status int, err error, text string) {
	if g.Report != nil {
		g.Report(r, err)
	}
	http.Error(w, text, status)
}

type stampKey struct{}

// StampFrom returns the stamp of a request that passed a Guard, given the request's context.
func StampFrom(ctx context.Context) (Stamp, bool) {
	s, ok := ctx.Value(stampKey{}).(Stamp)
	return s, ok
}
