package ui

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
)

const (
	// lookTime bounds a look at one lock, whatever the client's timeouts are.
	lookTime = 10 * time.Second
	// recordPeriod is the maximum age of the record of breaks that a page shows. Reading it takes more than a look at a lock.
	recordPeriod = 5 * time.Second
	// mostHolders and mostWaiters bound what a page shows of a lock.
	mostHolders = 500
	mostWaiters = 200
)

// report is what the page of a lock shows.
type report struct {
	About   about         `json:"about"`
	Time    int64         `json:"t"` // by the server's clock, in Unix milliseconds
	Key     string        `json:"key"`
	Kind    holdfast.Kind `json:"kind"`
	Fence   string        `json:"fence"`
	Limit   int           `json:"limit"`
	Count   int           `json:"count"`
	Holders []person      `json:"holders"`
	Waiting int           `json:"waiting"`
	Waiters []person      `json:"waiters"` // the first
	Record  []entry       `json:"record"`
	Absent  []string      `json:"absent,omitempty"` // as in look
	Error   string        `json:"error,omitempty"`
	Why     why           `json:"why,omitempty"` // there is an error
}

// person is a holder of the lock, or a process that waits for it.
type person struct {
	Owner   string            `json:"owner"`
	Host    string            `json:"host"`
	PID     int               `json:"pid"`
	Meta    map[string]string `json:"meta,omitempty"`
	Mode    holdfast.Mode     `json:"mode"`
	Permits int               `json:"permits"`
	Since   int64             `json:"since"`
	Grant   string            `json:"grant,omitempty"` // of a holder, as are those below
	Fence   string            `json:"fence,omitempty"`
	Until   int64             `json:"until,omitempty"` // 0: no expiry
	Foreign bool              `json:"foreign,omitempty"`
}

// entry is a break or a revocation on record.
type entry struct {
	person
	What   string `json:"what"` // "broken" or "revoked"
	Time   int64  `json:"t"`
	Held   int64  `json:"held,omitempty"` // for how long the holder had it, in milliseconds
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// serveLock answers with what is known of one lock.
func (h *Handler) serveLock(w http.ResponseWriter, r *http.Request) {
	show := h.single(r.URL.Query().Get("name"))()
	show.About = h.about(r)
	if h.quorum {
		show.Absent = h.latest(r.Context(), lookPeriod, 0).Absent
	}
	answer(w, r, show)
}

// single returns a look at one lock that has begun within the last second, or is about to. All its pages share it.
func (h *Handler) single(name string) func() report {
	h.mu.Lock()
	defer h.mu.Unlock()
	look := h.singles[name]
	if look == nil {
		began := time.Now()
		look = sync.OnceValue(func() report {
			ctx, cancel := context.WithTimeout(h.ctx, lookTime)
			defer cancel()
			s, err := h.in.Get(ctx, name)
			show := newReport(&s, err)
			if err == nil {
				show.Record = h.recorded(ctx, name)
			}
			if left := lookPeriod - time.Since(began); left > 0 {
				time.AfterFunc(left, func() { h.forget(name) })
			} else {
				h.forget(name)
			}
			return show
		})
		h.singles[name] = look
	}
	return look
}

// forget lets the next page look anew.
func (h *Handler) forget(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.singles, name)
}

// newReport returns the report of a lock, or of the error that kept it from being read.
func newReport(s *holdfast.Status, err error) report {
	r := report{Holders: []person{}, Waiters: []person{}, Record: []entry{}}
	if err != nil {
		r.Error, r.Why = errorText(err), whyOf(err)
		return r
	}
	r.Time, r.Key, r.Kind, r.Fence = millis(s.Time), s.Key, s.Kind, fenceText(s.Fence)
	r.Limit, r.Count, r.Waiting = s.Limit, s.Count, s.Waiting
	for i := range s.Holders[:min(len(s.Holders), mostHolders)] {
		r.Holders = append(r.Holders, newHolder(&s.Holders[i], s.Time))
	}
	for _, w := range s.Waiters[:min(len(s.Waiters), mostWaiters)] {
		r.Waiters = append(r.Waiters, person{
			Owner: w.Identity, Host: w.Host, PID: w.PID, Meta: w.Meta, Mode: w.Mode, Permits: w.Permits, Since: millis(w.Since),
		})
	}
	return r
}

func newHolder(h *holdfast.Holder, now time.Time) person {
	return person{
		Owner: h.Identity, Host: h.Host, PID: h.PID, Meta: h.Meta, Mode: h.Mode, Permits: h.Permits, Since: millis(h.Since),
		Grant: h.Grant, Fence: fenceText(h.Fence), Until: expiry(h, now), Foreign: h.Foreign,
	}
}

// record is what the server has on record about breaks, of all locks, the latest first.
type record struct {
	read time.Time
	all  []inspect.Broken
}

// recorded returns what is on record about a lock. If it cannot be read, the page does without.
func (h *Handler) recorded(ctx context.Context, name string) []entry {
	known := h.record.Load()
	if time.Since(known.read) > recordPeriod {
		known = &record{read: time.Now()}
		for b, err := range h.in.History(ctx) {
			if err != nil {
				break
			}
			known.all = append(known.all, b)
		}
		h.record.Store(known)
	}
	entries := []entry{}
	for i := range known.all {
		b := &known.all[i]
		if b.Name != name {
			continue
		}
		e := entry{person: newHolder(&b.Holder, b.Time), What: "broken", Time: millis(b.Time), By: b.By, Reason: b.Reason}
		if b.Revoked {
			e.What = "revoked"
		}
		if e.Since != 0 {
			e.Held = max(e.Time-e.Since, 0)
		}
		entries = append(entries, e)
	}
	return entries
}
