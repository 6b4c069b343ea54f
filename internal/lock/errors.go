package lock

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// What happened to a lock. Package holdfast documents these errors.
var (
	ErrHeld     = errors.New("holdfast: lock is held")
	ErrLost     = errors.New("holdfast: lease lost")
	ErrReleased = errors.New("holdfast: lease released")
	ErrNotHeld  = errors.New("holdfast: lock is not held")
	ErrNotOwner = errors.New("holdfast: lock is another owner's")
	ErrClosed   = exec.ErrClosed
	ErrDeadlock = errors.New("holdfast: caller holds the lock")
	ErrDepth    = errors.New("holdfast: lock is nested too deep")
	ErrInvalid  = errors.New("holdfast: invalid argument")
)

// HeldError is the error of an acquire that found the lock taken. It matches ErrHeld. If Sought is set, it is ReleaseOwner's error for a
// lock that another owner holds, and matches ErrNotOwner instead.
type HeldError struct {
	Name string
	// Holder held the lock when the server answered. It is zero if the lock was free, but others were queued for it.
	Holder Holder
	Sought string // the owner whose leases ReleaseOwner was to release; "" after an acquire
}

func (e *HeldError) Error() string {
	h := e.Holder
	if e.Sought != "" {
		return fmt.Sprintf("holdfast: lock %q is not held by %s, but by %s for %s", e.Name, printable.Word(e.Sought, MaxShownWord), h.Who(), ttlText(h.TTL))
	}
	if h.Foreign {
		return fmt.Sprintf("holdfast: lock %q is held by another program for %s", e.Name, ttlText(h.TTL))
	}
	if h.Owner == "" && h.PID == 0 && h.Host == "" {
		return fmt.Sprintf("holdfast: others hold lock %q, or are queued for it", e.Name)
	}
	return fmt.Sprintf("holdfast: lock %q is held by %s for %s", e.Name, h.Who(), ttlText(h.TTL))
}

// Who describes a holder by its owner, host and process, as far as they are known.
func (h Holder) Who() string {
	owner := "somebody"
	if h.Owner != "" {
		owner = printable.Word(h.Owner, MaxShownWord)
	}
	switch {
	case h.PID == 0 && h.Host == "":
		return owner
	case h.Host == "":
		return fmt.Sprintf("%s (pid %d)", owner, h.PID)
	}
	return fmt.Sprintf("%s (pid %d on %s)", owner, h.PID, printable.Word(h.Host, MaxShownWord))
}

func ttlText(d time.Duration) string {
	if d < 0 {
		return "good: its key has no expiry"
	}
	return d.String() + " unless renewed"
}

// Is makes a HeldError match ErrHeld or ErrNotOwner.
func (e *HeldError) Is(target error) bool {
	return e.Sought == "" && target == ErrHeld || e.Sought != "" && target == ErrNotOwner
}

// LossReason says how a lease was lost.
type LossReason string

// The reasons of a LostError.
const (
	LossExpired     LossReason = "expired"     // the deadline passed
	LossTaken       LossReason = "taken"       // the server said, before the deadline, that someone else has the lock
	LossDeleted     LossReason = "deleted"     // the server said, before the deadline, that nobody has the lock
	LossBroken      LossReason = "broken"      // an operator broke the lock
	LossSuperseded  LossReason = "superseded"  // ReleaseOwner or Latch.Reset ended the lease
	LossUnreachable LossReason = "unreachable" // renewals failed until the deadline
	LossBound       LossReason = "bound"       // MaxHold or MaxRenewals ended the renewals
)

// LostError is the error of a lease that no longer is, or may no longer be, its holder's. It matches ErrLost.
type LostError struct {
	Name   string
	Reason LossReason
	By     string // who ended the lease, if known
	Note   string // LossBroken: the operator's reason, if known
	Err    error  // the error of the last renewal, or nil
}

func (e *LostError) Error() string {
	if e.By != "" {
		return fmt.Sprintf("holdfast: lease of %q lost: %s by %s", e.Name, e.Reason, printable.Word(e.By, MaxShownWord))
	}
	if e.Err != nil {
		return fmt.Sprintf("holdfast: lease of %q lost: %s: %v", e.Name, e.Reason, e.Err)
	}
	return fmt.Sprintf("holdfast: lease of %q lost: %s", e.Name, e.Reason)
}

// Missing returns the error of a lease that the server no longer knows. word is the first of the server's reply.
func (l *Lock) Missing(word codec.Word) *LostError {
	lost := &LostError{Name: l.Name(), Reason: LossTaken}
	switch word {
	// mutants: deleted-or-taken
	case codec.Absent, codec.Late: // Late answers a Reassert, which follows Absent
		lost.Reason = LossDeleted
	case codec.Superseded:
		lost.Reason = LossSuperseded
		if l.Set.Kind.ByOwner {
			lost.By = l.Set.Owner // ReleaseOwner was called in this owner's name
		}
	}
	return lost
}

// Is makes a LostError match ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns the error of the last renewal, or nil.
func (e *LostError) Unwrap() error { return e.Err }

// MaxShownWord bounds how many bytes of a name that another program wrote are shown.
const MaxShownWord = 128

// DeadlockError says that leases wait for each other. It matches ErrDeadlock.
type DeadlockError struct {
	// Circle has the holders, each of whom waits for the lock of the next, and the last for that of the first, the caller's own lease.
	Circle []Holder
}

func (e *DeadlockError) Error() string {
	var text strings.Builder
	for _, h := range e.Circle {
		fmt.Fprintf(&text, "%s held by %s waits for ", printable.Word(h.Name, MaxShownWord), h.Who())
	}
	name := printable.Word(e.Circle[0].Name, MaxShownWord)
	return fmt.Sprintf("holdfast: deadlock: %s%s; release %s and begin again", text.String(), name, name)
}

// Is makes a DeadlockError match ErrDeadlock.
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }
