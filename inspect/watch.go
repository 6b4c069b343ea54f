package inspect

import (
	"context"
	"errors"
	"hash/maphash"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/inspector"
)

// Event is one change that Watch saw.
type Event struct {
	Type   EventType
	Time   time.Time       // by the server's clock: when it was seen
	Status holdfast.Status // after the change
}

// EventType says what changed.
type EventType string

// The changes that Watch reports.
const (
	EventPresent  EventType = "present"  // it was there when Watch began
	EventGranted  EventType = "granted"  // it has a new holder
	EventQueued   EventType = "queued"   // it has a new waiter
	EventReleased EventType = "released" // a holder released it, or it was deleted or broken (see Inspector.History)
	EventExpired  EventType = "expired"  // a holder's lease ran out
)

// Watch yields the changes of the locks whose names match a pattern, as List takes it, until ctx ends: first each lock that
// List would list, then what happens.
//
// Watch looks at the locks once a second; if a look takes longer, it pauses for as long. The server tells nobody of
// all changes, so what comes and goes between two looks is not seen, and a lock that changed hands twice is granted once. A
// look yields at most one event of each type for a lock, in the order released, expired, granted, queued. It keeps some 200
// bytes for each lock.
//
// A holder that is gone has released the lock, unless its lease had run out since the last look. A waiter that gives up makes no event.
//
// While the server does not answer, each look yields an error that matches [holdfast.ErrUnavailable], and Watch goes on. An error
// that comes with a name in the status is about that lock. Any other error ends it: those of List, and
// [holdfast.ErrClosed].
func (i *Inspector) Watch(ctx context.Context, pattern string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		p, err := compile("watch", pattern)
		if err != nil {
			yield(Event{}, err)
			return
		}
		w := &watch{in: i, pattern: p, yield: yield, locks: map[string]*watched{}, seed: maphash.MakeSeed()}
		for {
			began := time.Now()
			if !w.look(ctx) {
				return
			}
			pause := time.NewTimer(max(lookPeriod-time.Since(began), time.Since(began)))
			select {
			case <-pause.C:
			case <-ctx.Done():
				pause.Stop()
				return
			}
		}
	}
}

// lookPeriod is the time between the beginnings of two looks.
const lookPeriod = time.Second

// watch is what Watch knows.
type watch struct {
	in      *Inspector
	pattern inspector.Pattern
	yield   func(Event, error) bool
	seed    maphash.Seed
	locks   map[string]*watched // by key
	looks   int                 // that have begun
	settled bool                // a look at all locks has ended

	server, local time.Time // the server's clock, as it was heard last, and when that was
}

// watched is what is known of a lock since the last look.
type watched struct {
	name    string
	kind    holdfast.Kind
	look    int       // at which it was there
	seen    time.Time // by the server's clock
	waiting int
	holders []held
}

// held is a holder.
type held struct {
	id     uint64    // stands for what its program and the server say of it
	expiry time.Time // by the server's clock; zero: none
}

// look looks at all locks once, and yields what has changed. It returns false to end Watch.
func (w *watch) look(ctx context.Context) (goOn bool) {
	w.looks++
	whole := true
	goOn = true
	w.each(ctx, func(s holdfast.Status, err error) bool {
		switch {
		case err != nil && s.Name != "":
			if old := w.locks[s.Key]; old != nil {
				old.look = w.looks
			}
			goOn = w.settled || w.yield(Event{Status: s}, err)
		case err != nil:
			whole = false
			goOn = ctx.Err() == nil && w.yield(Event{}, err) && errors.Is(err, holdfast.ErrUnavailable)
		default:
			w.server, w.local = s.Time, time.Now()
			goOn = w.compare(s)
		}
		return goOn
	})
	if !goOn || !whole {
		return goOn
	}
	w.settled = true
	for key, old := range w.locks {
		if old.look == w.looks {
			continue
		}
		delete(w.locks, key)
		gone := holdfast.Status{Name: old.name, Key: key, Kind: old.kind, Time: w.server.Add(time.Since(w.local))}
		if !w.lost(old.holders, gone) {
			return false
		}
	}
	return true
}

// each calls f with each lock that is in use, or an error, as List yields them.
func (w *watch) each(ctx context.Context, f func(holdfast.Status, error) bool) {
	name, is := literal(w.pattern.Text)
	if !is {
		w.in.list(ctx, w.pattern, f)
		return
	}
	w.in.lookup(ctx, name, func(s holdfast.Status, err error) bool {
		if err == nil && !isInUse(s) {
			w.server, w.local = s.Time, time.Now()
			return true
		}
		return f(s, err)
	})
}

// compare yields what has changed about a lock.
func (w *watch) compare(s holdfast.Status) (goOn bool) {
	old := w.locks[s.Key]
	now := &watched{name: s.Name, kind: s.Kind, look: w.looks, seen: s.Time, waiting: s.Waiting}
	for _, h := range s.Holders {
		now.holders = append(now.holders, w.held(h, s.Time))
	}
	w.locks[s.Key] = now
	if old == nil && !w.settled {
		return w.tell(EventPresent, s)
	}
	if old == nil {
		old = &watched{}
	}
	var gone []held
	for _, h := range old.holders {
		if !now.has(h) {
			gone = append(gone, h)
		}
	}
	if !w.lost(gone, s) {
		return false
	}
	for _, h := range now.holders {
		if !old.has(h) {
			if !w.tell(EventGranted, s) {
				return false
			}
			break
		}
	}
	return !now.isQueued(old, s) || w.tell(EventQueued, s)
}

func (w *watch) tell(what EventType, s holdfast.Status) bool {
	return w.yield(Event{what, s.Time, s}, nil)
}

// held returns what is kept of a holder.
func (w *watch) held(h holdfast.Holder, now time.Time) held {
	own := held{}
	own.id = maphash.Comparable(w.seed, struct {
		owner, host  string
		pid, permits int
		mode         holdfast.Mode
		grant        string
		since        int64
		foreign      bool
	}{h.Identity, h.Host, h.PID, h.Permits, h.Mode, h.Grant, h.Since.UnixMilli(), h.Foreign})
	if h.TTL >= 0 {
		own.expiry = now.Add(h.TTL)
	}
	return own
}

func (l *watched) has(h held) bool {
	for _, own := range l.holders {
		if own.id == h.id {
			return true
		}
	}
	return false
}

// isQueued reports whether somebody waits who did not at the last look. Whoever waits has the server's time of its
// arrival; of a long queue, only the first are named.
func (l *watched) isQueued(old *watched, s holdfast.Status) bool {
	for _, waiter := range s.Waiters {
		if waiter.Since.After(old.seen) {
			return true
		}
	}
	return s.Waiting > len(s.Waiters) && s.Waiting > old.waiting
}

// lost yields how holders have lost a lock.
func (w *watch) lost(gone []held, s holdfast.Status) (goOn bool) {
	how := map[EventType]bool{}
	for _, h := range gone {
		switch {
		case !h.expiry.IsZero() && !h.expiry.After(s.Time):
			how[EventExpired] = true
		default:
			how[EventReleased] = true
		}
	}
	for _, what := range []EventType{EventReleased, EventExpired} {
		if how[what] && !w.tell(what, s) {
			return false
		}
	}
	return true
}
