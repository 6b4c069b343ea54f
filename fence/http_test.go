package fence

import (
	"bufio"
	"bytes"
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

// always is a Guard.Lock.
func always(lock string) func(*http.Request) string {
	return func(*http.Request) string { return lock }
}

// ask serves a request with this stamp, and headers further than that.
func ask(h http.Handler, ctx context.Context, s Stamp, header ...string) *http.Response {
	r := httptest.NewRequestWithContext(ctx, "POST", "/", nil)
	s.write(r.Header)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// body returns a response's body.
func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAFencedRequestIsServedUntilALaterOneCame(t *testing.T) {
	var served []Stamp
	g := &Guard{Marks: &Memory{}, Lock: always("ledger / ä")}
	s := httptest.NewServer(g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stamp, ok := StampFrom(r.Context())
		if !ok {
			t.Error("the handler finds no stamp")
		}
		served = append(served, stamp)
	})))
	defer s.Close()
	client := &http.Client{Transport: &Transport{}}
	post := func(l Lease) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(NewContext(t.Context(), l), "POST", s.URL, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(HeaderFence, "1") // which the transport replaces
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		if r.Header.Get(HeaderFence) != "1" || len(r.Header) != 1 {
			t.Errorf("the caller's request has become %v", r.Header)
		}
		return resp
	}
	first := &testLease{name: "ledger / ä", owner: "a\r\nX: y", fence: 7}
	second := &testLease{name: "ledger / ä", owner: "b 100%", fence: 8}
	for _, l := range []Lease{first, first, second} {
		if r := post(l); r.StatusCode != http.StatusOK || ResponseError(r) != nil {
			t.Errorf("fence %d: %s: %s", l.Token(), r.Status, body(t, r))
		}
	}
	r := post(first)
	var stale *StaleError
	if err := ResponseError(r); !errors.Is(err, ErrStale) || !errors.As(err, &stale) {
		t.Fatalf("the late request: %s, %v", r.Status, err)
	}
	if want := (Stamp{Lock: "ledger / ä", Fence: 7, Owner: "a\r\nX: y"}); stale.Stamp != want || stale.Mark != (Mark{8, "b 100%"}) || stale.Resource != s.URL {
		t.Errorf("%+v", stale)
	}
	if want := "Fence 7 of the lock \"ledger / ä\" is stale: 8 has been seen. The lease is over; do not repeat this request.\n"; body(t, r) != want {
		t.Errorf("the body is not %q", want)
	}
	if len(served) != 3 || served[0] != stale.Stamp || served[2].Fence != 8 {
		t.Errorf("served: %+v", served)
	}
}

func TestRequestsThatAGuardDoesNotLetThrough(t *testing.T) {
	secret := errors.New("dial db.internal:5432")
	failing := raiseFunc(func(context.Context, Stamp, string) error { return secret })
	s := Stamp{Lock: "ledger", Fence: 7, Owner: "a"}
	h := func(s Stamp) []string { // that stamp's headers, as pairs
		header := http.Header{}
		s.write(header)
		return []string{HeaderFence, header.Get(HeaderFence), HeaderLock, header.Get(HeaderLock), HeaderOwner, header.Get(HeaderOwner)}
	}
	for name, c := range map[string]struct {
		marks  Marks
		header []string
		status int
		want   error // that Report hears; nil: any
		text   string
	}{
		"no fence":        {&Memory{}, nil, 428, ErrNoLease, `lease of the lock "ledger"`},
		"another lock":    {&Memory{}, h(Stamp{Lock: "other", Fence: 7, Owner: "a"}), 428, ErrNoLease, `"ledger", not of "other"`},
		"part of a fence": {&Memory{}, h(s)[:4], 400, nil, "Holdfast-Owner is there 0 times"},
		"twice":           {&Memory{}, append(h(s), HeaderFence, "8"), 400, nil, "Holdfast-Fence is there 2 times"},
		"negative":        {&Memory{}, append(h(s)[2:], HeaderFence, "-7"), 400, nil, `"-7" is not a fence`},
		"zero":            {&Memory{}, append(h(s)[2:], HeaderFence, "0"), 400, nil, "not a fence"},
		"too large":       {&Memory{}, append(h(s)[2:], HeaderFence, "9223372036854775808"), 400, nil, "not a fence"},
		"bad escape":      {&Memory{}, append(h(s)[:4], HeaderOwner, "%zz"), 400, nil, "not percent-encoded"},
		"control":         {&Memory{}, h(Stamp{Lock: "led\nger", Fence: 7, Owner: "a"}), 400, nil, "control characters"},
		"no UTF-8":        {&Memory{}, append(h(s)[:4], HeaderOwner, "%ff"), 400, nil, "not UTF-8"},
		"long":            {&Memory{}, append(h(s)[:4], HeaderOwner, strings.Repeat("a", 1025)), 400, nil, "1025 bytes"},
		"marks fail":      {failing, h(s), 503, secret, "cannot be checked"},
	} {
		t.Run(name, func(t *testing.T) {
			var heard error
			g := &Guard{Marks: c.marks, Lock: always("ledger"), Report: func(_ *http.Request, err error) { heard = err }}
			r := httptest.NewRequest("POST", "/", nil)
			for i := 0; i+1 < len(c.header); i += 2 {
				r.Header.Add(c.header[i], c.header[i+1])
			}
			w := httptest.NewRecorder()
			g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("let through") })).ServeHTTP(w, r)
			text := w.Body.String()
			if w.Code != c.status || !strings.Contains(text, c.text) || strings.Contains(text, secret.Error()) {
				t.Errorf("%d: %s", w.Code, text)
			}
			if heard == nil || c.want != nil && !errors.Is(heard, c.want) {
				t.Errorf("Report heard %v", heard)
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

func TestRequestsThatNeedNoLockPass(t *testing.T) {
	served := false
	g := &Guard{Marks: &Memory{}, Lock: always("")}
	g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, found := StampFrom(r.Context())
		served = !found
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	if !served {
		t.Error("not served, or with a stamp that nobody checked")
	}
}

// What a handler writes after its fence was checked cannot be overtaken: the next fence
// waits for it.
func TestALaterRequestWaitsForEarlierHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Guard{Marks: &Memory{}, Lock: always("ledger")}
		var order []uint64
		ends := map[uint64]chan struct{}{7: make(chan struct{}), 8: make(chan struct{}), 9: make(chan struct{})}
		handler := g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s, _ := StampFrom(r.Context())
			order = append(order, s.Fence) // one handler at a time, or the race detector objects
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
				status <- ask(handler, t.Context(), Stamp{Lock: "ledger", Fence: fence, Owner: "a"}).StatusCode
			}()
			synctest.Wait()
		}
		// 9 came before 8, and waits for 7 only.
		if len(order) != 1 || order[0] != 7 {
			t.Fatalf("handlers have begun: %d", order)
		}
		if got := <-status; got != 412 {
			t.Errorf("8, after 9, is answered %d", got)
		}
		patience, cancel := context.WithCancel(t.Context())
		tired := make(chan int)
		go func() { tired <- ask(handler, patience, Stamp{Lock: "ledger", Fence: 10, Owner: "a"}).StatusCode }()
		synctest.Wait()
		cancel()
		if got := <-tired; got != 503 {
			t.Errorf("a request whose client has gone is answered %d", got)
		}
		close(ends[7])
		synctest.Wait()
		if len(order) != 2 || order[1] != 9 {
			t.Errorf("handlers have begun: %d", order)
		}
		close(ends[9])
		if a, b := <-status, <-status; a != 200 || b != 200 {
			t.Errorf("7 and 9 are answered %d and %d", a, b)
		}
		// 10 left its mark though nobody served it.
		if r := ask(handler, t.Context(), Stamp{Lock: "ledger", Fence: 9, Owner: "a"}); r.StatusCode != 412 {
			t.Errorf("9, after 10, is answered %d", r.StatusCode)
		}
		if len(g.inside.inside) != 0 {
			t.Errorf("still inside: %v", g.inside.inside)
		}
	})
}

// A client that is paused in the middle of its request does not hold up the next holder.
func TestAnUnfinishedRequestIsCutOffByALaterOne(t *testing.T) {
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
	late := make(chan struct{})
	go func() {
		defer close(late)
		if r, err := post(7, body); err == nil { // or its connection is cut
			_ = r.Body.Close()
		}
	}()
	if _, err := half.Write([]byte("half of it")); err != nil {
		t.Fatal(err)
	}
	<-reading
	r, err := post(8, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusOK {
		t.Error(r.Status)
	}
	got := <-ends
	var stale *StaleError
	if got.read == nil || !errors.As(got.cause, &stale) || stale.Stamp.Fence != 7 || stale.Mark.Fence != 8 {
		t.Errorf("the earlier handler reads %v; its context ends with %v", got.read, got.cause)
	}
	_ = half.Close()
	<-late
}

func TestAHandlerThatPanicsLetsTheNextIn(t *testing.T) {
	g := &Guard{Marks: &Memory{}, Lock: always("ledger")}
	h := g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if s, _ := StampFrom(r.Context()); s.Fence == 7 {
			panic("by hand")
		}
	}))
	func() {
		defer func() { _ = recover() }()
		ask(h, t.Context(), Stamp{Lock: "ledger", Fence: 7, Owner: "a"})
	}()
	if r := ask(h, t.Context(), Stamp{Lock: "ledger", Fence: 8, Owner: "a"}); r.StatusCode != http.StatusOK {
		t.Error(r.Status)
	}
}

func TestGuardsOfOtherLocksAreNotWaitedFor(t *testing.T) {
	g := &Guard{Marks: &Memory{}, Lock: func(r *http.Request) string { return r.Header.Get("Which") }}
	var h http.Handler
	h = g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if s, _ := StampFrom(r.Context()); s.Lock == "one" {
			if r := ask(h, r.Context(), Stamp{Lock: "two", Fence: 9, Owner: "a"}, "Which", "two"); r.StatusCode != http.StatusOK {
				t.Error(r.Status)
			}
			if r := ask(h, r.Context(), Stamp{Lock: "one", Fence: 7, Owner: "a"}, "Which", "one"); r.StatusCode != http.StatusPreconditionFailed {
				t.Errorf("an older one, inside a handler: %s", r.Status)
			}
		}
	}))
	if r := ask(h, t.Context(), Stamp{Lock: "one", Fence: 8, Owner: "a"}, "Which", "one"); r.StatusCode != http.StatusOK {
		t.Error(r.Status)
	}
}

// closing notes that it was closed.
type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

func TestNothingIsSentWithoutALeaseThatIsHeld(t *testing.T) {
	lost := &holdfast.LostError{Name: "ledger", Reason: holdfast.LossExpired}
	for name, c := range map[string]struct {
		ctx  context.Context
		want error
	}{
		"no lease":       {t.Context(), ErrNoLease},
		"a lost lease":   {NewContext(t.Context(), &testLease{name: "ledger", owner: "a", fence: 7, err: lost}), holdfast.ErrLost},
		"a nameless one": {NewContext(t.Context(), &testLease{name: "", owner: "a", fence: 7, err: nil}), holdfast.ErrInvalid},
	} {
		b := &closing{Reader: strings.NewReader("x")}
		r, err := http.NewRequestWithContext(c.ctx, "POST", "http://127.0.0.1:0/", b)
		if err != nil {
			t.Fatal(err)
		}
		sender := &Transport{Base: sendFunc(func(*http.Request) (*http.Response, error) {
			t.Errorf("%s: sent", name)
			return nil, io.EOF
		})}
		if _, err := (&http.Client{Transport: sender}).Do(r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if !b.closed {
			t.Errorf("%s: the body stays open", name)
		}
	}
}

type sendFunc func(*http.Request) (*http.Response, error)

func (f sendFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOnlyAGuardsRefusalIsStale(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		mark   []string
		stale  bool
	}{
		"somebody else's 412": {412, nil, false},
		"a mark on a success": {200, []string{"8"}, false},
		"a mark":              {412, []string{"8"}, true},
		"a mark of nonsense":  {412, []string{"%zz\xff"}, true},
		"two":                 {412, []string{"8", "9"}, true},
	} {
		r := &http.Response{StatusCode: c.status, Header: http.Header{HeaderMark: c.mark}}
		if err := ResponseError(r); errors.Is(err, ErrStale) != c.stale {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzHeader gives a Guard headers as a hostile client may send them.
func FuzzHeader(f *testing.F) {
	f.Add("7", "ledger", "a", "")
	f.Add("07", "led%67er", "a%20b", "8")
	f.Add("9223372036854775808", "%", "\xff", "")
	f.Add("-1", "ledger%00", "%E4", "")
	f.Add("", "", "", "")
	f.Fuzz(func(t *testing.T, fence, lock, owner, second string) {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header[HeaderFence] = []string{fence}
		r.Header[HeaderLock] = []string{lock}
		r.Header[HeaderOwner] = []string{owner}
		if second != "" {
			r.Header.Add(HeaderFence, second)
		}
		var passed *Stamp
		g := &Guard{Marks: &Memory{}, Lock: always("ledger")}
		w := httptest.NewRecorder()
		g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			s, _ := StampFrom(r.Context())
			passed = &s
		})).ServeHTTP(w, r)
		if passed == nil {
			if w.Code != 400 && w.Code != 428 {
				t.Errorf("%d: %s", w.Code, w.Body)
			}
			return
		}
		if second != "" || passed.Lock != "ledger" || passed.check() != nil {
			t.Errorf("%q %q %q %q pass as %+v", fence, lock, owner, second, passed)
		}
	})
}

// FuzzStamp sends stamps of any names over the wire, as HTTP/1.1 writes it.
func FuzzStamp(f *testing.F) {
	f.Add("ledger", uint64(7), "host-1 2 x")
	f.Add("a/b c%d\"é", uint64(1)<<62, "a\r\nHoldfast-Fence: 9")
	f.Add(" ", uint64(1), "\t")
	f.Fuzz(func(t *testing.T, lock string, fence uint64, owner string) {
		r, err := http.NewRequest("GET", "http://server/", nil)
		if err != nil {
			t.Fatal(err)
		}
		sent := Stamp{Lock: lock, Fence: fence, Owner: owner}
		sent.write(r.Header)
		var wire bytes.Buffer
		if err := r.Write(&wire); err != nil {
			t.Fatal(err)
		}
		got, err := http.ReadRequest(bufio.NewReader(&wire))
		if err != nil {
			t.Fatalf("%+v is no request any more: %v", sent, err)
		}
		if len(got.Header) != 4 { // and User-Agent
			t.Errorf("%+v brings the headers %v", sent, got.Header)
		}
		read, _, err := readStamp(got.Header)
		if err == nil && read != sent {
			t.Errorf("%+v arrives as %+v", sent, read)
		}
		if sent.check() != nil && err == nil {
			t.Errorf("%+v passes", sent)
		}
	})
}
