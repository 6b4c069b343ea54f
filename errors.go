package holdfast

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/voting"
)

// What happened to a lock. Test for these with errors.Is.
var (
	// ErrHeld says that somebody else holds the lock, or is queued for it. errors.As with *HeldError tells who, as far as known.
	ErrHeld = lock.ErrHeld
	// ErrLost says that the lease is, or may be, no longer the caller's. errors.As with *LostError tells why.
	ErrLost = lock.ErrLost
	// ErrReleased says that the lease was released or detached. It is also the cause with which the lease's context then ends.
	ErrReleased = lock.ErrReleased
	// ErrClosed says that Client.Close was called; in a *ServerError, that the program has closed the adapter's Redis client.
	ErrClosed = lock.ErrClosed
	// ErrAmbiguous says that the server may have carried the request out: its reply was lost. A lock that was granted is released
	// in the background or expires with its TTL; one that was to be released is most likely free.
	ErrAmbiguous = errors.New("holdfast: outcome unknown")
	// ErrNotHeld is returned by ReleaseOwner and by an election's Leader when nobody holds the lock.
	ErrNotHeld = lock.ErrNotHeld
	// ErrNotOwner is returned by ReleaseOwner: another owner holds the lock. errors.As with *HeldError tells who.
	ErrNotOwner = lock.ErrNotOwner
	// ErrDeadlock says that an acquire would wait for a lease that its context carries; or, as a *DeadlockError, that it waits for one
	// by way of other callers: see Lock.Acquire. Leases stay as they are.
	ErrDeadlock = lock.ErrDeadlock
	// ErrDepth says that a Reentrant lock was acquired within itself more often than MaxDepth allows. What is held stays held.
	ErrDepth = lock.ErrDepth
	// ErrInvalid says that a call was refused before it sent anything, and changed nothing: an argument, a name, an option or a
	// Config is not allowed, or the lease is in a state that does not allow the call.
	ErrInvalid = lock.ErrInvalid
)

// What the server had to say. No lock was taken. Test for these with errors.Is; they come within a *ServerError or a
// *quorum.Error.
var (
	// ErrUnavailable says that the server did not answer, or answered "not now", as with LOADING, READONLY, OOM, BUSY, MISCONF or
	// NOREPLICAS: try again later. An acquire was retried for Config.RetryTimeout before, except after OOM, MISCONF and NOREPLICAS,
	// which only a waiter in the queue outlasts.
	ErrUnavailable = errors.New("holdfast: server is unavailable")
	// ErrReplicas says that too few replicas, or disks, confirmed the lock in time (Durability). It comes with ErrUnavailable and
	// ErrAmbiguous, and is not retried; a lock that was granted is given back in the background.
	ErrReplicas = errors.New("holdfast: too few replicas confirmed")
	// ErrQuarantine says that in Strict mode nothing is granted yet, because the server may have lost locks. It comes with
	// ErrUnavailable; ServerError.RetryAfter tells for how long.
	ErrQuarantine = errors.New("holdfast: server is in quarantine")
	// ErrDenied says that the server refuses the credentials, or that its ACL denies what locks need.
	ErrDenied = errors.New("holdfast: server denies access")
	// ErrMismatch says that programs disagree: the key holds another kind of lock, or no lock; or they say another number of permits
	// or parties; or more permits are wanted at once than there are.
	ErrMismatch = errors.New("holdfast: programs disagree about the lock")
	// ErrNotAdmitted says that a majority of a quorum's nodes is new, or has restarted and one has lost its data. Acquire returns it
	// once their quarantine is over; inspect.Inspector.Admit or "holdfast init" admits them.
	ErrNotAdmitted = errors.New("holdfast: node has not been admitted")
	// ErrUnsupported says that the server is older than Redis 7.0 or Valkey 7.2, or lacks something that locks, or the client, need.
	ErrUnsupported = errors.New("holdfast: server is not supported")
)

// HeldError says that the lock is held, and by whom. It matches ErrHeld.
type HeldError struct {
	Name string
	// Holder is who held the lock when the server answered, one of them if there are several. It is zero (Holder.IsZero) if others
	// are only queued for it, and after RWMutex.TryUpgrade.
	Holder Holder
}

func (e *HeldError) Error() string {
	h := e.Holder
	inner := lock.Holder{Owner: h.Identity, Host: h.Host, PID: h.PID, TTL: h.TTL, Foreign: h.Foreign}
	return (&lock.HeldError{Name: e.Name, Holder: inner}).Error()
}

func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// DeadlockError says that callers hold locks and wait for each other's. It matches ErrDeadlock.
type DeadlockError struct {
	// Circle has the holders of the locks, the caller first. Each waits for the lock of the next, and the last for the caller's.
	Circle []Holder

	text string
}

func (e *DeadlockError) Error() string { return e.text }

func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

// LossReason says how a lease was lost. It is made to be a metric's label.
type LossReason string

// The reasons of a loss.
const (
	LossExpired     LossReason = "expired"     // process or machine slept past the deadline, or renewed too late; or was not to renew
	LossUnreachable LossReason = "unreachable" // renewals failed until the deadline
	LossDeleted     LossReason = "deleted"     // the lock was gone before the deadline, and somebody may have held it since
	LossTaken       LossReason = "taken"       // the lock was somebody else's before the deadline
	LossBroken      LossReason = "broken"      // an operator broke it; a holder that did not hear that is told taken or deleted
	LossBound       LossReason = "bound"       // MaxHold or MaxRenewals ended it
	LossSuperseded  LossReason = "superseded"  // Client.ReleaseOwner, or a latch's Reset, ended it
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
	By     string // who broke or superseded it, or "". Another program wrote By and Note: escape them before you display them
	Note   string // why an operator broke the lock, or ""
	Err    error  // error of the last renewal, or by how much this process was late; or nil
}

func (e *LostError) Error() string {
	why := lossTexts[e.Reason]
	if why == "" {
		why = string(e.Reason)
	}
	text := fmt.Sprintf("holdfast: lease of %q lost: %s", e.Name, why)
	if e.By != "" {
		text += " by " + printable.Word(e.By, lock.MaxShownWord)
	}
	if e.Note != "" {
		text += fmt.Sprintf(" (%s)", printable.Word(e.Note, lock.MaxShownWord))
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is makes it match also every LostError with the same name, fence and reason.
func (e *LostError) Is(target error) bool {
	other, is := target.(*LostError)
	return target == ErrLost || is && e.Name == other.Name && e.Fence == other.Fence && e.Reason == other.Reason
}

func (e *LostError) Unwrap() error { return e.Err }

// ServerError is an operation that the server, or the way to it, made fail.
type ServerError struct {
	Op         string        // "acquire", "renew", "release", "weigh" (Downgrade, TryUpgrade), "reach", "use", and so on
	Name       string        // the lock's; of what is about many locks, their pattern or ""
	Server     string        // its address, without credentials
	Code       string        // the server's word for it, such as "LOADING" or "NOPERM"; "" if it did not answer
	RetryAfter time.Duration // how long a quarantine has left; else 0
	Err        error         // what the driver returned

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

// Unwrap returns the errors of this package that it matches, Err, and that of the caller's context, if it has ended.
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
	case *lock.HeldError:
		held := &HeldError{e.Name, holder(e.Holder)}
		if e.Sought != "" {
			return &reworded{e.Error(), []error{ErrNotOwner, held}}, true
		}
		return held, true
	case *lock.LostError:
		return &LostError{Name: e.Name, Reason: LossReason(e.Reason), By: e.By, Note: e.Note, Err: leave(e.Err)}, true
	case *lock.DeadlockError:
		left := &DeadlockError{text: e.Error()}
		for _, h := range e.Circle {
			left.Circle = append(left.Circle, holder(h))
		}
		return left, true
	case *voting.Error:
		return access.QuorumError(e), true
	case *exec.Failure:
		return newServerError(e), true
	case *HeldError, *LostError, *ServerError:
		return err, false
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
