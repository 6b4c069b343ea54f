package ui

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
)

// demand sends an order as the page does, changed by change.
func demand(h http.Handler, verb, body string, change func(r *http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "http://localhost/"+verb, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const goodOrder = `{"name":"orders/1","grant":"k3v9x2ab","reason":"hung"}`

func TestNothingIsBrokenUnlessItIsAllowed(t *testing.T) {
	p := newLocks()
	h := newTestHandler(t, p, nil)
	for _, verb := range []string{"break", "revoke"} {
		equal(t, verb, demand(h, verb, goodOrder, nil).Code, http.StatusForbidden)
	}
	if len(p.did) > 0 {
		t.Errorf("%q", p.did)
	}
}

func TestOnlyTheInspectorsOwnPageCanBreak(t *testing.T) {
	p := newLocks()
	h := newTestHandler(t, p, &Options{AllowBreak: true})
	for name, c := range map[string]struct {
		code   int
		change func(r *http.Request)
	}{
		"another site":          {403, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }},
		"a neighbour":           {403, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }},
		"another origin":        {403, func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "http://evil.example") }},
		"another port":          {403, func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "http://localhost:81") }},
		"a file":                {403, func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "null") }},
		"a form":                {415, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }},
		"no type":               {415, func(r *http.Request) { r.Header.Del("Content-Type") }},
		"a link":                {405, func(r *http.Request) { r.Method = "GET" }},
		"another host":          {421, func(r *http.Request) { r.Host = "evil.example" }},
		"the page":              {200, nil},
		"the page, by Origin":   {200, func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "http://localhost") }},
		"a program, without it": {200, func(r *http.Request) { r.Header.Del("Sec-Fetch-Site") }},
	} {
		p.did = nil
		if w := demand(h, "break", goodOrder, c.change); w.Code != c.code || (len(p.did) == 1) != (c.code == 200) {
			t.Errorf("%s: %d, want %d; %q", name, w.Code, c.code, p.did)
		}
	}
}

func TestOrdersAreChecked(t *testing.T) {
	p := newLocks()
	h := newTestHandler(t, p, &Options{AllowBreak: true})
	for _, body := range []string{
		"", "[]", `{"name":"a","grant":"","reason":"x"}`, `{"name":"a","reason":"x"}`, `{"name":"a","grant":7,"reason":"x"}`,
		`{"name":"","grant":"k3v9x2ab","reason":"x"}`, `{"name":"a","grant":"k3v9x2ab","reason":""}`,
		`{"name":"a","grant":"k3v9x2ab","reason":"` + strings.Repeat("x", longestReason+1) + `"}`, `{"name":"a","grant":"k3v9x2ab","reason":"` + strings.Repeat("x", 10<<10) + `"}`,
		goodOrder + goodOrder, goodOrder + "x",
	} {
		w := demand(h, "break", body, nil)
		var answer struct{ Error string }
		if err := json.Unmarshal(w.Body.Bytes(), &answer); w.Code != http.StatusBadRequest || err != nil || answer.Error == "" {
			t.Errorf("%.60s: %d, %s", body, w.Code, w.Body)
		}
	}
	if len(p.did) > 0 {
		t.Errorf("%q", p.did)
	}
}

func TestWhoOrderedItIsOnRecord(t *testing.T) {
	p := newLocks()
	h := newTestHandler(t, p, &Options{AllowBreak: true, Authenticate: func(string, string) bool { return true }})
	w := demand(h, "revoke", goodOrder, func(r *http.Request) { r.SetBasicAuth("ann", "x") })
	equal(t, "the answer", w.Body.String(), `{"grant":"k3v9x2ab"}`+"\n")
	if len(p.did) != 1 || p.did[0] != "revoke orders/1 k3v9x2ab ann: hung" {
		t.Errorf("%q", p.did)
	}
}

func TestWhatFailedIsAnswered(t *testing.T) {
	p := newLocks()
	h := newTestHandler(t, p, &Options{AllowBreak: true})
	for _, c := range []struct {
		err  error
		code int
		text string
	}{
		{inspect.ErrChanged, 409, "grant k3v9x2ab of"}, {holdfast.ErrNotHeld, 409, "nobody holds"}, {holdfast.ErrDenied, 403, "role breaker"},
		{holdfast.ErrInvalid, 400, "invalid"}, {holdfast.ErrUnavailable, 502, "unavailable"},
	} {
		p.refuse = c.err
		if w := demand(h, "break", goodOrder, nil); w.Code != c.code || !strings.Contains(w.Body.String(), c.text) {
			t.Errorf("%v: %d, %s", c.err, w.Code, w.Body)
		}
	}
}

// In a Cluster the record of a break may fail though it was done.
func TestABreakThatIsNotOnRecordIsDone(t *testing.T) {
	p := newLocks()
	p.broken, p.refuse = inspect.Broken{Name: "orders/1", Fence: 43}, holdfast.ErrUnavailable
	h := newTestHandler(t, p, &Options{AllowBreak: true})
	w := demand(h, "break", goodOrder, nil)
	var answer struct{ Fence, Warning string }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 200 || answer.Fence != "43" || answer.Warning == "" {
		t.Errorf("%d, %s", w.Code, w.Body)
	}
}
