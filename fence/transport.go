package fence

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/holdfast-go/holdfast"
)

// ErrNoLease says that a request was not sent because its context has no lease, or that a Guard refused it because it
// shows no fence of the right lock.
var ErrNoLease = errors.New("holdfast: request without a lease")

type leaseKey struct{}

// NewContext returns a context that carries a lease, for requests that need its fence.
func NewContext(ctx context.Context, l Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, l)
}

// Transport is an http.RoundTripper that puts the fence of the lease in a request's context (see NewContext) into the
// request's header, for a Guard to check. It does not send a request whose lease is over, but returns the lease's error.
// For a request without a lease it returns ErrNoLease.
//
// A request that is sent in time can still arrive late, which is why a Guard is needed.
type Transport struct {
	// Base sends the requests. The default is http.DefaultTransport.
	Base http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	s, err := stampOf(r.Context())
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper must close it
		}
		return nil, err
	}
	r = r.Clone(r.Context())
	s.write(r.Header)
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	return base.RoundTrip(r)
}

func stampOf(ctx context.Context) (Stamp, error) {
	l, ok := ctx.Value(leaseKey{}).(Lease)
	if !ok {
		return Stamp{}, ErrNoLease
	}
	s, err := Of(l)
	if err == nil && s.Lock == "" {
		err = fmt.Errorf("%w: the lease's lock has no name", holdfast.ErrInvalid)
	}
	return s, err
}

// ResponseError returns a *StaleError, which matches ErrStale, if r is a Guard's answer that the request's fence is
// stale. For any other response it returns nil.
func ResponseError(r *http.Response) error {
	if r.StatusCode != http.StatusPreconditionFailed || r.Header.Get(HeaderMark) == "" {
		return nil
	}
	e := &StaleError{}
	if r.Request != nil {
		e.Stamp, _ = readStamp(r.Request.Header)
		e.Resource = r.Request.URL.Redacted()
	}
	// A refusal counts even if its details are invalid.
	e.Mark.Fence, _ = parseFence(r.Header.Get(HeaderMark))
	e.Mark.Owner, _ = url.PathUnescape(r.Header.Get(HeaderMarkOwner))
	return e
}
