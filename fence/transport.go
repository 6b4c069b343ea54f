package fence

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/holdfast-go/holdfast"
)

// ErrNoLease says that a request was not sent, because its context has no lease.
var ErrNoLease = errors.New("holdfast: request without a lease")

type leaseKey struct{}

// NewContext returns a context for requests that are made under a lease.
func NewContext(ctx context.Context, l Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, l)
}

// Transport is an http.RoundTripper that puts the fence of the lease in a request's
// context (see NewContext) into the request's header, for a Guard to check. A request
// whose lease is over is not sent: the error is the lease's. One without a lease is not
// sent either: the error is ErrNoLease.
//
// A request that was sent in time can still arrive late; the Guard is for those.
type Transport struct {
	// Base sends requests. Default http.DefaultTransport.
	Base http.RoundTripper
}

// RoundTrip is that of http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	s, err := stampOf(r.Context())
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as RoundTrippers have to
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
		err = fmt.Errorf("%w: a lease of a lock without a name", holdfast.ErrInvalid)
	}
	return s, err
}

// ResponseError returns a *StaleError, which matches ErrStale, when a Guard answered that
// the request's fence is stale; nil for any other response.
func ResponseError(r *http.Response) error {
	if r.StatusCode != http.StatusPreconditionFailed || r.Header.Get(HeaderMark) == "" {
		return nil
	}
	e := &StaleError{}
	if r.Request != nil {
		e.Stamp, _, _ = readStamp(r.Request.Header) // what is missing stays empty
		e.Resource = r.Request.URL.Redacted()
	}
	// The refusal counts, also where its details cannot be read.
	e.Mark.Fence, _ = parseFence(r.Header.Get(HeaderMark))
	e.Mark.Owner, _ = url.PathUnescape(r.Header.Get(HeaderMarkOwner))
	return e
}
