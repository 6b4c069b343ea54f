package ui

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/prometheus"
)

const (
	// fresh is how old a look may be that metrics are made of.
	fresh = 5 * time.Second
	// scrapeTime bounds a look that a scrape makes. Prometheus waits for 10 s by default.
	scrapeTime = 30 * time.Second
)

// scrapes are the looks that metrics are made of.
type scrapes struct {
	mu   sync.Mutex // held while the server is asked
	seen time.Time
	last census
}

// census counts locks by kind.
type census struct {
	kinds  map[holdfast.Kind]*tally
	hidden int
	took   time.Duration
	err    error
}

type tally struct {
	locks, held, holders, waiting int
	oldest, longest               time.Duration
}

func (c *census) add(r row, now time.Time) {
	if c.kinds == nil {
		c.kinds = map[holdfast.Kind]*tally{}
	}
	t := c.kinds[r.kind]
	if t == nil {
		t = &tally{}
		c.kinds[r.kind] = t
	}
	t.locks++
	t.holders += r.holders
	t.waiting += r.waiting
	if r.holders > 0 {
		t.held++
	}
	if r.since != 0 {
		t.oldest = max(t.oldest, now.Sub(time.UnixMilli(r.since)))
	}
	if r.waited != 0 {
		t.longest = max(t.longest, now.Sub(time.UnixMilli(r.waited)))
	}
}

// take looks at all locks, unless somebody has just done so. Scrapes at the same time share a look.
func (h *Handler) take() census {
	h.scrapes.mu.Lock()
	defer h.scrapes.mu.Unlock()
	if c, has := h.board.census(); has {
		return c
	}
	if !h.scrapes.seen.IsZero() && time.Since(h.scrapes.seen) < fresh {
		return h.scrapes.last
	}
	ctx, cancel := context.WithTimeout(h.ctx, scrapeTime)
	defer cancel()
	began := time.Now()
	var c census
	for s, err := range h.in.List(ctx, h.opts.Pattern) {
		switch {
		case err != nil && s.Name != "":
			c.hidden++
		case err != nil:
			c.err = err
		default:
			c.add(newRow(0, &s), s.Time)
		}
	}
	c.took = time.Since(began)
	h.scrapes.last, h.scrapes.seen = c, time.Now()
	return c
}

// census counts what the board saw in its latest look. It returns false if that is not fresh.
func (b *board) census() (census, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.looking || b.state.Error != "" || time.Since(b.state.seen) > fresh {
		return census{}, false
	}
	c := census{hidden: b.state.Hidden + b.state.Open, took: time.Duration(b.state.Took) * time.Millisecond}
	now := time.UnixMilli(b.state.Time).Add(time.Since(b.state.seen))
	for _, l := range b.locks {
		c.add(l.row, now)
	}
	return c, true
}

// serveMetrics answers in Prometheus' format. A server that does not answer is a value, not a failed scrape.
func (h *Handler) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	var text bytes.Buffer
	c := h.take()
	if err := prometheus.Write(&text, c.metrics(!h.quorum)...); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", prometheus.ContentType)
	_, _ = w.Write(text.Bytes()) // The client does not listen any more.
}

// metrics returns the values. Without queues, it is not known who waits.
func (c *census) metrics(queues bool) []prometheus.Metric {
	gauge := func(name, help string) prometheus.Metric {
		return prometheus.Metric{Name: "holdfast_inspect_" + name, Help: help, Type: prometheus.Gauge}
	}
	up := gauge("up", "Whether the server answered the latest look at all locks.")
	up.Samples = []prometheus.Sample{{Value: 1}}
	if c.err != nil {
		up.Samples[0].Value = 0
		return []prometheus.Metric{up}
	}
	took := gauge("look_duration_seconds", "How long the latest look at all locks took.")
	took.Samples = []prometheus.Sample{{Value: c.took.Seconds()}}
	hidden := gauge("hidden", "Locks that are not shown: the server does not let this user see them, or too few nodes of a quorum answer.")
	hidden.Samples = []prometheus.Sample{{Value: float64(c.hidden)}}
	all := []prometheus.Metric{up, took, hidden}
	for _, m := range []struct {
		prometheus.Metric
		known bool
		of    func(t *tally) float64
	}{
		{gauge("locks", "Locks that somebody holds or waits for, or whose number of permits or parties is set."), true, func(t *tally) float64 { return float64(t.locks) }},
		{gauge("held", "Locks that somebody holds."), true, func(t *tally) float64 { return float64(t.held) }},
		{gauge("holders", "Leases: several of a semaphore or of readers."), true, func(t *tally) float64 { return float64(t.holders) }},
		{gauge("waiting", "Processes that wait for locks."), queues, func(t *tally) float64 { return float64(t.waiting) }},
		{gauge("oldest_hold_seconds", "How long the oldest holder has held a lock."), true, func(t *tally) float64 { return t.oldest.Seconds() }},
		{gauge("longest_wait_seconds", "How long the process has waited that has waited longest."), queues, func(t *tally) float64 { return t.longest.Seconds() }},
	} {
		if !m.known {
			continue
		}
		for _, kind := range slices.SortedFunc(maps.Keys(c.kinds), cmp.Compare[holdfast.Kind]) {
			m.Samples = append(m.Samples, prometheus.Sample{
				Labels: []prometheus.Label{{Name: "holdfast_kind", Value: string(kind)}}, Value: m.of(c.kinds[kind]),
			})
		}
		all = append(all, m.Metric)
	}
	return all
}
