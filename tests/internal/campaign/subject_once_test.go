package campaign

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
)

// call adds what calls of Do reported.
func (r *Record) call(calls ...worker.Call) *Record {
	for _, c := range calls {
		c.ID, c.Name = uint64(len(r.records.calls)), "a"
		r.records.calls = append(r.records.calls, c)
	}
	return r
}

// ran is a call that ran the job, from held to finished, and was told at returned that its run counts.
func ran(slot string, fence uint64, held, finished, returned int64) worker.Call {
	c := worker.Call{Slot: slot, Window: 100 * time.Microsecond, Fence: fence, Held: held, Finished: finished, Result: fmt.Sprint(fence)}
	return told(c, fence, returned)
}

// told makes a call be told that a run counts, whose time is its fence.
func told(c worker.Call, fence uint64, returned int64) worker.Call {
	c.Returned = returned
	c.Done = &worker.Done{Fence: fence, Result: fmt.Sprint(fence), At: int64(fence), Here: c.Fence == fence}
	return c
}

// failed is a call whose run failed, or ended with its process.
func failed(slot string, fence uint64, held int64) worker.Call {
	return worker.Call{Slot: slot, Window: 100 * time.Microsecond, Fence: fence, Held: held, Result: fmt.Sprint(fence), Error: "it failed"}
}

// unsure is a call that ran the job, but does not know whether its run counts.
func unsure(slot string, fence uint64, held, finished int64) worker.Call {
	return worker.Call{Slot: slot, Fence: fence, Held: held, Finished: finished, Result: fmt.Sprint(fence)}
}

func TestJudgeOfJobs(t *testing.T) {
	waited := worker.Call{Slot: "s"}
	for name, c := range map[string]struct {
		record *Record
		want   int // findings
	}{
		"one runs it, another is told":          {tell().call(ran("s", 10, 1, 2, 3), told(waited, 10, 4)), 0},
		"it fails, and another completes it":    {tell().call(failed("s", 10, 1), ran("s", 11, 5, 6, 7)), 0},
		"in two windows":                        {tell().call(ran("s", 10, 1, 2, 3), ran("t", 11, 4, 5, 6)), 0},
		"nobody heard that it was completed":    {tell().call(unsure("s", 10, 1, 2), told(waited, 10, 4)), 0},
		"it may have been completed, and was":   {tell().call(unsure("s", 10, 1, 2), ran("s", 11, 5, 6, 7)), 0},
		"it begins before the other is told":    {tell().call(ran("s", 10, 1, 2, 30), failed("s", 11, 20)), 0},
		"a window lies between":                 {tell().call(ran("", 10, 1, 2, 3), ran("", 110, 5, 6, 7)), 0},
		"a loss of data":                        {tell("flushall").call(ran("s", 10, 1, 2, 3), ran("s", 11, 5, 6, 7)), 0},
		"it began when its lease was over":      {tell().call(ran("s", 10, 1, 2, 3), failed("s", 9, 0)), 0},
		"two complete it":                       {tell().call(ran("s", 10, 1, 2, 3), ran("s", 11, 2, 6, 7)), 1},
		"two complete it, as a third was told":  {tell().call(ran("s", 10, 1, 2, 3), unsure("s", 11, 2, 3), told(waited, 11, 8)), 1},
		"one that failed counts":                {tell().call(failed("s", 10, 1), told(waited, 10, 4)), 1},
		"one that nobody ran counts":            {tell().call(told(waited, 10, 4)), 1},
		"one of another window counts":          {tell().call(ran("t", 10, 1, 2, 3), told(waited, 10, 4)), 1},
		"it is run again":                       {tell().call(ran("s", 10, 1, 2, 3), failed("s", 11, 5)), 1},
		"it is run again, and that counts, too": {tell().call(ran("s", 10, 1, 2, 3), ran("s", 11, 5, 6, 7)), 2},
		"no window lies between":                {tell().call(ran("", 10, 1, 2, 3), ran("", 109, 5, 6, 7)), 1},
		"another's result": {tell().call(ran("s", 10, 1, 2, 3), worker.Call{Slot: "s", Returned: 9,
			Done: &worker.Done{Fence: 10, Result: "another"}}), 1},
		"two say so at different times": {tell().call(told(waited, 10, 9), ran("s", 10, 1, 2, 3), ran("s", 11, 5, 6, 4)), 2},
	} {
		judges(t, name, c.record, Once{}, slices.Repeat([]Rule{Counting}, c.want)...)
	}
}
