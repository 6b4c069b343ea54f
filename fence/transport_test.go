package fence

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// testBody is a request's body that records whether it was closed.
type testBody struct {
	io.Reader
	closed bool
}

func (b *testBody) Close() error {
	b.closed = true
	return nil
}

func TestNothingIsSentUnlessTheLeaseIsHeld(t *testing.T) {
	lost := &holdfast.LostError{Name: "ledger", Reason: holdfast.LossExpired}
	for name, c := range map[string]struct {
		ctx  context.Context
		want error
	}{
		"no lease":   {t.Context(), ErrNoLease},
		"lost lease": {NewContext(t.Context(), &testLease{name: "ledger", owner: "a", fence: 7, err: lost}), holdfast.ErrLost},
		"no name":    {NewContext(t.Context(), &testLease{name: "", owner: "a", fence: 7, err: nil}), holdfast.ErrInvalid},
	} {
		b := &testBody{Reader: strings.NewReader("x")}
		r, err := http.NewRequestWithContext(c.ctx, "POST", "http://127.0.0.1:0/", b)
		if err != nil {
			t.Fatal(err)
		}
		sender := &Transport{Base: sendFunc(func(*http.Request) (*http.Response, error) {
			t.Errorf("%s: the request was sent", name)
			return nil, io.EOF
		})}
		if _, err := (&http.Client{Transport: sender}).Do(r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if !b.closed {
			t.Errorf("%s: the body was not closed", name)
		}
	}
}

type sendFunc func(*http.Request) (*http.Response, error)

func (f sendFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestResponseErrorMatchesOnlyAGuardsRefusal(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		mark   []string
		stale  bool
	}{
		"412 without a mark": {412, nil, false},
		"200 with a mark":    {200, []string{"8"}, false},
		"412 with a mark":    {412, []string{"8"}, true},
		"invalid mark":       {412, []string{"%zz\xff"}, true},
		"two marks":          {412, []string{"8", "9"}, true},
	} {
		r := &http.Response{StatusCode: c.status, Header: http.Header{HeaderMark: c.mark}}
		if err := ResponseError(r); errors.Is(err, ErrStale) != c.stale {
			t.Errorf("%s: %v; want stale = %v", name, err, c.stale)
		}
	}
}
