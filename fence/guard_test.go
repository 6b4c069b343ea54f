package fence

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast"
)

// always returns a Guard.Lock that requires the same lock for every request.
func always(lock string) func(*http.Request) string {
	return func(*http.Request) string { return lock }
}

// serve serves a request with a stamp and further headers, given as pairs.
func serve(h http.Handler, ctx context.Context, s Stamp, header ...string) *http.Response {
	r := httptest.NewRequestWithContext(ctx, "POST", "/", nil)
	s.write(r.Header)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	must(t, err)
	return string(b)
}

func TestAFenceIsServedUntilALaterOneArrives(t *testing.T) {
	var served []Stamp
	g := &Guard{Marks: &Memory{}, Lock: always("ledger / ä")}
	s := httptest.NewServer(g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stamp, ok := StampFrom(r.Context())
		if !ok {
			t.Error("StampFrom finds no stamp in the handler")
		}
		served = append(served, stamp)
	})))
	defer s.Close()
	client := &http.Client{Transport: &Transport{}}
	post := func(l Lease) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(NewContext(t.Context(), l), "POST", s.URL, strings.NewReader("x"))
		must(t, err)
		r.Header.Set(HeaderFence, "1") // the transport replaces it
		resp, err := client.Do(r)
		must(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		if r.Header.Get(HeaderFence) != "1" || len(r.Header) != 1 {
			t.Errorf("the transport changed the caller's header to %v", r.Header)
		}
		return resp
	}
	first := &testLease{name: "ledger / ä", owner: "a\r\nX: y", fence: 7}
	second := &testLease{name: "ledger / ä", owner: "b 100%", fence: 8}
	for _, l := range []Lease{first, first, second} {
		if r := post(l); r.StatusCode != http.StatusOK || ResponseError(r) != nil {
			t.Errorf("fence %d: %s: %s", l.Fence(), r.Status, body(t, r))
		}
	}
	r := post(first)
	var stale *StaleError
	if err := ResponseError(r); !errors.Is(err, ErrStale) || !errors.As(err, &stale) {
		t.Fatalf("the late request is answered %s, %v; want ErrStale", r.Status, err)
	}
	if late := (Stamp{Lock: "ledger / ä", Fence: 7, Owner: "a\r\nX: y"}); stale.Stamp != late || stale.Mark != (Mark{8, "b 100%"}) || stale.Resource != s.URL {
		t.Errorf("ResponseError = %+v", stale)
	}
	want := `holdfast: resource "ledger / ä" refused fence 7 of lock "ledger / ä" from "a\r\nX: y": it has seen fence 8 from "b 100%"` +
		"; do not repeat the request\n"
	if got := body(t, r); got != want {
		t.Errorf("the body is %q, want %q", got, want)
	}
	if len(served) != 3 || served[0] != stale.Stamp || served[2].Fence != 8 {
		t.Errorf("served %+v", served)
	}
}

func TestAGuardRefusesInvalidRequests(t *testing.T) {
	secret := errors.New("dial db.internal:5432")
	failing := raiseFunc(func(context.Context, Stamp, string) error { return secret })
	s := Stamp{Lock: "ledger", Fence: 7, Owner: "a"}
	h := func(s Stamp) []string { // the stamp's headers, as pairs
		header := http.Header{}
		s.write(header)
		return []string{HeaderFence, header.Get(HeaderFence), HeaderLock, header.Get(HeaderLock), HeaderOwner, header.Get(HeaderOwner)}
	}
	for name, c := range map[string]struct {
		marks  Marks
		header []string
		status int
		want   error // passed to Report; nil for any
		text   string
	}{
		"no fence":          {&Memory{}, nil, 428, ErrNoLease, `lease of lock "ledger"`},
		"another lock":      {&Memory{}, h(Stamp{Lock: "other", Fence: 7, Owner: "a"}), 428, ErrNoLease, `"ledger", not of "other"`},
		"no owner":          {&Memory{}, h(s)[:4], 400, nil, "Holdfast-Owner appears 0 times"},
		"two fences":        {&Memory{}, append(h(s), HeaderFence, "8"), 400, nil, "Holdfast-Fence appears 2 times"},
		"negative fence":    {&Memory{}, append(h(s)[2:], HeaderFence, "-7"), 400, nil, `"-7" is not a fence`},
		"fence 0":           {&Memory{}, append(h(s)[2:], HeaderFence, "0"), 400, nil, "not a fence"},
		"fence too large":   {&Memory{}, append(h(s)[2:], HeaderFence, "9223372036854775808"), 400, nil, "not a fence"},
		"bad escape":        {&Memory{}, append(h(s)[:4], HeaderOwner, "%zz"), 400, nil, "not percent-encoded"},
		"control character": {&Memory{}, h(Stamp{Lock: "led\nger", Fence: 7, Owner: "a"}), 400, nil, "control characters"},
		"not UTF-8":         {&Memory{}, append(h(s)[:4], HeaderOwner, "%ff"), 400, nil, "not UTF-8"},
		"long owner":        {&Memory{}, append(h(s)[:4], HeaderOwner, strings.Repeat("a", 1025)), 400, nil, "1025 bytes"},
		"no bool":           {&Memory{}, append(h(s), HeaderShared, "shared"), 400, nil, `Holdfast-Shared is "shared", not "true"`},
		"marks fail":        {failing, h(s), 503, secret, "cannot be checked"},
	} {
		t.Run(name, func(t *testing.T) {
			var reported error
			g := &Guard{Marks: c.marks, Lock: always("ledger"), Report: func(_ *http.Request, err error) { reported = err }}
			r := httptest.NewRequest("POST", "/", nil)
			for i := 0; i+1 < len(c.header); i += 2 {
				r.Header.Add(c.header[i], c.header[i+1])
			}
			w := httptest.NewRecorder()
			g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })).ServeHTTP(w, r)
			text := w.Body.String()
			if w.Code != c.status || !strings.Contains(text, c.text) || strings.Contains(text, secret.Error()) {
				t.Errorf("answered %d: %s", w.Code, text)
			}
			if reported == nil || c.want != nil && !errors.Is(reported, c.want) {
				t.Errorf("Report was called with %v", reported)
			}
			if err := ResponseError(w.Result()); err != nil {
				t.Errorf("ResponseError = %v", err)
			}
		})
	}
}

type raiseFunc func(ctx context.Context, s Stamp, resource string) error

func (f raiseFunc) Raise(ctx context.Context, s Stamp, resource string) error {
	return f(ctx, s, resource)
}

func TestRequestsThatNeedNoLockAreServed(t *testing.T) {
	served := false
	g := &Guard{Marks: &Memory{}, Lock: always("")}
	g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, found := StampFrom(r.Context())
		served = !found
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	if !served {
		t.Error("the request was not served, or was served with a stamp that was not checked")
	}
}

// So a handler's writes, after its fence was checked, cannot come after those of a later request.
func TestALaterRequestWaitsForEarlierHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Guard{Marks: &Memory{}, Lock: always("ledger")}
		var order []uint64
		ends := map[uint64]chan struct{}{7: make(chan struct{}), 8: make(chan struct{}), 9: make(chan struct{})}
		handler := g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s, _ := StampFrom(r.Context())
			order = append(order, s.Fence) // a race if two handlers run at once
			<-ends[s.Fence]
			if s.Fence == 8 {
				panic(http.ErrAbortHandler)
			}
		}))
		status := make(chan int, 3)
		for _, fence := range []uint64{7, 9, 8} {
			go func() {
				defer func() {
					if recover() != nil {
						status <- 500
					}
				}()
				status <- serve(handler, t.Context(), Stamp{Lock: "ledger", Fence: fence, Owner: "a"}).StatusCode
			}()
			synctest.Wait()
		}
		// 9 arrived before 8 and waits only for 7.
		if len(order) != 1 || order[0] != 7 {
			t.Fatalf("handlers started for %d, want [7]", order)
		}
		equal(t, "8, after 9, is answered", <-status, 412)
		patience, cancel := context.WithCancel(t.Context())
		cancelled := make(chan int)
		go func() { cancelled <- serve(handler, patience, Stamp{Lock: "ledger", Fence: 10, Owner: "a"}).StatusCode }()
		synctest.Wait()
		cancel()
		equal(t, "a request whose context has ended is answered", <-cancelled, 503)
		close(ends[7])
		synctest.Wait()
		if len(order) != 2 || order[1] != 9 {
			t.Errorf("handlers started for %d, want [7 9]", order)
		}
		close(ends[9])
		if a, b := <-status, <-status; a != 200 || b != 200 {
			t.Errorf("7 and 9 are answered %d and %d, want 200", a, b)
		}
		// 10 was not served but raised the mark.
		equal(t, "9, after 10, is answered", serve(handler, t.Context(), Stamp{Lock: "ledger", Fence: 9, Owner: "a"}).StatusCode, 412)
		equal(t, "requests that are still active", len(g.active), 0)
	})
}

// A client that is paused in the middle of its request cannot delay the next holder.
func TestALaterRequestCutsOffAnUnfinishedOne(t *testing.T) {
	type end struct {
		read  error
		cause error
	}
	ends := make(chan end, 1)
	reading := make(chan struct{})
	g := &Guard{Marks: &Memory{}, Lock: always("ledger")}
	s := httptest.NewServer(g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s, _ := StampFrom(r.Context()); s.Fence == 7 {
			close(reading)
			_, err := io.ReadAll(r.Body)
			ends <- end{err, context.Cause(r.Context())}
		}
	})))
	defer s.Close()
	client := &http.Client{Transport: &Transport{}}
	post := func(fence uint64, body io.Reader) (*http.Response, error) {
		r, err := http.NewRequestWithContext(NewContext(t.Context(), &testLease{name: "ledger", owner: "a", fence: fence}), "POST", s.URL, body)
		if err != nil {
			return nil, err
		}
		return client.Do(r)
	}
	body, half := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if r, err := post(7, body); err == nil { // an error is fine, too: the connection may be closed
			_ = r.Body.Close()
		}
	}()
	if _, err := half.Write([]byte("half of it")); err != nil {
		t.Fatal(err)
	}
	<-reading
	r, err := post(8, nil)
	must(t, err)
	_ = r.Body.Close()
	equal(t, "the answer", r.StatusCode, http.StatusOK)
	got := <-ends
	var stale *StaleError
	if got.read == nil || !errors.As(got.cause, &stale) || stale.Stamp.Fence != 7 || stale.Mark.Fence != 8 {
		t.Errorf("in the earlier handler reading returns %v, and the context ends with %v", got.read, got.cause)
	}
	_ = half.Close()
	<-done
}

func TestAHandlerThatPanicsDoesNotBlockTheNext(t *testing.T) {
	g := &Guard{Marks: &Memory{}, Lock: always("ledger")}
	h := g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if s, _ := StampFrom(r.Context()); s.Fence == 7 {
			panic("by hand")
		}
	}))
	func() {
		defer func() { _ = recover() }()
		serve(h, t.Context(), Stamp{Lock: "ledger", Fence: 7, Owner: "a"})
	}()
	equal(t, "the answer", serve(h, t.Context(), Stamp{Lock: "ledger", Fence: 8, Owner: "a"}).StatusCode, http.StatusOK)
}

func TestRequestsForOtherLocksAreNotWaitedFor(t *testing.T) {
	g := &Guard{Marks: &Memory{}, Lock: func(r *http.Request) string { return r.Header.Get("Which") }}
	var h http.Handler
	h = g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if s, _ := StampFrom(r.Context()); s.Lock == "one" {
			if r := serve(h, r.Context(), Stamp{Lock: "two", Fence: 9, Owner: "a"}, "Which", "two"); r.StatusCode != http.StatusOK {
				t.Error(r.Status)
			}
			if r := serve(h, r.Context(), Stamp{Lock: "one", Fence: 7, Owner: "a"}, "Which", "one"); r.StatusCode != http.StatusPreconditionFailed {
				t.Errorf("an older request, made by the handler, is answered %s", r.Status)
			}
		}
	}))
	equal(t, "the answer", serve(h, t.Context(), Stamp{Lock: "one", Fence: 8, Owner: "a"}, "Which", "one").StatusCode, http.StatusOK)
}

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
		must(t, err)
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

// Owners come from clients and servers. They must not forge lines of a log or send control characters to a terminal.
func TestHostileOwnersAreEscapedInErrors(t *testing.T) {
	const hostile = "me\nlevel=ERROR msg=\"disk lost\"\x1b[2J\u202e"
	var reported error
	g := &Guard{
		Marks:  &Memory{},
		Lock:   func(*http.Request) string { return "a" },
		Report: func(_ *http.Request, err error) { reported = err },
	}
	h := g.Handler(http.NotFoundHandler())
	send := func(s Stamp) *http.Response {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		s.write(r.Header)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		answer := w.Result()
		answer.Request = r
		return answer
	}
	send(Stamp{Lock: "a", Fence: 2, Owner: hostile})
	answer := send(Stamp{Lock: "a", Fence: 1, Owner: hostile})
	for who, err := range map[string]error{"the server": reported, "the client": ResponseError(answer)} {
		if err == nil {
			t.Fatalf("%s has no error", who)
		}
		if text := err.Error(); strings.ContainsAny(text, "\n\x1b\u202e") || !strings.Contains(text, "me\\n") {
			t.Errorf("%s gets the error %q", who, text)
		}
	}
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// equal requires that what was got is what was wanted.
func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v; want %v", what, got, want)
	}
}
