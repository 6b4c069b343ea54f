package fences

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// lease is a lease that keeps its stamp for ever, as a late holder believes.
type lease struct{ stamp fence.Stamp }

func (l lease) Name() string  { return l.stamp.Lock }
func (l lease) Owner() string { return l.stamp.Owner }
func (l lease) Fence() uint64 { return l.stamp.Fence }
func (l lease) Err() error    { return nil }

func (l lease) Fences() map[string]uint64 { return map[string]uint64{l.Name(): l.Fence()} }

func (l lease) IsShared() bool { return l.stamp.Shared }

// Two web servers share their marks: each refuses a fence that the other knows to be stale.
func TestWebServersShareTheirMarks(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) { shareMarks(t, openSQLite(t, 0).marks()) })
	t.Run("postgres", func(t *testing.T) { shareMarks(t, openPostgres(t, nil).marks()) })
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		shareMarks(t, fence.NewRedis(driverOf(t, b.Redis(t)), nil))
	})
}

func shareMarks(t *testing.T, marks fence.Marks) {
	var url [2]string
	for i := range url {
		g := &fence.Guard{Marks: marks, Lock: func(*http.Request) string { return "ledger" }}
		s := httptest.NewServer(g.Handler(http.NotFoundHandler()))
		t.Cleanup(s.Close)
		url[i] = s.URL
	}
	client := &http.Client{Transport: &fence.Transport{}}
	post := func(url string, s fence.Stamp) (status int, err error) {
		t.Helper()
		r, err := http.NewRequestWithContext(fence.NewContext(t.Context(), lease{s}), http.MethodPost, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode, fence.ResponseError(resp)
	}
	for i, s := range []fence.Stamp{by("a", 5), by("b", 6)} {
		if status, err := post(url[i], s); status != http.StatusNotFound || err != nil {
			t.Errorf("fence %d: %d, %v", s.Fence, status, err)
		}
	}
	status, err := post(url[0], by("a", 5))
	refused(t, err, by("a", 5), fence.Mark{Fence: 6, Owner: "b"})
	if status != http.StatusPreconditionFailed {
		t.Errorf("the late request is answered %d", status)
	}
}
