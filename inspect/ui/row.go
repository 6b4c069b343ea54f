package ui

import (
	"encoding/json"
	"time"

	"github.com/holdfast-go/holdfast"
)

// row is what the list shows of a lock.
type row struct {
	id      int // in this handler, as long as the lock is listed
	name    string
	kind    holdfast.Kind
	mode    holdfast.Mode // of the first holder
	owner   string        // of the first holder
	host    string
	notes   string // of the first holder, for searches
	foreign bool
	holders int
	used    int    // permits that are held, or parties of a latch that have not counted down
	limit   int    // permits of a semaphore, parties of a latch or barrier
	since   int64  // when the oldest holder was granted the lock, in Unix milliseconds; 0 if nobody was, or it is not known
	until   int64  // when the first lease would expire; 0 if none would
	grant   string // of the first holder, for searches
	waiting int
	waited  int64 // since when the first waiter waits; 0 if nobody does
}

// newRow returns the row of a lock.
func newRow(id int, s *holdfast.Status) row {
	r := row{id: id, name: s.Name, kind: s.Kind, holders: len(s.Holders), limit: s.Limit, used: s.Count, waiting: s.Waiting}
	if h, held := s.Holder(); held {
		r.mode, r.owner, r.host, r.grant, r.foreign = h.Mode, h.Identity, h.Host, h.Grant, h.Foreign
		for _, note := range notes(h.Meta) {
			r.notes += note[0] + "=" + note[1] + "\n"
		}
	}
	for i := range s.Holders {
		h := &s.Holders[i]
		r.used += h.Permits
		if since := millis(h.Since); since != 0 && (r.since == 0 || since < r.since) {
			r.since = since
		}
		if until := expiry(h, s.Time); until != 0 && (r.until == 0 || until < r.until) {
			r.until = until
		}
	}
	for _, w := range s.Waiters {
		if since := millis(w.Since); r.waited == 0 || since < r.waited {
			r.waited = since
		}
	}
	return r
}

// sameUntil is how far the end of a lease may move, in milliseconds, without a renewal: the server's answers vary that much.
const sameUntil = 100

// isRenewed reports whether only the end of the lease differs from that of an older row, and equals whether nothing does.
func (r row) isRenewed(old row) (renewed, equals bool) {
	apart := r.until - old.until
	old.until = r.until
	if r != old {
		return false, false
	}
	equals = -sameUntil < apart && apart < sameUntil
	return !equals, equals
}

// MarshalJSON writes a row as an array, which list.js takes apart.
func (r row) MarshalJSON() ([]byte, error) {
	foreign := 0
	if r.foreign {
		foreign = 1
	}
	return json.Marshal([]any{
		r.id, r.name, r.kind, r.holders, r.mode, r.owner, r.host, foreign, r.used, r.limit, r.since, r.until, r.grant,
		r.waiting, r.waited, r.notes,
	})
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
