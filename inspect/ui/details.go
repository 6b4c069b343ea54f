package ui

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
)

// details are looks at single locks, which viewers of the same lock share.
type details struct {
	in source

	mu sync.Mutex
	of map[string]*detail // by name
}

// detail is the latest look at a lock.
type detail struct {
	viewers int // guarded by details.mu

	mu     chan struct{} // holds one token; a mutex that can be waited for with a context
	seen   time.Time
	status holdfast.Status
	err    error
	read   time.Time        // when the record was read
	record []inspect.Broken // what is on record about the lock, the latest first
}

// lookTime bounds a look, whatever the client's timeouts are. A page that receives nothing for 25 s reconnects (stream.js), which ends the look.
const lookTime = 10 * time.Second

// recordPeriod is the maximum age of the record that a page shows. Reading the record takes more than a look at a lock.
const recordPeriod = 5 * time.Second

// enter lets viewers of a lock share looks, until leave.
func (d *details) enter(name string) (leave func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	own := d.of[name]
	if own == nil {
		own = &detail{mu: make(chan struct{}, 1)}
		d.of[name] = own
	}
	own.viewers++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if own.viewers--; own.viewers == 0 {
			delete(d.of, name)
		}
	}
}

// get returns the status of a lock that was entered, at most half a second old, and what is on record about it.
func (d *details) get(ctx context.Context, name string) (holdfast.Status, []inspect.Broken, error) {
	d.mu.Lock()
	own := d.of[name]
	d.mu.Unlock()
	select {
	case own.mu <- struct{}{}:
	case <-ctx.Done():
		return holdfast.Status{}, nil, ctx.Err()
	}
	defer func() { <-own.mu }()
	if time.Since(own.seen) > lookPeriod/2 {
		look, cancel := context.WithTimeout(ctx, lookTime)
		defer cancel()
		status, err := d.in.Get(look, name)
		if err == nil && (!sameHolders(&status, &own.status) || time.Since(own.read) > recordPeriod) {
			own.record, own.read = d.history(look, name), time.Now()
		}
		if ctx.Err() != nil {
			return holdfast.Status{}, nil, ctx.Err()
		}
		own.status, own.err, own.seen = status, err, time.Now()
	}
	return own.status, own.record, own.err
}

// history returns what is on record about a lock. If that cannot be read, the page does without it.
func (d *details) history(ctx context.Context, name string) (all []inspect.Broken) {
	for b, err := range d.in.History(ctx) {
		if err != nil {
			break
		}
		if b.Name == name {
			all = append(all, b)
		}
	}
	return all
}

func sameHolders(a, b *holdfast.Status) bool {
	return slices.EqualFunc(a.Holders, b.Holders, func(h, g holdfast.Holder) bool { return h.Grant == g.Grant && h.Since.Equal(g.Since) })
}

// report is what the page of a lock shows.
type report struct {
	Time     int64         `json:"t"` // by the server's clock
	Name     string        `json:"name"`
	Key      string        `json:"key"`
	Kind     holdfast.Kind `json:"kind"`
	Fence    string        `json:"fence"`
	Limit    int           `json:"limit"`
	Count    int           `json:"count"`
	Holders  []holder      `json:"holders"`
	Waiting  int           `json:"waiting"`
	Waiters  []waiter      `json:"waiters"` // the first
	Timeline []happening   `json:"timeline"`
	Absent   []string      `json:"absent,omitempty"` // as in state
	Error    string        `json:"error,omitempty"`
	Why      why           `json:"why,omitempty"` // there is an error
}

// holder is a holder of the lock.
type holder struct {
	Owner   string      `json:"owner"`
	Host    string      `json:"host"`
	PID     int         `json:"pid"`
	Meta    [][2]string `json:"meta"` // in the order of keys
	Mode    string      `json:"mode"`
	Permits int         `json:"permits"`
	Grant   string      `json:"grant"`
	Fence   string      `json:"fence"`
	Since   int64       `json:"since"`
	Until   int64       `json:"until"` // 0: no expiry
	Foreign bool        `json:"foreign"`
}

// waiter is a process that waits for it.
type waiter struct {
	Owner   string      `json:"owner"`
	Host    string      `json:"host"`
	PID     int         `json:"pid"`
	Meta    [][2]string `json:"meta"`
	Mode    string      `json:"mode"`
	Permits int         `json:"permits"`
	Since   int64       `json:"since"`
}

const (
	// mostHolders and mostWaiters bound what a page shows of a lock.
	mostHolders = 500
	mostWaiters = 200
)

// newReport returns the report of a lock, or of the error that kept it from being read.
func newReport(s *holdfast.Status, err error, timeline []happening) report {
	r := report{Holders: []holder{}, Waiters: []waiter{}, Timeline: timeline}
	if r.Timeline == nil {
		r.Timeline = []happening{}
	}
	if err != nil {
		r.Error, r.Why = errorText(err), whyOf(err)
		return r
	}
	r.Time, r.Name, r.Key, r.Kind, r.Fence = millis(s.Time), s.Name, s.Key, s.Kind, fenceText(s.Fence)
	r.Limit, r.Count, r.Waiting = s.Limit, s.Count, s.Waiting
	for i := range s.Holders[:min(len(s.Holders), mostHolders)] {
		h := &s.Holders[i]
		r.Holders = append(r.Holders, holder{
			h.Identity, h.Host, h.PID, notes(h.Meta), string(h.Mode), h.Permits, h.Grant, fenceText(h.Fence), millis(h.Since), expiry(h, s.Time),
			h.Foreign,
		})
	}
	for _, w := range s.Waiters[:min(len(s.Waiters), mostWaiters)] {
		r.Waiters = append(r.Waiters, waiter{w.Identity, w.Host, w.PID, notes(w.Meta), string(w.Mode), w.Permits, millis(w.Since)})
	}
	return r
}

func notes(meta map[string]string) [][2]string {
	all := [][2]string{}
	for key, value := range meta {
		all = append(all, [2]string{key, value})
	}
	slices.SortFunc(all, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return all
}
