package ui

import (
	"bytes"
	"context"
	"net/http"
	"time"
)

const (
	// mostFrames is how many events wait for a slow browser. If there are more, it gets the whole list anew when it reads again.
	mostFrames = 16
	// writeTime bounds one write to a browser.
	writeTime = 30 * time.Second
	// heartbeat is the longest time without an event, so that proxies keep the connection and pages notice a dead one.
	heartbeat = 10 * time.Second
)

// viewer is a browser that shows the list.
type viewer struct {
	frames chan []byte
	lagged bool // frames were dropped; guarded by the board's mutex
}

func newViewer() *viewer { return &viewer{frames: make(chan []byte, mostFrames)} }

// send never blocks. It is called with the board's mutex, as is drain.
func (v *viewer) send(frame []byte) {
	select {
	case v.frames <- frame:
	default:
		v.lagged = true
	}
}

func (v *viewer) drain() {
	for v.lagged = false; ; {
		select {
		case <-v.frames:
		default:
			return
		}
	}
}

func (b *board) hasLagged(v *viewer) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return v.lagged
}

// stream writes events to a browser.
type stream struct {
	w  http.ResponseWriter
	to *http.ResponseController
}

// write fails if the browser does not take it in time, or is gone.
func (s *stream) write(text []byte) error {
	_ = s.to.SetWriteDeadline(time.Now().Add(writeTime)) // not possible in tests
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.to.Flush()
}

// hello is what a page has to know first.
type hello struct {
	Label   string `json:"label"`
	Pattern string `json:"pattern"`
	Breaks  bool   `json:"breaks"`
	Quorum  bool   `json:"quorum,omitempty"` // it is not known who waits
	User    string `json:"user,omitempty"`
	Now     int64  `json:"now"`
}

// beat says that nothing has changed.
type beat struct {
	Time int64 `json:"t,omitempty"` // by the server's clock
}

// serveEvents keeps a page up to date: about one lock, if one is named, or about all.
func (h *Handler) serveEvents(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	name, one := query.Get("lock"), query.Has("lock")
	var v *viewer
	if !one {
		v = newViewer()
	}
	if err := h.board.enter(v); err != nil {
		w.Header().Set("Retry-After", "10")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer h.board.leave(v)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx
	s := &stream{w, http.NewResponseController(w)}
	user, _, _ := r.BasicAuth()
	if h.opts.Authenticate == nil {
		user = ""
	}
	if s.write(event("hello", hello{h.opts.Label, h.opts.Pattern, h.breaker != nil, h.quorum, user, time.Now().UnixMilli()})) != nil {
		return
	}
	if one {
		h.followLock(ctx, s, name)
		return
	}
	h.board.follow(ctx, s, v)
}

// follow tells a viewer of all locks, until it leaves.
func (b *board) follow(ctx context.Context, s *stream, v *viewer) {
	if b.resync(s, v) != nil {
		return
	}
	silence := time.NewTicker(heartbeat)
	defer silence.Stop()
	for {
		var err error
		select {
		case frame := <-v.frames:
			if b.hasLagged(v) {
				err = b.resync(s, v)
			} else {
				err = s.write(frame)
			}
		case <-silence.C: // A look takes long.
			err = s.write(event("beat", beat{}))
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
		silence.Reset(heartbeat)
	}
}

// resync sends the whole list, in parts.
func (b *board) resync(s *stream, v *viewer) error {
	rows, state := b.snapshot(v)
	if err := s.write(event("reset", struct{}{})); err != nil {
		return err
	}
	for len(rows) > mostChanges {
		if err := s.write((&changes{rows: rows[:mostChanges]}).frame(nil)); err != nil {
			return err
		}
		rows = rows[mostChanges:]
	}
	last := &state
	if state.Seen == 0 && state.Error == "" { // No look has ended.
		last = nil
	}
	return s.write((&changes{rows: rows}).frame(last))
}

// followLock tells a viewer of one lock, once a second if something has changed.
func (h *Handler) followLock(ctx context.Context, s *stream, name string) {
	defer h.details.enter(name)()
	tick := time.NewTicker(lookPeriod)
	defer tick.Stop()
	var last []byte
	for {
		status, record, err := h.details.get(ctx, name)
		if ctx.Err() != nil {
			return
		}
		timeline, absent := h.board.timeline(name)
		r := newReport(&status, err, withRecord(timeline, record))
		r.Absent = absent
		now := r.Time
		r.Time = 0
		text := event("lock", r)
		if bytes.Equal(text, last) {
			text = event("beat", beat{now})
		} else {
			last = text
			r.Time = now
			text = event("lock", r)
		}
		if s.write(text) != nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
