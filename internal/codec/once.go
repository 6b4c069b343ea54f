package codec

import (
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Job identifies the job that a request is about.
type Job struct {
	Lock   string // the key of its lock
	Record string // the key of its record
	Flags  Flags
}

// call makes a call of a script that takes the job's keys, the flags, and args.
func (j *Job) call(s driver.Script, args ...string) driver.Call {
	return onKeys(s, append(room(len(args)), j.Lock, j.Record), j.Flags, args...)
}

// Run is a completed run of a job.
type Run struct {
	Completed int64 // server time, µs
	Fence     uint64
	Try       int       // the number of the try in its window
	Counts    bool      // in the window that was asked about; false if that window is over
	Info      wire.Info // about the process that ran the job
	Result    string
}

func (r *reader) lastRun() *Run {
	run := &Run{Completed: r.number(1), Fence: r.fence(1), Try: r.count(0), Counts: r.oneOf("counts", "over")}
	info, result, _ := strings.Cut(r.all(), "\n")
	run.Info, run.Result = wire.ParseInfo(info), result
	return run
}

// LookAtJob asks for the latest completed run of a job, and whether it counts in a window, which is endless if it is 0: once_look.lua. If no
// run was completed, the count is that of runs begun.
func LookAtJob(j Job, window time.Duration) Request[Reply] {
	return simple{
		j.call(script.OnceLook(), "", milliseconds(window)),
		forms{{Done, []field{lastRun}}, {NeverDone, []field{count}}},
	}
}

// BeginRun asks whether the holder of a job's lock should run the job: once_begin.lua.
type BeginRun struct {
	Job      Job
	Token    string
	Window   time.Duration // 0 means forever
	Keep     time.Duration // how long the record is kept
	Fence    uint64        // of the lease
	MaxTries int           // 0 means any number
}

func (q *BeginRun) Call() driver.Call {
	return q.Job.call(script.OnceBegin(), q.Token, milliseconds(q.Window), milliseconds(q.Keep), unsigned(q.Fence), strconv.Itoa(q.MaxTries))
}

var begun = forms{
	{Begun, []field{count}}, // how many tries, including this one
	{Done, []field{lastRun}},
	{Spent, []field{count}}, // as many tries as are allowed, none completed
	{Used, nil},             // a run under this lease was completed in an earlier window
	{Gone, nil}, {Absent, nil},
}

func (q *BeginRun) Parse(text string) (Reply, error) { return begun.parse(text) }

// CompleteRun records that a job was completed: once_complete.lua.
type CompleteRun struct {
	Job    Job
	Token  string
	Keep   time.Duration // how long the record is kept
	Fence  uint64        // of the lease
	Info   string
	Result string
}

func (q *CompleteRun) Call() driver.Call {
	return q.Job.call(script.OnceComplete(), q.Token, milliseconds(q.Keep), unsigned(q.Fence), q.Info, q.Result)
}

var jobCompleted = forms{{Completed, []field{completed}}, {Gone, nil}, {Absent, nil}}

func (q *CompleteRun) Parse(text string) (Reply, error) { return jobCompleted.parse(text) }
