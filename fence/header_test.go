package fence

import (
	"bufio"
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
)

// FuzzHeader passes headers to a Guard as a hostile client may send them.
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
				t.Errorf("answered %d: %s", w.Code, w.Body)
			}
			return
		}
		if second != "" || passed.Lock != "ledger" || passed.check() != nil {
			t.Errorf("%q, %q, %q, %q are accepted as %+v", fence, lock, owner, second, passed)
		}
	})
}

// FuzzStamp writes stamps into HTTP/1.1 requests and reads them again.
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
			t.Fatalf("%+v makes an invalid request: %v", sent, err)
		}
		if len(got.Header) != 4 { // User-Agent is the fourth
			t.Errorf("%+v makes the headers %v", sent, got.Header)
		}
		read, err := readStamp(got.Header)
		if err == nil && read != sent {
			t.Errorf("%+v arrives as %+v", sent, read)
		}
		if sent.check() != nil && err == nil {
			t.Errorf("%+v is accepted, but invalid", sent)
		}
	})
}

// A stamp replaces the one that a header has, and says whether its fence is shared.
func TestSharedStampsInHeaders(t *testing.T) {
	h := http.Header{}
	for _, shared := range []bool{true, false, true} {
		sent := Stamp{Lock: "ledger", Fence: 7, Owner: "a", Shared: shared}
		sent.write(h)
		if got, err := readStamp(h); got != sent || err != nil {
			t.Errorf("%+v is read as %+v, %v", sent, got, err)
		}
		if got, want := h.Get("Holdfast-Shared"), map[bool]string{true: "true"}[shared]; got != want {
			t.Errorf("the header of %+v is %q, want %q", sent, got, want)
		}
	}
}
