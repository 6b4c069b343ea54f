package inspect

import (
	"context"
	"errors"
	"hash/maphash"
	"iter"
	"slices"
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
	w.in.list(ctx, w.pattern, func(s holdfast.Status, err error) bool {
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
			goOn = w.tell(s, w.changes(s))
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
		if !w.tell(gone, losses(old.holders, gone.Time)) {
			return false
		}
	}
	return true
}

func (w *watch) tell(s holdfast.Status, changes []EventType) (goOn bool) {
	for _, change := range changes {
		if !w.yield(Event{change, s.Time, s}, nil) {
			return false
		}
	}
	return true
}

// changes returns what has changed about a lock, and remembers it as it is now.
func (w *watch) changes(s holdfast.Status) []EventType {
	old := w.locks[s.Key]
	now := &watched{name: s.Name, kind: s.Kind, look: w.looks, seen: s.Time, waiting: s.Waiting}
	for _, h := range s.Holders {
		now.holders = append(now.holders, w.held(h, s.Time))
	}
	w.locks[s.Key] = now
	if old == nil && !w.settled {
		return []EventType{EventPresent}
	}
	if old == nil {
		old = &watched{}
	}
	changes := losses(without(old.holders, now.holders), s.Time)
	if len(without(now.holders, old.holders)) > 0 {
		changes = append(changes, EventGranted)
	}
	if now.isQueued(old, s) {
		changes = append(changes, EventQueued)
	}
	return changes
}

// losses returns how these holders have lost a lock.
func losses(gone []held, now time.Time) (how []EventType) {
	hasExpired := func(h held) bool { return !h.expiry.IsZero() && !h.expiry.After(now) }
	if slices.ContainsFunc(gone, func(h held) bool { return !hasExpired(h) }) {
		how = append(how, EventReleased)
	}
	if slices.ContainsFunc(gone, hasExpired) {
		how = append(how, EventExpired)
	}
	return how
}

// without returns the holders that are not among others.
func without(all, others []held) (rest []held) {
	for _, h := range all {
		if !slices.ContainsFunc(others, func(o held) bool { return o.id == h.id }) {
			rest = append(rest, h)
		}
	}
	return rest
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
