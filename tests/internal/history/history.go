// Package history records who held which lock when, in one process or in many on one machine, and judges
// whether that was mutual exclusion.
package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"
)

// Event is one attempt to get a lock, and its outcome. Times are in nanoseconds of the clock that Now reads;
// zero means that it did not happen.
type Event struct {
	ID        uint64 `json:"id"` // of the attempt within its process
	Process   int    `json:"process"`
	Goroutine int    `json:"goroutine"`
	Name      string `json:"name"`            // of the lock
	Share     int    `json:"share,omitempty"` // how much of a lock that several may hold; 0: all of it
	Fence     uint64 `json:"fence,omitempty"`
	Asked     int64  `json:"asked"`              // before the call of Acquire
	GaveUp    int64  `json:"gave_up,omitempty"`  // after a call that returned no lease
	Granted   int64  `json:"granted,omitempty"`  // after the call that returned the lease
	Released  int64  `json:"released,omitempty"` // before the call of Release
	Deadline  int64  `json:"deadline,omitempty"` // until when the holder believes that it holds the lock
	Since     int64  `json:"since,omitempty"`    // when the request was sent from which Deadline counted at the grant; 0 if unknown
}

// end returns when the holder stopped believing that it held the lock.
func (e Event) end() int64 {
	if e.Released != 0 {
		return min(e.Released, e.Deadline)
	}
	return e.Deadline
}

// held reports whether the holder ever had reason to believe that it held the lock: not if it was told after
// the deadline.
func (e Event) held() bool { return e.Granted != 0 && e.Granted < e.end() }

// base is one moment on two clocks: that of package time, which shows differences only, and the one that all
// processes share.
var base, baseNanos = anchor()

// Now reads a clock that all processes of this machine share and that nobody sets: CLOCK_MONOTONIC on Linux.
// Elsewhere it starts from the time of day at the process's start, and is only as good as that.
func Now() int64 { return At(time.Now()) }

// At converts t, such as a lease's deadline, to the clock that Now reads. It is exact if t has a monotonic
// reading.
func At(t time.Time) int64 { return baseNanos + int64(t.Sub(base)) }

// anchor reads both clocks at one moment. Of several attempts it returns the quickest.
func anchor() (time.Time, int64) {
	var base time.Time
	var nanos int64
	shortest := time.Duration(1<<63 - 1)
	for range 32 {
		before := time.Now()
		n := nanotime()
		if took := time.Since(before); took < shortest {
			base, nanos, shortest = before.Add(took/2), n, took
		}
	}
	return base, nanos
}

// Recorder records the attempts of one process. Any number of goroutines may use it.
type Recorder struct {
	mu     sync.Mutex
	out    io.Writer
	err    error
	events []Event
}

// NewRecorder returns a Recorder that also writes to out, unless out is nil: a line of JSON whenever an attempt
// gets further. Each line is one Write, so that a process that is killed leaves what it knew.
func NewRecorder(out io.Writer) *Recorder { return &Recorder{out: out} }

// Attempt is one attempt to get a lock. One goroutine at a time may use it.
type Attempt struct {
	recorder *Recorder
	event    Event
}

// Ask begins an attempt. The goroutine with that number in this process calls it right before Acquire.
func (r *Recorder) Ask(goroutine int, name string) *Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := Event{
		ID:        uint64(len(r.events)),
		Process:   os.Getpid(),
		Goroutine: goroutine,
		Name:      name,
		Asked:     Now(),
	}
	r.events = append(r.events, e)
	return &Attempt{recorder: r, event: e}
}

// GaveUp ends the attempt without a lock.
func (a *Attempt) GaveUp() {
	a.event.GaveUp = Now()
	a.record()
}

// Granted is called right after Acquire, with the lease's fence and deadline.
func (a *Attempt) Granted(fence uint64, deadline time.Time) {
	a.event.Granted = Now()
	a.event.Fence = fence
	a.event.Deadline = At(deadline)
	a.record()
}

// Share records how much of the lock the attempt is for, if not all of it.
func (a *Attempt) Share(n int) { a.event.Share = n }

// Since records when the process requested the grant from the server. A lease that is passed on within its
// process is as old as the hold that it belongs to. Since is called before Granted.
func (a *Attempt) Since(asked time.Time) { a.event.Since = At(asked) }

// Extended records the deadline after a renewal. If it is not called before a holder is killed, only the
// deadline at the grant is known. Check may then miss an overlap, but reports no false one.
func (a *Attempt) Extended(deadline time.Time) {
	a.event.Deadline = At(deadline)
	a.record()
}

// Released is called right before Release, with the lease's deadline at that time, or when the holder has
// learned that the lock is lost.
func (a *Attempt) Released(deadline time.Time) {
	a.event.Released = Now()
	a.event.Deadline = At(deadline)
	a.record()
}

func (a *Attempt) record() {
	r := a.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events[a.event.ID] = a.event
	if r.out == nil {
		return
	}
	line, err := json.Marshal(a.event)
	if err == nil {
		_, err = r.out.Write(append(line, '\n'))
	}
	r.err = cmp.Or(r.err, err)
}

// Events returns what has been recorded, and the first error in writing it.
func (r *Recorder) Events() ([]Event, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events), r.err
}

// Read reads what Recorders wrote, of one process or of several in succession. It ignores an unfinished last
// line, which a killed process leaves.
func Read(in io.Reader) ([]Event, error) {
	type attempt struct {
		process int
		id      uint64
	}
	latest := make(map[attempt]Event)
	lines := bufio.NewReader(in)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		var e Event
		if err := decoder.Decode(&e); err != nil {
			return nil, fmt.Errorf("history: line %d: %w", n, err)
		}
		latest[attempt{e.Process, e.ID}] = e
	}
	return slices.SortedFunc(maps.Values(latest), func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.ID, b.ID))
	}), nil
}
