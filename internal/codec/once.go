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
	words := append(make([]string, 0, 3+len(args)), j.Lock, j.Record, string(j.Flags))
	return call(s, append(words, args...), 2)
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

func (r *reader) run() Run {
	run := Run{Completed: r.number(1), Fence: r.fence(1), Try: r.count(0), Counts: r.is("counts", "over")}
	info, result, _ := strings.Cut(r.all(), "\n")
	run.Info, run.Result = wire.ParseInfo(info), result
	return run
}

// LookAtJob asks for the latest completed run of a job: once_look.lua.
type LookAtJob struct {
	Job    Job
	Window time.Duration // 0 means forever
}

func (q *LookAtJob) Call() driver.Call {
	return q.Job.call(script.OnceLook(), "", milliseconds(q.Window))
}

// LastRunReply says when a job was last completed: Done with Run, or NeverDone with the number of runs begun.
type LastRunReply struct {
	Head
	Run   Run
	Begun int
}

func (q *LookAtJob) Parse(text string) (LastRunReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return LastRunReply{}, err
	}
	reply := LastRunReply{Head: head}
	switch head.Word {
	case Done:
		reply.Run = r.run()
	case NeverDone:
		reply.Begun = r.count(0)
	default:
		r.bad = true
	}
	return finish(&r, reply)
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

// BeginReply says whether to run a job. Its word says which fields are set:
//
//	Begun       Tries, including this one
//	Done        Run
//	Spent       Tries: as many as are allowed, none completed
//	Used        none: a run under this lease was completed in an earlier window
//	Gone, Absent  none
type BeginReply struct {
	Head
	Tries int
	Run   Run
}

func (q *BeginRun) Parse(text string) (BeginReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return BeginReply{}, err
	}
	reply := BeginReply{Head: head}
	switch head.Word {
	case Begun, Spent:
		reply.Tries = r.count(0)
	case Done:
		reply.Run = r.run()
	case Used, Gone, Absent:
	default:
		r.bad = true
	}
	return finish(&r, reply)
}

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

// CompleteReply says whether a run counts: Completed with the time and the number of the try in its window, or Gone or Absent.
type CompleteReply struct {
	Head
	Completed int64 // server time, µs
	Try       int
}

func (q *CompleteRun) Parse(text string) (CompleteReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return CompleteReply{}, err
	}
	reply := CompleteReply{Head: head}
	switch head.Word {
	case Completed:
		reply.Completed, reply.Try = r.number(1), r.count(0)
	case Gone, Absent:
	default:
		r.bad = true
	}
	return finish(&r, reply)
}
