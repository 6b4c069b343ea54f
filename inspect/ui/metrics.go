package ui

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/prometheus"
)

const (
	// fresh is how old a look may be that metrics are made of.
	fresh = 5 * time.Second
	// scrapeTime bounds the wait for a look that a scrape makes. Prometheus waits for 10 s by default.
	scrapeTime = 30 * time.Second
)

// tally counts the locks of a kind.
type tally struct {
	locks, held, holders, waiting int
	oldest, longest               time.Duration
}

// serveMetrics answers in Prometheus' format. A server that does not answer is a value, not a failed scrape.
func (h *Handler) serveMetrics(w http.ResponseWriter, r *http.Request) {
	l := h.latest(r.Context(), fresh, scrapeTime)
	w.Header().Set("Content-Type", prometheus.ContentType)
	_ = prometheus.Write(w, l.metrics(!h.quorum)...) // The client does not listen any more.
}

// metrics returns the values. Without queues, it is not known who waits.
func (l *look) metrics(queues bool) []prometheus.Metric {
	gauge := func(name, help string, samples ...prometheus.Sample) prometheus.Metric {
		return prometheus.Metric{Name: "holdfast_inspect_" + name, Help: help, Type: prometheus.Gauge, Samples: samples}
	}
	up := 1.0
	if l.Error != "" || time.Since(l.ended) > fresh+l.took { // the server has not answered that look, or not the one after it
		up = 0
	}
	all := []prometheus.Metric{gauge("up", "Whether the server answered the latest look at all locks.", prometheus.Sample{Value: up})}
	if up == 0 {
		return all
	}
	kinds := l.tallies()
	byKind := func(name, help string, of func(t *tally) float64) {
		m := gauge(name, help)
		for _, kind := range slices.SortedFunc(maps.Keys(kinds), cmp.Compare[holdfast.Kind]) {
			m.Samples = append(m.Samples, prometheus.Sample{
				Labels: []prometheus.Label{{Name: "holdfast_kind", Value: string(kind)}}, Value: of(kinds[kind]),
			})
		}
		all = append(all, m)
	}
	all = append(all,
		gauge("look_duration_seconds", "How long the latest look at all locks took.", prometheus.Sample{Value: l.took.Seconds()}),
		gauge("hidden", "Locks that are not shown: the server does not let this user see them, or too few nodes of a quorum answer.",
			prometheus.Sample{Value: float64(l.Hidden + l.Open)}))
	byKind("locks", "Locks that somebody holds or waits for, or whose number of permits or parties is set.",
		func(t *tally) float64 { return float64(t.locks) })
	byKind("held", "Locks that somebody holds.", func(t *tally) float64 { return float64(t.held) })
	byKind("holders", "Leases: several of a semaphore or of readers.", func(t *tally) float64 { return float64(t.holders) })
	byKind("oldest_hold_seconds", "How long the oldest holder has held a lock.", func(t *tally) float64 { return t.oldest.Seconds() })
	if queues {
		byKind("waiting", "Processes that wait for locks.", func(t *tally) float64 { return float64(t.waiting) })
		byKind("longest_wait_seconds", "How long the process has waited that has waited longest.",
			func(t *tally) float64 { return t.longest.Seconds() })
		if !l.blind {
			all = append(all, gauge("deadlocks", "Circles of holders that wait for each other.", prometheus.Sample{Value: float64(len(l.Circles))}))
		}
	}
	return all
}

// tallies counts the locks by kind.
func (l *look) tallies() map[holdfast.Kind]*tally {
	all, now := map[holdfast.Kind]*tally{}, l.now()
	for _, r := range l.Locks {
		t := all[r.Kind]
		if t == nil {
			t = &tally{}
			all[r.Kind] = t
		}
		t.locks++
		t.holders += r.Holders
		t.waiting += r.Waiting
		if r.Holders > 0 {
			t.held++
		}
		if r.Since != 0 {
			t.oldest = max(t.oldest, now.Sub(time.UnixMilli(r.Since)))
		}
		if r.Waited != 0 {
			t.longest = max(t.longest, now.Sub(time.UnixMilli(r.Waited)))
		}
	}
	return all
}
