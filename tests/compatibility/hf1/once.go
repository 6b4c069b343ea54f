package hf1

import (
	"strings"
	"time"
)

// Job is a job that runs once in a window.
type Job struct {
	Lock   *Lock
	window time.Duration // 0 for ever
	record string
}

// keep is for how long the record is kept, in ms.
const keep = 24 * 60 * 60 * 1000

// Job returns the job of a name.
func (c *Client) Job(name string, window time.Duration, slot string) Job {
	l := c.Mutex(name)
	record := l.Key() + ":once"
	if slot != "" {
		record += ":" + strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D", ":", "%3A").Replace(slot)
	}
	return Job{l, window, record}
}

func (j Job) keys() []string { return []string{j.Lock.Key(), j.record} }

// Look asks for the latest completed run.
func (j Job) Look() Reply {
	j.Lock.c.tb.Helper()
	return j.Lock.send("once_look", j.keys(), "", "x", j.window.Milliseconds())
}

// Begin begins a run under the job's lock.
func (j Job) Begin(a *Attempt, tries int) Reply {
	j.Lock.c.tb.Helper()
	return j.Lock.send("once_begin", j.keys(), "", a.Token, j.window.Milliseconds(), keep, a.Fence, tries)
}

// Complete records the run as completed.
func (j Job) Complete(a *Attempt, result string) Reply {
	j.Lock.c.tb.Helper()
	return j.Lock.send("once_complete", j.keys(), "", a.Token, keep, a.Fence, j.Lock.c.Info.String(), result)
}
