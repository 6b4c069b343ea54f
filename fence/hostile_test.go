package fence

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

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
