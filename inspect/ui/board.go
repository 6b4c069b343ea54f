package ui

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

const (
	// lookPeriod is the time between the beginnings of two looks at all locks.
	lookPeriod = time.Second
	// linger is how long the board goes on without viewers, so that timelines survive a page that is loaded anew.
	linger = 30 * time.Second
	// mostChanges is how many changes of a look are published together.
	mostChanges = 5000
)

// board knows all locks while somebody looks. It lists them once a second, as inspect's Watch does, and publishes what has changed
// to all viewers at once.
//
// It does not use Watch, which leaves out what people want to see: how long a lease still lasts, who has left the queue, and
// whether the server answers.
type board struct {
	in          source
	pattern     string
	ctx         context.Context
	mostViewers int
	absent      func() []error // of a quorum: why nodes did not answer the latest look

	mu        sync.Mutex
	looking   bool // a goroutine runs look
	idle      time.Time
	guests    int // viewers that need the board, but not its list
	viewers   map[*viewer]bool
	locks     map[string]*listed // by key
	nextID    int
	looks     int // that have begun
	timelines timelines
	state     state
	changes   *changes // since the last publishing
}

// listed is what the board knows of a lock that is in use.
type listed struct {
	row     row
	holders []held
	look    int // at which it was there
}

// state is how the latest look ended.
type state struct {
	Time   int64    `json:"t"`              // the server's clock, as far as it is known, in Unix milliseconds
	Took   int64    `json:"took"`           // ms
	Locks  int      `json:"locks"`          // that are listed
	Hidden int      `json:"hidden"`         // locks that the server does not show to this user
	Open   int      `json:"open,omitempty"` // locks of a quorum of which too few nodes said who holds them
	Error  string   `json:"error,omitempty"`
	Why    why      `json:"why,omitempty"`    // there is an error
	Partly bool     `json:"partly,omitempty"` // there is an error, but some locks were seen
	Seen   int64    `json:"seen"`             // when all locks were seen last, by this machine's clock; 0: never
	Absent []string `json:"absent,omitempty"` // why nodes of a quorum did not answer; the others are a majority

	seen time.Time
}

func newBoard(ctx context.Context, in source, pattern string, mostViewers int) *board {
	return &board{
		in: in, pattern: pattern, ctx: ctx, mostViewers: mostViewers, viewers: map[*viewer]bool{},
		locks: map[string]*listed{}, changes: &changes{}, timelines: newTimelines(), absent: func() []error { return nil },
	}
}

// errFull says that there are too many viewers.
var errFull = errors.New("too many pages are open")

// enter lets the board look, until leave. v is nil for a guest, who is not told of changes; a viewer begins with a snapshot.
func (b *board) enter(v *viewer) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.guests+len(b.viewers) >= b.mostViewers {
		return errFull
	}
	if v == nil {
		b.guests++
	} else {
		b.viewers[v] = true
	}
	if !b.looking {
		b.looking = true
		go b.look()
	}
	return nil
}

func (b *board) leave(v *viewer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if v == nil {
		b.guests--
	} else {
		delete(b.viewers, v)
	}
	if b.guests+len(b.viewers) == 0 {
		b.idle = time.Now()
	}
}

// look looks once a second, until nobody has looked for a while.
func (b *board) look() {
	for {
		began := time.Now()
		b.lookOnce()
		took := time.Since(began)
		pause := time.NewTimer(max(lookPeriod-took, took))
		select {
		case <-pause.C:
		case <-b.ctx.Done():
			pause.Stop()
		}
		if b.ends() {
			return
		}
	}
}

// ends forgets everything if nobody looks any more.
func (b *board) ends() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() == nil && (b.guests+len(b.viewers) > 0 || time.Since(b.idle) < linger) {
		return false
	}
	b.looking = false
	b.locks, b.timelines, b.state, b.changes = map[string]*listed{}, newTimelines(), state{}, &changes{}
	return true
}

// lookOnce looks at all locks, and publishes what has changed.
func (b *board) lookOnce() {
	began := time.Now()
	b.looks++
	hidden, open, seen := 0, 0, 0
	var failed error
	var now time.Time
	for s, err := range b.in.List(b.ctx, b.pattern) {
		switch {
		case err != nil && s.Name != "":
			if whyOf(err) == denied {
				hidden++
			} else {
				open++
			}
			b.keep(s.Key)
		case err != nil:
			failed = err
		default:
			now = s.Time
			seen++
			b.see(&s)
		}
	}
	if b.ctx.Err() != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	ended := time.Now()
	b.state.Took, b.state.Error, b.state.Why, b.state.Partly, b.state.Absent = ended.Sub(began).Milliseconds(), "", "", false, nil
	switch {
	case failed != nil:
		b.state.Error, b.state.Why, b.state.Partly = errorText(failed), whyOf(failed), seen > 0
	default:
		b.state.Hidden, b.state.Open, b.state.Seen, b.state.seen = hidden, open, ended.UnixMilli(), ended
		for _, err := range b.absent() {
			b.state.Absent = append(b.state.Absent, errorText(err))
		}
		b.sweep(now)
	}
	b.state.Time, b.state.Locks = millis(now), len(b.locks)
	b.publish(&b.state)
}

// keep remembers a lock that could not be looked at.
func (b *board) keep(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.locks[key]; l != nil {
		l.look = b.looks
	}
}

// see notes what is seen of a lock.
func (b *board) see(s *holdfast.Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, known := b.locks[s.Key]
	l := &listed{holders: heldBy(s), look: b.looks}
	if !known {
		b.nextID++
		l.row = newRow(b.nextID, s)
		b.changes.rows = append(b.changes.rows, l.row)
	} else {
		l.row = newRow(old.row.id, s)
		switch renewed, equals := l.row.isRenewed(old.row); {
		case equals:
			l.row.until = old.row.until
		case renewed:
			b.changes.renewed = append(b.changes.renewed, [2]int64{int64(l.row.id), l.row.until})
		default:
			b.changes.rows = append(b.changes.rows, l.row)
		}
	}
	var before []held
	waited := 0
	if known {
		before, waited = old.holders, old.row.waiting
	}
	b.timelines.compare(s.Name, before, l.holders, waited, s.Time)
	b.locks[s.Key] = l
	if len(b.changes.rows)+len(b.changes.renewed) >= mostChanges {
		b.publish(nil)
	}
}

// sweep forgets the locks that are no longer in use.
func (b *board) sweep(now time.Time) {
	for key, l := range b.locks {
		if l.look == b.looks {
			continue
		}
		if now.IsZero() { // No other lock is left to tell the server's time.
			now = time.Now()
		}
		b.timelines.compare(l.row.name, l.holders, nil, 0, now)
		b.changes.gone = append(b.changes.gone, l.row.id)
		delete(b.locks, key)
	}
}

// publish tells all viewers of the changes, and at the end of a look of its state.
func (b *board) publish(state *state) {
	if len(b.viewers) > 0 {
		text := b.changes.frame(state)
		for v := range b.viewers {
			v.send(text)
		}
	}
	b.changes.clear()
}

// snapshot returns all locks and the state, from which on a viewer can follow the changes.
func (b *board) snapshot(v *viewer) ([]row, state) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v.drain()
	rows := make([]row, 0, len(b.locks))
	for _, l := range b.locks {
		rows = append(rows, l.row)
	}
	return rows, b.state
}

// timeline returns what happened to a lock, as far as the board saw it, the latest first, and why nodes of a quorum did not
// answer its latest look.
func (b *board) timeline(name string) (all []happening, absent []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all = b.timelines.of(name)
	slices.Reverse(all)
	return all, b.state.Absent
}
