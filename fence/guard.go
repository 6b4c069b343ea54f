package fence

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
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

	mu     sync.Mutex
	active map[string][]*activeRequest // by lock; a request enters before it raises the mark
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
		err := g.serve(w, r, lock, next)
		if err == nil {
			return
		}
		if g.Report != nil {
			g.Report(r, err)
		}
		status, text := http.StatusServiceUnavailable, "The fence cannot be checked now." // the error may name internal servers
		var stale *StaleError
		switch {
		case errors.As(err, &stale):
			w.Header().Set(HeaderMark, strconv.FormatUint(stale.Mark.Fence, 10))
			w.Header().Set(HeaderMarkOwner, url.PathEscape(stale.Mark.Owner))
			status, text = http.StatusPreconditionFailed, err.Error()+"; do not repeat the request"
		case errors.Is(err, ErrNoLease):
			status, text = http.StatusPreconditionRequired, err.Error()
		case errors.Is(err, ErrAhead), errors.Is(err, errHeader):
			status, text = http.StatusBadRequest, err.Error()
		}
		http.Error(w, text, status)
	})
}

// serve calls the handler if the request may pass, and otherwise returns why not.
func (g *Guard) serve(w http.ResponseWriter, r *http.Request, lock string, next http.Handler) error {
	s, err := readStamp(r.Header)
	if err != nil {
		return fmt.Errorf("%w: this request needs a lease of lock %q", err, lock)
	}
	if s.Lock != lock {
		return fmt.Errorf("%w: this request needs a lease of lock %q, not of %q", ErrNoLease, lock, s.Lock)
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), stampKey{}, s))
	defer cancel(nil)
	a := &activeRequest{s, func(later Stamp) {
		cancel(&StaleError{Resource: lock, Stamp: s, Mark: Mark{later.Fence, later.Owner}})
		// If the deadline cannot be set, the server's own timeouts must do.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now())
	}, make(chan struct{})}
	g.enter(a)
	defer g.leave(a)
	if err := g.Marks.Raise(r.Context(), s, lock); err != nil {
		return err
	}
	if err := g.endOlder(r.Context(), s); err != nil {
		return err
	}
	next.ServeHTTP(w, r.WithContext(ctx))
	return nil
}

// activeRequest is a request inside a Guard.
type activeRequest struct {
	stamp Stamp
	end   func(later Stamp) // makes the handler end because of a later stamp; does not block
	done  chan struct{}     // closed when the request has left
}

func (g *Guard) enter(a *activeRequest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.active == nil {
		g.active = map[string][]*activeRequest{}
	}
	g.active[a.stamp.Lock] = append(g.active[a.stamp.Lock], a)
}

func (g *Guard) leave(a *activeRequest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	others := slices.DeleteFunc(g.active[a.stamp.Lock], func(other *activeRequest) bool { return other == a })
	if g.active[a.stamp.Lock] = others; len(others) == 0 {
		delete(g.active, a.stamp.Lock)
	}
	close(a.done)
}

// endOlder ends the requests with lower fences than that of s and waits until they have left. Only later requests wait for
// earlier ones, so there is no deadlock.
func (g *Guard) endOlder(ctx context.Context, s Stamp) error {
	g.mu.Lock()
	var older []*activeRequest
	for _, a := range g.active[s.Lock] {
		if a.stamp.Fence < s.Fence {
			a.end(s) // with mu held, so that its handler has not returned
			older = append(older, a)
		}
	}
	g.mu.Unlock()
	for _, a := range older {
		select {
		case <-a.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

type stampKey struct{}

// StampFrom returns the stamp of a request that passed a Guard, given the request's context.
func StampFrom(ctx context.Context) (Stamp, bool) {
	s, ok := ctx.Value(stampKey{}).(Stamp)
	return s, ok
}
