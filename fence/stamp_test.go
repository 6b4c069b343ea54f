package fence

import (
	"bufio"
	"bytes"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// testLease is a Lease whose methods return its fields.
type testLease struct {
	name  string
	owner string
	fence uint64
	err   error

	fences map[string]uint64 // nil for a lease of one lock
	shared bool
}

func (l *testLease) Name() string     { return l.name }
func (l *testLease) Identity() string { return l.owner }
func (l *testLease) Fence() uint64    { return l.fence }
func (l *testLease) Err() error       { return l.err }

func (l *testLease) Fences() map[string]uint64 {
	if l.fences != nil {
		return l.fences
	}
	return map[string]uint64{l.name: l.fence}
}

func (l *testLease) IsShared() bool { return l.shared }

var _ Lease = (*holdfast.Lease)(nil)

func TestOfFailsIfTheLeaseIsOver(t *testing.T) {
	l := &testLease{name: "invoices", owner: "a", fence: 7}
	s, err := Of(l)
	if want := (Stamp{Lock: "invoices", Fence: 7, Owner: "a"}); s != want || err != nil {
		t.Errorf("Of = %+v, %v; want %+v", s, err, want)
	}
	l.err = &holdfast.LostError{Name: "invoices", Reason: holdfast.LossExpired}
	if s, err := Of(l); !errors.Is(err, holdfast.ErrLost) || s != (Stamp{}) {
		t.Errorf("Of a lost lease = %+v, %v", s, err)
	}
}

// The fences of several locks do not compare, so a stamp has the fence of one of them.
func TestALeaseOfSeveralLocksNeedsPart(t *testing.T) {
	l := &testLease{name: "a, b", owner: "me", fence: 9, fences: map[string]uint64{"a": 9, "b": 4}}
	if s, err := Of(l); !errors.Is(err, holdfast.ErrInvalid) || s != (Stamp{}) {
		t.Errorf("Of a lease of two locks = %+v, %v; want ErrInvalid", s, err)
	}
	s, err := Of(Part(l, "b"))
	if want := (Stamp{Lock: "b", Fence: 4, Owner: "me"}); s != want || err != nil {
		t.Errorf("Of one of them = %+v, %v; want %+v", s, err, want)
	}
	if s, err := Of(Part(l, "c")); !errors.Is(err, holdfast.ErrInvalid) || s != (Stamp{}) {
		t.Errorf("Of another lock = %+v, %v; want ErrInvalid", s, err)
	}
	l.err = holdfast.ErrReleased
	if s, err := Of(Part(l, "b")); err != holdfast.ErrReleased || s != (Stamp{}) {
		t.Errorf("Of a part of a released lease = %+v, %v; want ErrReleased", s, err)
	}
}

func TestStampsThatCannotBeStoredAreInvalid(t *testing.T) {
	for name, s := range map[string]Stamp{
		"no fence":       {Owner: "a"},
		"large fence":    {Fence: math.MaxInt64 + 1, Owner: "a"},
		"no owner":       {Fence: 1},
		"long owner":     {Fence: 1, Owner: strings.Repeat("a", maxOwner+1)},
		"NUL":            {Fence: 1, Owner: "a\x00"},
		"not UTF-8":      {Fence: 1, Owner: "\xff"},
		"the zero stamp": {},
	} {
		if err := s.check(); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: check returns %v, want ErrInvalid", name, err)
		}
		if err := new(Memory).Raise(t.Context(), s, "r"); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: Raise returns %v, want ErrInvalid", name, err)
		}
	}
	if err := (Stamp{Fence: math.MaxInt64, Owner: strings.Repeat("é", maxOwner/2)}).check(); err != nil {
		t.Error(err)
	}
}

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
		must(t, err)
		sent := Stamp{Lock: lock, Fence: fence, Owner: owner}
		sent.write(r.Header)
		var wire bytes.Buffer
		must(t, r.Write(&wire))
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
