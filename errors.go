package holdfast

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/quorum"
)

// What happened to a lock. Test for these with errors.Is.
var (
	// ErrHeld says that somebody else holds the lock, or is queued for it. errors.As with *HeldError tells who, as far as
	// known; a Latch's ErrHeld, that all remaining parties have registered, is no *HeldError.
	ErrHeld = errors.New("holdfast: lock is held")
	// ErrLost says that the lease is, or may be, no longer the caller's. errors.As with *LostError tells why.
	ErrLost = errors.New("holdfast: lease lost")
	// ErrReleased says that the lease's holder has released or detached it. It is also the cause with which the lease's
	// context then ends.
	ErrReleased = errors.New("holdfast: lease released")
	// ErrClosed says that Client.Close was called. Within a *ServerError, it says that the program has closed the Redis client
	// that it passed to an adapter, before it closed the Client.
	ErrClosed = errors.New("holdfast: client is closed")
	// ErrAmbiguous says that the server may have carried the request out: its reply was lost. After an acquire the lock, if
	// it was granted, is released in the background or expires with its TTL. After a release the lock is most likely free.
	ErrAmbiguous = errors.New("holdfast: outcome unknown")
	// ErrNotHeld is returned by ReleaseOwner and Leader when nobody holds the lock.
	ErrNotHeld = errors.New("holdfast: lock is not held")
	// ErrNotOwner is returned by ReleaseOwner when another owner holds the lock, which was not released. errors.As with
	// *HeldError tells who.
	ErrNotOwner = errors.New("holdfast: lock is another owner's")
	// ErrDeadlock says that the caller's context carries a lease (see Lease.Context and Do) that the acquire would have to
	// wait for. It is returned at once, and leases stay as they are. Lock.Acquire says for which locks.
	ErrDeadlock = errors.New("holdfast: caller holds the lock")
	// ErrDepth says that a Reentrant lock was acquired within itself more often than MaxDepth allows. What is held stays
	// held.
	ErrDepth = errors.New("holdfast: lock is nested too deep")
	// ErrInvalid says that a call was refused before it sent anything. An argument, a name, an option or a Config is not
	// allowed, or the lease or party is in a state that does not allow the call: a BarrierParty that already awaits a phase,
	// for example. Nothing has changed.
	ErrInvalid = errors.New("holdfast: invalid argument")
	// ErrOnceExhausted says that a job of Once was begun in this window as often as MaxTries allows, and not completed.
	ErrOnceExhausted = errors.New("holdfast: job has failed too often in this window")
	// ErrOnceResult says that a job of Once was completed, and counts, but that its result is longer than 64 KiB and was not
	// recorded.
	ErrOnceResult = errors.New("holdfast: result is too long")
	// ErrOnceNone is returned by Once.Last when no completion is known.
	ErrOnceNone = errors.New("holdfast: job has not been completed yet")
	// ErrLatchIncomplete says that a latch is open, but that some of its parties never counted down. errors.As with
	// *LatchIncompleteError tells how many.
	ErrLatchIncomplete = errors.New("holdfast: latch is open, but a party did not count down")
	// ErrLatchReset says that a latch was begun anew while it was waited for.
	ErrLatchReset = errors.New("holdfast: latch was reset")
	// ErrBarrierBroken says that a party of a barrier left or died before all had arrived. errors.As with
	// *BarrierBrokenError tells which.
	ErrBarrierBroken = errors.New("holdfast: barrier is broken")
)

// What the server had to say. No lock was taken. Test for these with errors.Is; they come within a *ServerError or a
// *QuorumError.
var (
	// ErrUnavailable says that the server did not answer, or answered "not now", as with LOADING, READONLY, OOM, BUSY,
	// MISCONF or NOREPLICAS. It is worth trying again later. An acquire was retried for Config.RetryTimeout before it was
	// returned, except after OOM, MISCONF and NOREPLICAS, which only a waiter in the queue outlasts.
	ErrUnavailable = errors.New("holdfast: server is unavailable")
	// ErrReplicas says that too few replicas, or disks, confirmed the lock in time (MinReplicas, Fsync). It comes with
	// ErrUnavailable.
	ErrReplicas = errors.New("holdfast: too few replicas confirmed")
	// ErrQuarantine says that in Strict mode nothing is granted yet, because the server may have lost locks.
	// ServerError.RetryAfter tells for how long. It comes with ErrUnavailable.
	ErrQuarantine = errors.New("holdfast: server is in quarantine")
	// ErrDenied says that the server refuses the credentials, or that its ACL denies what locks need.
	ErrDenied = errors.New("holdfast: server denies access")
	// ErrMismatch says that programs disagree about the lock: its key holds another kind of lock, or no lock; or they say
	// another number of permits or parties; or more permits are wanted at once than there are.
	ErrMismatch = errors.New("holdfast: programs disagree about the lock")
	// ErrNotAdmitted says that a majority of a Quorum's nodes is new, or has restarted and a node among them has lost its
	// data: Quorum.Admit or "holdfast init" admits them. Acquire returns it only after it has waited for the end of the nodes'
	// quarantine.
	ErrNotAdmitted = errors.New("holdfast: node has not been admitted")
	// ErrUnsupported says that the server is older than Redis 7.0 or Valkey 7.2, or lacks something that locks need,
	// or a database or Cluster mode that the client asks for.
	ErrUnsupported = errors.New("holdfast: server is not supported")
)

// HeldError says that the lock is held, and by whom. It matches ErrHeld.
type HeldError struct {
	Name string
	// Holder is who held the lock when the server answered, one of them if there are several. It is zero (Holder.IsZero) if
	// nobody holds the lock and others are queued for it, and after RWMutex.TryUpgrade, whose answer does not name the other
	// readers.
	Holder Holder
}

func (e *HeldError) Error() string {
	h := e.Holder
	switch {
	case h.Foreign:
		return fmt.Sprintf("holdfast: lock %q is held by another program for %s", e.Name, ttlText(h.TTL))
	case h.IsZero():
		return fmt.Sprintf("holdfast: others hold lock %q, or are queued for it", e.Name)
	}
	return fmt.Sprintf("holdfast: lock %q is held by %s for %s", e.Name, h.who(), ttlText(h.TTL))
}

// Is makes a HeldError match ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// maxWord is the length, in bytes, up to which errors show a name that others wrote.
const maxWord = 128

// who describes a holder by its owner, host and process, as far as they are known.
func (h Holder) who() string {
	owner := "somebody"
	if h.Owner != "" {
		owner = printable.Word(h.Owner, maxWord)
	}
	switch {
	case h.PID == 0 && h.Host == "":
		return owner
	case h.Host == "":
		return fmt.Sprintf("%s (pid %d)", owner, h.PID)
	}
	return fmt.Sprintf("%s (pid %d on %s)", owner, h.PID, printable.Word(h.Host, maxWord))
}

func ttlText(d time.Duration) string {
	if d < 0 {
		return "good: its key has no expiry"
	}
	return d.String() + " unless renewed"
}

// LossReason says how a lease was lost. It is made to be a metric's label.
type LossReason string

// The reasons of a loss.
const (
	// LossExpired: the process or machine slept past the deadline, or was too slow to renew the lease in time, as Err says; or
	// the lease was not to be renewed.
	LossExpired LossReason = "expired"
	// LossUnreachable: renewals failed until the deadline.
	LossUnreachable LossReason = "unreachable"
	// LossDeleted: the lock was gone from the server before the deadline: it was deleted, as by Latch.Delete, or lost
	// with the server's data. Somebody may have held it since.
	LossDeleted LossReason = "deleted"
	// LossTaken: the lock was somebody else's before the deadline.
	LossTaken LossReason = "taken"
	// LossBroken: an operator broke it. A holder that did not hear of that is told LossTaken or LossDeleted.
	LossBroken LossReason = "broken"
	// LossBound: MaxHold or MaxRenewals ended it.
	LossBound LossReason = "bound"
	// LossSuperseded: Client.ReleaseOwner or Latch.Reset ended it.
	LossSuperseded LossReason = "superseded"
)

// lossTexts say the reasons to people.
var lossTexts = map[LossReason]string{
	LossExpired:     "expired",
	LossUnreachable: "not renewed",
	LossDeleted:     "the lock was deleted",
	LossTaken:       "somebody else has the lock",
	LossBroken:      "broken",
	LossBound:       "hold limit reached",
	LossSuperseded:  "ended on purpose",
}

// LostError says that a lease is, or may be, no longer its holder's. It matches ErrLost.
type LostError struct {
	Name   string
	Fence  uint64 // of the lease; 0 if it never had one
	Reason LossReason
	// By is who broke or superseded the lease, as far as the server knows. For ReleaseOwner it is the owner, in whose name
	// any process may call it; for a latch it is "". Another program wrote it: escape it before you display it.
	By string
	// Note is why an operator broke the lock (LossBroken), or "". Escape it, too.
	Note string
	Err  error // error of the last renewal, or by how much this process was late; or nil
}

func (e *LostError) Error() string {
	why := lossTexts[e.Reason]
	if why == "" {
		why = string(e.Reason)
	}
	text := fmt.Sprintf("holdfast: lease of %q lost: %s", e.Name, why)
	if e.By != "" {
		text += " by " + printable.Word(e.By, maxWord)
	}
	if e.Note != "" {
		text += fmt.Sprintf(" (%s)", printable.Word(e.Note, maxWord))
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is makes a LostError match ErrLost and every LostError with the same name, fence and reason.
func (e *LostError) Is(target error) bool {
	other, is := target.(*LostError)
	return target == ErrLost || is && e.Name == other.Name && e.Fence == other.Fence && e.Reason == other.Reason
}

// Unwrap returns the error of the last renewal.
func (e *LostError) Unwrap() error { return e.Err }

// ServerError is an operation that the server, or the way to it, made fail.
type ServerError struct {
	// Op is "acquire", "renew", "release", "weigh" (Downgrade, TryUpgrade), "resize", "detach", "adopt", "inspect", "list", "list breaks",
	// "break", "revoke"; of a job "begin", "complete", "look up"; of a latch "count down", "reset", "delete"; of a barrier "await"; "reach"
	// and "use" if the server could not be reached or used; or "init".
	Op     string
	Name   string // the lock's; of what is about many locks, their pattern or ""
	Server string // its address, without credentials
	// Code is the server's word for it, such as "LOADING" or "NOPERM"; "" if it did not answer.
	Code string
	// RetryAfter is how long a quarantine has left; else 0.
	RetryAfter time.Duration
	Err        error // what the driver returned

	text  string
	is    []error // the errors of this package that it matches
	ended error   // that of the caller's context, if it ended before the server answered
}

func (e *ServerError) Error() string {
	if e.text != "" {
		return e.text
	}
	return fmt.Sprintf("holdfast: %s %q on %s: %v", e.Op, e.Name, e.Server, e.Err)
}

// Unwrap returns the errors of this package that it matches, what the driver returned and, if it has ended, the error of
// the caller's context.
func (e *ServerError) Unwrap() []error {
	all := e.is[:len(e.is):len(e.is)]
	if e.Err != nil {
		all = append(all, e.Err)
	}
	if e.ended != nil {
		all = append(all, e.ended)
	}
	return all
}

// LatchIncompleteError says that a latch is open though parties never counted down: they had registered, and left or died.
// It matches ErrLatchIncomplete.
type LatchIncompleteError struct {
	Name    string
	Missing int // how many never counted down
	Parties int
}

func (e *LatchIncompleteError) Error() string {
	return fmt.Sprintf("holdfast: latch %q is open, but %d of %d parties never counted down: they left or died", e.Name, e.Missing, e.Parties)
}

// Is makes a LatchIncompleteError match ErrLatchIncomplete.
func (e *LatchIncompleteError) Is(target error) bool { return target == ErrLatchIncomplete }

// BarrierBrokenError says which party broke a barrier's phase. It matches ErrBarrierBroken.
type BarrierBrokenError struct {
	Name  string
	Phase uint64
	Party Holder // if several phases were broken since, who broke the latest
	Died  bool   // its lease was lost or expired; otherwise it left
}

func (e *BarrierBrokenError) Error() string {
	how := "left"
	if e.Died {
		how = "died"
	}
	return fmt.Sprintf("holdfast: phase %d of barrier %q is broken: party %s has %s", e.Phase, e.Name, e.Party.who(), how)
}

// Is makes a BarrierBrokenError match ErrBarrierBroken.
func (e *BarrierBrokenError) Is(target error) bool { return target == ErrBarrierBroken }

// happened are the engine's errors about locks.
var happened = []struct{ engine, own error }{
	{engine.ErrHeld, ErrHeld},
	{engine.ErrLost, ErrLost},
	{engine.ErrReleased, ErrReleased},
	{engine.ErrClosed, ErrClosed},
	{engine.ErrNotHeld, ErrNotHeld},
	{engine.ErrNotOwner, ErrNotOwner},
	{engine.ErrDeadlock, ErrDeadlock},
	{engine.ErrDepth, ErrDepth},
	{engine.ErrInvalid, ErrInvalid},
	{engine.ErrTries, ErrOnceExhausted},
	{engine.ErrResult, ErrOnceResult},
	{engine.ErrNotDone, ErrOnceNone},
	{engine.ErrIncomplete, ErrLatchIncomplete},
	{engine.ErrReset, ErrLatchReset},
	{engine.ErrBroken, ErrBarrierBroken},
}

// serverErrors are the errors of this package for what a server, or the way to it, has to say.
var serverErrors = []struct {
	engine error
	own    []error
}{
	{exec.ErrUnavailable, []error{ErrUnavailable}},
	{exec.ErrReadOnly, []error{ErrUnavailable}},
	{exec.ErrLoading, []error{ErrUnavailable}},
	{exec.ErrOutOfMemory, []error{ErrUnavailable}},
	{exec.ErrBusy, []error{ErrUnavailable}},
	{exec.ErrWritesRefused, []error{ErrUnavailable}},
	{exec.ErrReplicas, []error{ErrReplicas, ErrUnavailable}},
	{exec.ErrQuarantine, []error{ErrQuarantine, ErrUnavailable}},
	{exec.ErrAuth, []error{ErrDenied}},
	{exec.ErrPermission, []error{ErrDenied}},
	{exec.ErrWrongType, []error{ErrMismatch}},
	{exec.ErrPermits, []error{ErrMismatch}},
	{exec.ErrParties, []error{ErrMismatch}},
	{exec.ErrUninitialised, []error{ErrNotAdmitted}},
	{exec.ErrUnsupported, []error{ErrUnsupported}},
	{exec.ErrClosed, []error{ErrClosed}},
	{exec.ErrClientClosed, []error{ErrClosed}},
}

// leave returns an error as one of this package, if it is the engine's. Every error that leaves the package, and every
// cause with which a context ends, passes through it.
func leave(err error) error {
	left, _ := translate(err)
	return left
}

// translate is leave, and reports whether the error is another one now.
func translate(err error) (_ error, changed bool) {
	switch e := err.(type) {
	case nil:
		return nil, false
	case *engine.HeldError:
		return &HeldError{e.Name, holder(e.Holder)}, true
	case *engine.NotOwnerError:
		return &reworded{e.Error(), []error{ErrNotOwner, &HeldError{e.Name, holder(e.Holder)}}}, true
	case *engine.LostError:
		return &LostError{Name: e.Name, Reason: LossReason(e.Reason), By: e.By, Note: e.Note, Err: leave(e.Err)}, true
	case *engine.IncompleteError:
		return &LatchIncompleteError{e.Name, e.Missing, e.Parties}, true
	case *engine.BrokenError:
		return &BarrierBrokenError{e.Name, e.Phase, holder(e.Party), e.Died}, true
	case *quorum.Error:
		return newQuorumError(e), true
	case *exec.Failure:
		return newServerError(e), true
	case *HeldError, *LostError, *ServerError, *QuorumError, *NodeError:
		return err, false
	}
	for _, h := range happened {
		if err == h.engine {
			return h.own, true
		}
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner, changed := translate(e.Unwrap()); changed {
			return &reworded{err.Error(), []error{inner}}, true
		}
	case interface{ Unwrap() []error }:
		parts := e.Unwrap()
		own := make([]error, len(parts))
		for i, part := range parts {
			var other bool
			own[i], other = translate(part)
			changed = changed || other
		}
		switch {
		case !changed:
		case err.Error() == errors.Join(parts...).Error():
			return errors.Join(own...), true
		default:
			return &reworded{err.Error(), own}, true
		}
	}
	return err, false
}

// reworded is an error of the engine that matches errors of this package.
type reworded struct {
	text string
	is   []error
}

func (e *reworded) Error() string   { return e.text }
func (e *reworded) Unwrap() []error { return e.is }

func newServerError(f *exec.Failure) *ServerError {
	e := &ServerError{
		Op: f.Op, Name: f.Name, Server: f.Server, Code: f.Code(), Err: f.Err,
		text: f.Error(), ended: f.Ended,
	}
	for _, s := range serverErrors {
		if errors.Is(f, s.engine) {
			e.is = append(e.is, s.own...)
		}
	}
	if f.Ambiguous {
		e.is = append(e.is, ErrAmbiguous)
	}
	if f.Kind == exec.ErrPermission {
		e.Code = "NOPERM" // also where the ACL's refusal inside a script begins with ERR
	}
	var quarantine *exec.Quarantine
	if errors.As(f, &quarantine) {
		e.RetryAfter = quarantine.Left
	}
	return e
}

func newQuorumError(q *quorum.Error) *QuorumError {
	e := &QuorumError{Op: q.Op, Name: q.Name, Need: q.Need, Of: q.Of, task: q.Task, ended: q.Ended()}
	for _, n := range q.Nodes {
		e.Nodes = append(e.Nodes, &NodeError{n.Server, leave(n.Err)})
	}
	return e
}

// join returns a and b as one error. It returns one of them alone if the other is nil, and a alone if a matches b.
func join(a, b error) error {
	switch {
	case b == nil || errors.Is(a, b):
		return a
	case a == nil:
		return b
	}
	return errors.Join(a, b)
}
