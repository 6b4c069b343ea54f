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
