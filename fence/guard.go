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

// Guard lets requests through to handlers only with the fence of the latest lease seen.
//
// A check that was passed still holds when the handler writes: a request with a higher
// fence for the same lock waits until handlers with lower ones have returned, as long as
// its context lasts. Their contexts end, with a cause that matches ErrStale, and reading
// their bodies fails, lest a client that is paused in the middle of its request hold up
// the next. That goes for handlers behind one Guard. Where several servers write to one
// store, that store has to compare, too: hand it the stamp that StampFrom returns.
//
// A Guard believes the header: whoever may send requests can show a fence above all
// others, and so shut out every holder, for as long as the MaxLead of its Marks at most. Let in only clients
// that you trust, such as by authentication before the Guard.
type Guard struct {
	// Marks remembers the highest fence seen of each lock.
	Marks Marks
	// Lock names the lock under which a request has to be made, "" for none. Do not
	// take the name from what the client says: it could name a lock that nobody
	// else uses.
	Lock func(*http.Request) string
	// Report, unless nil, hears of each request that is not let through, and why.
	Report func(r *http.Request, err error)

	inside passages
}

// Handler guards next. It answers instead of next
//
//   - 412 Precondition Failed, when the fence is stale: a condition in the request's header
//     does not hold, and will not when it is repeated. HeaderMark and HeaderMarkOwner
//     say what was seen;
//   - 428 Precondition Required, when the request has no fence but needs one, or has
//     that of another lock;
//   - 400 Bad Request, when the fence's headers cannot be read, or Marks refuses it with ErrAhead;
//   - 503 Service Unavailable, when Marks fails, or older requests do not come to an end
//     before the request's context does.
//
// A handler counts as running until it returns: work that it leaves behind is not
// guarded, nor is that of a handler which http.TimeoutHandler gave up inside the Guard.
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
			g.refuse(w, r, http.StatusBadRequest, err, "The fence in the request's header cannot be read: "+err.Error()+".")
			return
		case !found:
			g.refuse(w, r, http.StatusPreconditionRequired, fmt.Errorf("%w: lock %q is needed", ErrNoLease, lock),
				fmt.Sprintf("This request has to be made under a lease of the lock %q, with its fence in the header.", lock))
			return
		case s.Lock != lock:
			g.refuse(w, r, http.StatusPreconditionRequired, fmt.Errorf("%w: lock %q is needed, the fence is of %q", ErrNoLease, lock, s.Lock),
				fmt.Sprintf("This request has to be made under a lease of the lock %q, not of %q.", lock, s.Lock))
			return
		}
		ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), stampKey{}, s))
		defer cancel(nil)
		p := g.inside.enter(lock, s, func(later Stamp) {
			cancel(&StaleError{Resource: lock, Stamp: s, Mark: later.mark()})
			// Where that is not possible, the server's own timeouts have to do.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now())
		})
		defer g.inside.leave(p)
		err = g.Marks.Raise(r.Context(), s, lock)
		if err == nil {
			err = g.inside.awaitOlder(r.Context(), p)
		}
		var stale *StaleError
		switch {
		case errors.As(err, &stale):
			w.Header().Set(HeaderMark, strconv.FormatUint(stale.Mark.Fence, 10))
			w.Header().Set(HeaderMarkOwner, url.PathEscape(stale.Mark.Owner))
			g.refuse(w, r, http.StatusPreconditionFailed, err,
				fmt.Sprintf("Fence %d of the lock %q is stale: %d has been seen. The lease is over; do not repeat this request.", s.Fence, lock, stale.Mark.Fence))
		case errors.Is(err, ErrAhead):
			g.refuse(w, r, http.StatusBadRequest, err, fmt.Sprintf("Fence %d of the lock %q is too far ahead of the clock.", s.Fence, lock))
		case err != nil:
			// The error may name what is none of the client's business.
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

// StampFrom returns the stamp of the request that a guarded handler serves, from the
// request's context.
func StampFrom(ctx context.Context) (Stamp, bool) {
	s, ok := ctx.Value(stampKey{}).(Stamp)
	return s, ok
}
