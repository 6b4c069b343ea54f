package ui

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
)

const (
	// lookPeriod is the least time from the end of a look at all locks to the beginning of the next.
	lookPeriod = time.Second
	// patience bounds the wait for a look, which takes long if there are very many locks. The page then shows the look before it.
	patience = 8 * time.Second
)

// look is what is known of all locks after a look at them. A page gets it as JSON.
type look struct {
	ID      int64      `json:"id"`               // 0: no look has ended
	Locks   []row      `json:"locks"`            // by key
	Hidden  int        `json:"hidden,omitempty"` // locks that the server does not show to this user
	Open    int        `json:"open,omitempty"`   // locks of a quorum of which too few nodes said who holds them
	Error   string     `json:"error,omitempty"`
	Why     why        `json:"why,omitempty"`     // there is an error
	Partly  bool       `json:"partly,omitempty"`  // there is an error, but some locks were seen
	Seen    int64      `json:"seen"`              // when all locks were seen last, by this machine's clock; 0: never
	Circles [][]member `json:"circles,omitempty"` // of holders that wait for each other
	Absent  []string   `json:"absent,omitempty"`  // why nodes of a quorum did not answer; the others are a majority

	byKey map[string]row
	blind bool // this user may not look for circles
	ended time.Time
	took  time.Duration
	ahead time.Duration // of the server's clock
}

// latest returns a look that is at most age old, or at most as old as it took. If there is none, it begins one, which everyone who asks
// meanwhile shares. If that has not ended after wait, it returns the look before it.
func (h *Handler) latest(ctx context.Context, age, wait time.Duration) *look {
	h.mu.Lock()
	if l := h.last; time.Since(l.ended) < max(age, l.took) {
		h.mu.Unlock()
		return l
	}
	if h.looking == nil {
		h.looking = make(chan struct{})
		go h.look()
	}
	looking := h.looking
	h.mu.Unlock()
	select {
	case <-looking:
	case <-time.After(wait):
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// look looks at all locks. What it could not see stays as it was.
func (h *Handler) look() {
	old, began := h.last, time.Now()
	l := &look{byKey: map[string]row{}, Seen: old.Seen, ahead: old.ahead}
	var failed error
	for s, err := range h.in.List(h.ctx, h.opts.Pattern) {
		switch {
		case err != nil && s.Name != "":
			if whyOf(err) == denied {
				l.Hidden++
			} else {
				l.Open++
			}
			if r, known := old.byKey[s.Key]; known {
				l.byKey[s.Key] = r
			}
		case err != nil:
			failed = err
		default:
			l.ahead = time.Until(s.Time)
			l.byKey[s.Key] = newRow(&s)
		}
	}
	if failed == nil {
		if l.Circles, failed = h.circles(l); whyOf(failed) == denied {
			l.blind, failed = true, nil
		}
	}
	l.ended = time.Now()
	l.ID = l.ended.UnixMilli()
	l.took = l.ended.Sub(began)
	if failed != nil {
		l.Error, l.Why, l.Partly = errorText(failed), whyOf(failed), len(l.byKey) > 0
		for key, r := range old.byKey {
			if _, seen := l.byKey[key]; !seen {
				l.byKey[key] = r
			}
		}
	} else {
		l.Seen = l.ended.UnixMilli()
		l.Absent = h.absent()
	}
	l.Locks = make([]row, 0, len(l.byKey))
	for _, key := range slices.Sorted(maps.Keys(l.byKey)) {
		l.Locks = append(l.Locks, l.byKey[key])
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = l
	close(h.looking)
	h.looking = nil
}

// member is a holder in a circle, who waits for the lock of the next.
type member struct {
	Name  string `json:"name"` // of the lock that it holds
	Owner string `json:"owner,omitempty"`
}

// deadlockAge is how long somebody has waited before the handler looks for deadlocks, since waiters look themselves after that time.
const deadlockAge = time.Second

// circles returns the circles of holders that wait for each other.
func (h *Handler) circles(l *look) (all [][]member, err error) {
	waits := func(r row) bool { return r.Waited != 0 && l.now().Sub(time.UnixMilli(r.Waited)) > deadlockAge }
	if h.quorum || !slices.ContainsFunc(slices.Collect(maps.Values(l.byKey)), waits) {
		return nil, nil
	}
	found, err := h.in.Deadlocks(h.ctx)
	for _, one := range found {
		var circle []member
		for _, h := range one.Circle {
			circle = append(circle, member{h.Name, h.Identity})
		}
		all = append(all, circle)
	}
	return all, err
}

// now returns the time by the server's clock.
func (l *look) now() time.Time { return time.Now().Add(l.ahead) }

// serveList answers with all locks, unless the page has seen the latest look. If there are very many locks, pages ask more often than
// the handler looks.
func (h *Handler) serveList(w http.ResponseWriter, r *http.Request) {
	l := h.latest(r.Context(), lookPeriod, patience)
	if r.URL.Query().Get("seen") == strconv.FormatInt(l.ID, 10) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	answer(w, r, struct {
		About about `json:"about"`
		Time  int64 `json:"t"` // by the server's clock, in Unix milliseconds
		*look
	}{h.about(r), l.now().UnixMilli(), l})
}

// row is what the list shows of a lock.
type row struct {
	Name    string        `json:"name"`
	Kind    holdfast.Kind `json:"kind,omitempty"`
	Mode    holdfast.Mode `json:"mode,omitempty"` // of the first holder, as is all up to Foreign
	Owner   string        `json:"owner,omitempty"`
	Host    string        `json:"host,omitempty"`
	Notes   string        `json:"notes,omitempty"`
	Grant   string        `json:"grant,omitempty"`
	Foreign bool          `json:"foreign,omitempty"`
	Holders int           `json:"holders"`
	Used    int           `json:"used,omitempty"`  // permits that are held, or parties of a latch that have not counted down
	Limit   int           `json:"limit,omitempty"` // permits of a semaphore, parties of a latch or barrier
	Since   int64         `json:"since,omitempty"` // when the oldest holder was granted the lock, in Unix milliseconds
	Until   int64         `json:"until,omitempty"` // when the first lease expires
	Waiting int           `json:"waiting"`
	Waited  int64         `json:"waited,omitempty"` // since when the first waiter waits
}

func newRow(s *holdfast.Status) row {
	r := row{Name: s.Name, Kind: s.Kind, Holders: len(s.Holders), Limit: s.Limit, Used: s.Count, Waiting: s.Waiting}
	if h, held := s.Holder(); held {
		r.Mode, r.Owner, r.Host, r.Grant, r.Foreign = h.Mode, h.Identity, h.Host, h.Grant, h.Foreign
		for _, key := range slices.Sorted(maps.Keys(h.Meta)) {
			r.Notes += key + "=" + h.Meta[key] + "\n"
		}
	}
	for i := range s.Holders {
		h := &s.Holders[i]
		r.Used += h.Permits
		r.Since = earlier(r.Since, millis(h.Since))
		r.Until = earlier(r.Until, expiry(h, s.Time))
	}
	for _, w := range s.Waiters {
		r.Waited = earlier(r.Waited, millis(w.Since))
	}
	return r
}

// earlier returns the earlier of two times; 0 is none.
func earlier(a, b int64) int64 {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// millis returns a time in Unix milliseconds; 0 if it is not known.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// expiry returns when a lease expires, in Unix milliseconds by the server's clock; 0 if never.
func expiry(h *holdfast.Holder, now time.Time) int64 {
	if h.TTL < 0 {
		return 0
	}
	return now.Add(h.TTL).UnixMilli()
}

// fenceText is a fence for JavaScript, whose numbers have 53 bits; "" if there is none.
func fenceText(fence uint64) string {
	if fence == 0 {
		return ""
	}
	return strconv.FormatUint(fence, 10)
}

// credentials matches those in a URL. Our own errors have none; those of client libraries may.
var credentials = regexp.MustCompile(`://[^\s"']*@`)

// errorText is an error as people read it.
func errorText(err error) string {
	return credentials.ReplaceAllString(strings.TrimPrefix(err.Error(), "holdfast: "), "://")
}

// why sorts errors by what the page says above them.
type why string

const (
	silent why = "silent" // the server does not answer
	denied why = "denied" // it refuses
	other  why = "other"
)

func whyOf(err error) why {
	switch {
	case errors.Is(err, holdfast.ErrDenied):
		return denied
	case errors.Is(err, holdfast.ErrUnavailable):
		return silent
	}
	return other
}
