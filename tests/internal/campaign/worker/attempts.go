package worker

import (
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// attempts records one attempt to get locks; several locks have one record each.
type attempts []*history.Attempt

// ask begins an attempt.
func (r *routine) ask(w Want) attempts {
	var all attempts
	for _, name := range w.Names() {
		a := r.part.record.Ask(r.number, name)
		switch w.Share {
		case Reading:
			a.Share(1)
		case Permits:
			a.Share(w.Take)
		case Owned:
			a.Share(w.Owner)
		case Joining, Meeting:
			a.Share(1)
		}
		all = append(all, a)
	}
	return all
}

func (all attempts) gaveUp() {
	for _, a := range all {
		a.GaveUp()
	}
}

func (all attempts) granted(w Want, lease Lease) {
	fences, deadline := fencesOf(w, lease), lease.Deadline()
	for i, name := range w.Names() {
		if !w.adopted {
			all[i].Since(deadline.Add(-(w.TTL - w.TTL/100 - 2*time.Millisecond)))
		}
		all[i].Granted(fences[name], deadline)
	}
}

func (all attempts) extended(deadline time.Time) {
	for _, a := range all {
		a.Extended(deadline)
	}
}

func (all attempts) released(deadline time.Time) {
	for _, a := range all {
		a.Released(deadline)
	}
}

// fencesOf returns the fences of a lease, by the names of its locks.
func fencesOf(w Want, lease Lease) map[string]uint64 {
	if h, ok := lease.(held); ok && w.With != nil {
		return h.Fences()
	}
	return map[string]uint64{w.Name: lease.Fence()}
}
