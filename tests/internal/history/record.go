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

// Recorder records the attempts of one process. It is for any number of
// goroutines.
type Recorder struct {
	mu     sync.Mutex
	out    io.Writer
	err    error
	events []Event
}

// NewRecorder returns a Recorder that also writes to out, unless that is nil: a
// line of JSON whenever an attempt gets further, in one Write, so that a
// process that is killed leaves what it knew.
func NewRecorder(out io.Writer) *Recorder { return &Recorder{out: out} }

// Attempt is one attempt to get a lock. It is for one goroutine at a time.
type Attempt struct {
	recorder *Recorder
	event    Event
}

// Ask begins an attempt. It is to be called right before Acquire, by the
// goroutine with that number in this process.
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

// Granted is to be called right after Acquire, with the lease's fence and
// deadline, and the attempt's place in the queue where it is known, else 0.
func (a *Attempt) Granted(fence uint64, deadline time.Time, order uint64) {
	a.event.Granted = Now()
	a.event.Fence = fence
	a.event.Order = order
	a.event.Deadline = At(deadline)
	a.record()
}

// Share records how much of the lock the attempt is for, if that is not all of it.
func (a *Attempt) Share(n int) { a.event.Share = n }

// Since records when the server was asked for what was granted: a lease that is passed on
// within its process is as old as what it was passed on of. It is to be called before
// Granted.
func (a *Attempt) Since(asked time.Time) { a.event.Since = At(asked) }

// Extended records the deadline after a renewal. Without it, of a holder that is
// killed only the deadline of its grant is known: Check then takes it to have
// ended earlier than it may have, and never reports an overlap that was none.
func (a *Attempt) Extended(deadline time.Time) {
	a.event.Deadline = At(deadline)
	a.record()
}

// Released is to be called right before Release, with the deadline that the
// lease has then, or when the holder has learnt that the lock is lost.
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

// Read reads what Recorders wrote, of one process or of several one after the
// other. It ignores a last line without an end, which a killed process leaves.
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

// ReadFiles reads and merges the files of several processes.
func ReadFiles(paths ...string) ([]Event, error) {
	var all []Event
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		events, err := Read(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, events...)
	}
	return all, nil
}
