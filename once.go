package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// Once is a job that is completed at most once in a window, by all processes together. It runs under the Mutex of its name,
// whatever the window, so runs of one name wait for each other. Its completion is recorded on the server while the lock is still
// held: of two callers that come at the same time, the later one learns of it. A run that fails, or whose process dies or loses
// the lock, does not count: the next one tries.
//
// The job should be such that a run which was ended in the middle, or which was completed but not recorded, does no harm when
// it is repeated: the lease's fence tells the resource which run is the later. The record is lost with the server's data.
type Once struct {
	e    *engine.Once
	wait waitLimit
}

// Window says which runs of a job count as the same.
type Window struct {
	e engine.Window
}

// Every is a window that begins with a completed run and lasts d, by the server's clock. Choose d longer than the clocks of
// the hosts that start the job differ, and shorter than the time from the end of one run to the start of the next: for a
// job that cron starts once a day and that takes an hour, 12 hours is a good choice. From 1 ms to 10 years.
func Every(d time.Duration) Window { return Window{engine.Every(d)} }

// Slot is a window with a name, such as "2026-11-22T02", the hour for which the job is due: hosts whose clocks differ agree
// on it. The name is 1 to 512 bytes of UTF-8 without control characters. The server remembers it for keep after its last
// try, from 1 ms to 10 years: longer than anybody may ask for the same slot. Slots of one name wait for each other: to process
// orders side by side, each once, make the order a part of the job's name.
func Slot(key string, keep time.Duration) Window { return Window{engine.SlotKey(key, keep)} }

// Once returns the job of that name, which is completed at most once in a window. Its options are those of its lock, and
// MaxTries. A window that makes no sense is ErrInvalid when the job is used.
func (c *Client) Once(name string, w Window, opts ...OnceOption) *Once {
	o := resolve(c.queued, opts)
	return &Once{c.e.Once(name, w.e, o.given...), o.wait}
}

// Completion is a run of a job that was completed.
type Completion struct {
	Here    bool      // this call's f ran
	Current bool      // it counts for the present window
	Time    time.Time // by the server's clock
	Result  string    // what f returned, at most 64 KiB
	Owner   string    // who ran it
	Host    string
	PID     int
	Fence   uint64 // of its lease
	Try     int    // number of the try within its window, from 1
}

// Do runs f unless the job was completed in this window, and records that it was if f returns nil. It waits while another
// process runs the job, and runs it if that one fails. It returns the run that counts; Completion.Here says whether f ran:
// "done already" is no error.
//
// f's error is returned joined with the release's, and as it is if only f fails. An error that matches ErrLost says that the
// lock was lost while f ran: the run does not count then, whatever f did. ErrOnceExhausted says that MaxTries are used up;
// other errors are those of Lock.Acquire. When f has returned nil, its completion is recorded even if ctx has ended, and
// that is tried for as long as the lease lasts; if it fails, the run may count or not. ErrOnceResult says that the run counts,
// but without its result, which is longer than 64 KiB. f's context is that of Lock.Do. When f panics, the run does not count.
func (o *Once) Do(ctx context.Context, f func(ctx context.Context, l *Lease) (result string, err error)) (Completion, error) {
	run := newRun(ctx, f)
	defer run.over()
	done, err := o.e.DoBy(ctx, o.wait.end(), run.begin)
	return completion(done), run.leave(err)
}

// TryDo is Do, but returns a *HeldError at once while another process runs the job.
func (o *Once) TryDo(ctx context.Context, f func(ctx context.Context, l *Lease) (result string, err error)) (Completion, error) {
	run := newRun(ctx, f)
	defer run.over()
	done, err := o.e.TryDo(ctx, run.begin)
	return completion(done), run.leave(err)
}

// Last returns the latest completion, for 30 days after its window; ErrOnceNone if there is none. Completion.Current says
// whether it counts now. Each Slot has a record of its own: Last of a Slot returns the completion for that slot, for as long as it
// is remembered, and Last of Every knows of no Slot.
func (o *Once) Last(ctx context.Context) (Completion, error) {
	done, err := o.e.Last(ctx)
	return completion(done), leave(err)
}

// Name returns the job's name.
func (o *Once) Name() string { return o.e.Lock().Name() }

// Status says who runs the job and who waits for that. It changes nothing.
func (o *Once) Status(ctx context.Context) (Status, error) { return statusOf(ctx, o.e.Lock()) }

// String names the job, for people.
func (o *Once) String() string { return named("Once", o.Name()) }

func completion(r engine.Run) Completion {
	return Completion{
		Here: r.Here, Current: r.Counts, Time: r.Completed, Result: r.Result, Owner: r.Owner, Host: r.Host, PID: r.PID,
		Fence: r.Fence, Try: r.Try,
	}
}

// run is a call of a job's function by the engine.
type run struct {
	ctx   context.Context
	f     func(context.Context, *Lease) (string, error)
	lease *Lease // nil until it began
	end   context.CancelCauseFunc
}

func newRun(ctx context.Context, f func(context.Context, *Lease) (string, error)) *run {
	return &run{ctx: ctx, f: f, end: func(error) {}}
}

func (r *run) begin(_ context.Context, e engine.Lease) (string, error) {
	r.lease = &Lease{e}
	var work context.Context
	work, r.end = r.lease.scope(r.ctx)
	return r.f(work, r.lease)
}

// over ends the function's context, once the lock was released.
func (r *run) over() { r.end(ErrReleased) }

func (r *run) leave(err error) error {
	if r.lease == nil {
		return leave(err)
	}
	return r.lease.leave(err)
}
