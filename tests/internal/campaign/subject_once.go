package campaign

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
)

// Once is a job that is completed at most once in a window. Its runs are judged as holds of its lock. The
// results of Do show which runs count.
type Once struct{ Mutex }

func (Once) Name() string { return "once" }

func (Once) Draw(random *rand.Rand, p *Plan, n Name) []worker.Want {
	return drawWants(random, p, n, 2, func(w *worker.Want) {
		ofJob(w, p, n)
		w.Fixed = w.Fixed || random.IntN(3) == 0
	})
}

// ofJob turns a want into one of a job, whose windows are the same for all.
func ofJob(w *worker.Want, p *Plan, n Name) {
	fixed := rand.New(rand.NewPCG(p.Seed, uint64(n.Name[0])))
	w.Share = worker.Job
	w.Slots = fixed.IntN(3) > 0
	w.Window = 20*time.Millisecond + time.Duration(fixed.Int64N(int64(200*time.Millisecond)))
}

// Finally returns each job once more, in all its windows: a failed run does not close a window.
func (Once) Finally(p *Plan) []worker.Want {
	return ofEach(p, func(w *worker.Want, n Name) { ofJob(w, p, n) })
}

// Judge requires that at most one run counts in a window, and that it was completed: that it neither failed nor
// ended with its process.
func (Once) Judge(v *Verdict, r *Record) {
	// Only the server knows what was completed.
	if r.Plan.has(func(k *Kind) bool { return k.Breaks != None }) {
		return
	}
	type window struct{ name, slot string }
	jobs := map[window][]worker.Call{}
	for _, c := range r.latestCalls() {
		w := window{c.Name, c.Slot}
		jobs[w] = append(jobs[w], c)
	}
	for w, calls := range jobs {
		judgeCounted(v, calls)
		if w.slot == "" {
			judgeIntervals(v, calls)
		} else {
			judgeSlot(v, calls)
		}
	}
}

// judgeCounted requires that a run which counts was completed, with that result.
func judgeCounted(v *Verdict, calls []worker.Call) {
	for _, c := range calls {
		if c.Done == nil {
			continue
		}
		i := slices.IndexFunc(calls, func(run worker.Call) bool { return run.Fence == c.Done.Fence })
		switch {
		case i < 0:
			v.find(Counting, "job %q, slot %q: process %d was told that the run with fence %d counts, which nobody ran", c.Name, c.Slot, c.Process, c.Done.Fence)
		case calls[i].Finished == 0:
			v.find(Counting, "job %q, slot %q: process %d was told that the run with fence %d counts, which was not completed: %s", c.Name, c.Slot, c.Process, c.Done.Fence, calls[i].Error)
		case calls[i].Result != c.Done.Result:
			v.find(Counting, "job %q, slot %q: process %d was told of the result %q of the run with fence %d, which was %q", c.Name, c.Slot, c.Process, c.Done.Result, c.Done.Fence, calls[i].Result)
		}
	}
}

// judgeSlot requires that one run counts, and that none begins once that is known.
func judgeSlot(v *Verdict, calls []worker.Call) {
	var first worker.Call // the first that returned and was told which run counts
	for _, c := range calls {
		if c.Done != nil && (first.Done == nil || c.Returned < first.Returned) {
			first = c
		}
	}
	if first.Done == nil {
		return
	}
	for _, c := range calls {
		if c.Done != nil && c.Done.Fence != first.Done.Fence {
			v.find(Counting, "job %q, slot %q: the runs with fences %d and %d both count, as processes %d and %d were told", c.Name, c.Slot, first.Done.Fence, c.Done.Fence, first.Process, c.Process)
		}
		if c.Held > first.Returned {
			v.find(Counting, "job %q, slot %q: process %d ran it with fence %d %s after process %d was told that it was done, with fence %d", c.Name, c.Slot, c.Process, c.Fence, time.Duration(c.Held-first.Returned), first.Process, first.Done.Fence)
		}
	}
}

// judgeIntervals requires that at least a window lies between runs that count.
func judgeIntervals(v *Verdict, calls []worker.Call) {
	counted := map[uint64]worker.Call{}
	for _, c := range calls {
		if c.Done != nil {
			counted[c.Done.Fence] = c
		}
	}
	var last *worker.Call
	for _, fence := range slices.SortedFunc(maps.Keys(counted), func(a, b uint64) int { return cmp.Compare(counted[a].Done.At, counted[b].Done.At) }) {
		c := counted[fence]
		if last != nil && time.Duration(c.Done.At-last.Done.At)*time.Microsecond < c.Window {
			v.find(Counting, "job %q: the runs with fences %d and %d both count, %d µs apart, in a window of %s", c.Name, last.Done.Fence, fence, c.Done.At-last.Done.At, c.Window)
		}
		last = &c
	}
}
