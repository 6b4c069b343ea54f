package ui

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/prometheus"
)

// Of a quorum it is not known who waits.
func TestMetricsOfAQuorum(t *testing.T) {
	h := newTestHandler(t, newLocks(heldLock("a", "ann", 1, 0)), nil)
	h.quorum = true
	text := ask(h, "GET", "http://localhost/metrics", nil).Body.String()
	if !strings.Contains(text, "holdfast_inspect_held") || strings.Contains(text, "_wait") {
		t.Errorf("the metrics are\n%s", text)
	}
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		semaphore := heldLock("slots", "eve", 1, 0)
		semaphore.Kind = holdfast.KindSemaphore
		semaphore.Holders = append(semaphore.Holders, semaphore.Holders[0])
		in := newLocks(heldLock("a", "ann", 1, 3), heldLock("secret-name", "bob", 2, 0), semaphore)
		h := newTestHandler(t, in, nil)
		check := func() {
			t.Helper()
			w := ask(h, "GET", "http://localhost/metrics", nil)
			text := w.Body.String()
			if w.Header().Get("Content-Type") != prometheus.ContentType || strings.Contains(text, "secret") {
				t.Errorf("%v\n%s", w.Header(), text)
			}
			mutex, sem := prometheus.Label{Name: "holdfast_kind", Value: "mutex"}, prometheus.Label{Name: "holdfast_kind", Value: "semaphore"}
			for _, c := range []struct {
				name   string
				labels []prometheus.Label
				least  float64
			}{
				{"up", nil, 1}, {"hidden", nil, 0}, {"locks", []prometheus.Label{mutex}, 2}, {"held", []prometheus.Label{mutex}, 2}, {"waiting", []prometheus.Label{mutex}, 3},
				{"holders", []prometheus.Label{sem}, 2}, {"waiting", []prometheus.Label{sem}, 0}, {"oldest_hold_seconds", []prometheus.Label{mutex}, 60},
				{"longest_wait_seconds", []prometheus.Label{mutex}, 2},
			} {
				got, is := prometheus.Read(text, "holdfast_inspect_"+c.name, c.labels...)
				if !is || got < c.least || got > c.least+30 || c.least < 60 && c.name != "longest_wait_seconds" && got != c.least {
					t.Errorf("%s of %v is %v, want %v\n%s", c.name, c.labels, got, c.least, text)
				}
			}
		}
		check()
		check()
		equal(t, "looks for two scrapes", in.count(), 1)
		time.Sleep(2 * fresh)
		list(t, h)
		before := in.count()
		check()
		equal(t, "looks, with one for a scrape just after the list", in.count(), before)
		time.Sleep(time.Minute)
		in.fail(holdfast.ErrUnavailable)
		w := ask(h, "GET", "http://localhost/metrics", nil)
		if up, is := prometheus.Read(w.Body.String(), "holdfast_inspect_up"); w.Code != 200 || !is || up != 0 || strings.Contains(w.Body.String(), "waiting") {
			t.Errorf("%d\n%s", w.Code, w.Body)
		}
	})
}
