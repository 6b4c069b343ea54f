package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// What happened to a lock. Test for these with errors.Is.
var (
	// ErrHeld says that somebody else holds the lock, or is queued for it. It
	// is returned by TryAcquire, and by Acquire with Poll when its tries are
	// used up; nothing is left behind. errors.As with *HeldError tells who.
	ErrHeld = errors.New("holdfast: lock is held")
	// ErrLost says that the lease is no longer, or may no longer be, the
	// caller's: it expired, was taken or deleted, or the server could not be
	// reached in time to renew it. errors.As with *LostError tells why.
	ErrLost = errors.New("holdfast: lease lost")
	// ErrReleased is the cause with which a lease's context ends when its
	// holder released it, and what using a released lease returns.
	ErrReleased = errors.New("holdfast: lease released")
	// ErrNotHeld is returned by Holder, and by ReleaseOwner, when nobody holds the lock.
	ErrNotHeld = errors.New("holdfast: lock is not held")
	// ErrNotOwner says that another owner holds the lock, which therefore was not released.
	// errors.As with *NotOwnerError tells who.
	ErrNotOwner = errors.New("holdfast: lock is another owner's")
	// ErrClosed says that the Client was closed.
	ErrClosed = errors.New("holdfast: client is closed")
	// ErrDepth says that a Reentrant lock was acquired within itself more often than
	// MaxDepth allows. What is held stays held.
	ErrDepth = errors.New("holdfast: lock acquired too often within itself")
	// ErrDone says that a job of Once was completed in this window already. errors.As with
	// *DoneError tells when, and by whom.
	ErrDone = errors.New("holdfast: job is done already")
	// ErrTries says that a job of Once has been tried in this window as often as MaxTries
	// allows, and was not completed.
	ErrTries = errors.New("holdfast: job has failed too often")
	// ErrIncomplete says that a latch is open, but that some of its parties never counted
	// down. errors.As with *IncompleteError tells how many.
	ErrIncomplete = errors.New("holdfast: latch is open, but not all parties have counted down")
	// ErrReset says that a latch was begun anew while its caller waited for it.
	ErrReset = errors.New("holdfast: latch was begun anew")
	// ErrBroken says that not all parties of a barrier have arrived, because one of them
	// left or died. errors.As with *BrokenError tells which, and at what phase.
	ErrBroken = errors.New("holdfast: barrier is broken")
	// ErrNotDone is returned by Once.Last when no completed run is known.
	ErrNotDone = errors.New("holdfast: job was not done yet")
	// ErrInvalid says that an argument was refused before any I/O.
	ErrInvalid = errors.New("holdfast: invalid argument")
)

// What the server, or the way to it, had to say. An operation that fails with
// one of these took no lock. Test for these with errors.Is; they come wrapped
// in a *ServerError, which names the lock and the server.
var (
	// ErrUnavailable says that the server could not be reached, or did not
	// answer in time.
	ErrUnavailable = errors.New("server is unavailable")
	// ErrAuth says that the server wants credentials, or refused those given.
	ErrAuth = errors.New("server refused the credentials")
	// ErrPermission says that the server's ACL denies a command, key or
	// channel that locks need.
	ErrPermission = errors.New("server's ACL denies access")
	// ErrWrongType says that a key which the lock needs holds another kind of
	// value, or another kind of lock.
	ErrWrongType = errors.New("key holds another kind of value")
	// ErrPermits says that a semaphore has another number of permits than the caller
	// says, or fewer than it wants at once: see Semaphore.
	ErrPermits = errors.New("semaphore has another number of permits")
	// ErrParties says that a latch or a barrier has another number of parties than the
	// caller says.
	ErrParties = errors.New("another number of parties")
	// ErrReadOnly says that the server is a replica and refuses writes.
	ErrReadOnly = errors.New("server is read-only")
	// ErrLoading says that the server is still loading its data.
	ErrLoading = errors.New("server is loading its data")
	// ErrOutOfMemory says that the server's memory limit is reached.
	ErrOutOfMemory = errors.New("server is out of memory")
	// ErrBusy says that the server is busy with another script.
	ErrBusy = errors.New("server is busy with a script")
	// ErrWritesRefused says that the server refuses writes for want of good
	// replicas (NOREPLICAS) or because it cannot persist (MISCONF).
	ErrWritesRefused = errors.New("server refuses writes")
	// ErrQuarantine says that in Strict mode nothing is granted yet, because the
	// server may have lost locks. errors.As with *QuarantineError tells for how long.
	ErrQuarantine = errors.New("server is in quarantine")
	// ErrUninitialised says that a majority of a Quorum's nodes is new, or has restarted and a node
	// among them has lost its data: Quorum.Init admits them. It comes after the quarantine of these nodes, for whose
	// end Acquire waits.
	ErrUninitialised = errors.New("node has not been admitted to the quorum")
	// ErrReplicas says that too few replicas, or disks, have confirmed the lock in time
	// (MinReplicas, Fsync).
	ErrReplicas = errors.New("too few replicas or disks confirmed")
	// ErrUnsupported says that the server is older than Redis 7.0 or
	// Valkey 7.2, or lacks something that locks need.
	ErrUnsupported = errors.New("server is not supported")
)

// HeldError is the error of an acquire that found the lock taken. It matches
// ErrHeld.
type HeldError struct {
	Name string
	// Holder is who had the lock when the server answered.
	Holder Holder
}

func (e *HeldError) Error() string {
	h := e.Holder
	if h.Foreign {
		return fmt.Sprintf("holdfast: lock %q is held by another program for %s", e.Name, ttlText(h.TTL))
	}
	if h.Owner == "" && h.PID == 0 && h.Host == "" {
		return fmt.Sprintf("holdfast: lock %q is held by others, too", e.Name)
	}
	return fmt.Sprintf("holdfast: lock %q is held by %s for %s", e.Name, h.who(), ttlText(h.TTL))
}

// who says who a holder is that has told anything of it.
func (h Holder) who() string {
	owner := "somebody"
	if h.Owner != "" {
		owner = printable.Word(h.Owner, maxShownWord)
	}
	switch {
	case h.PID == 0 && h.Host == "":
		return owner
	case h.Host == "":
		return fmt.Sprintf("%s (pid %d)", owner, h.PID)
	}
	return fmt.Sprintf("%s (pid %d on %s)", owner, h.PID, printable.Word(h.Host, maxShownWord))
}

func ttlText(d time.Duration) string {
	if d < 0 {
		return "good: its key has no expiry"
	}
	return d.String() + " unless renewed"
}

// Is makes a HeldError match ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// NotOwnerError is the error of ReleaseOwner for a lock that is another owner's. It matches
// ErrNotOwner.
type NotOwnerError struct {
	Name  string
	Owner string // that does not hold it
	// Holder is who had the lock when the server answered.
	Holder Holder
}

func (e *NotOwnerError) Error() string {
	return fmt.Sprintf("holdfast: lock %q is not held by %s, but by %s for %s", e.Name,
		printable.Word(e.Owner, maxShownWord), e.Holder.who(), ttlText(e.Holder.TTL))
}

// Is makes a NotOwnerError match ErrNotOwner.
func (e *NotOwnerError) Is(target error) bool { return target == ErrNotOwner }

// LossReason says how a lease was lost.
type LossReason string

// The reasons of a LostError.
const (
	// LossExpired: the deadline passed. The lease was not renewed, or its
	// process or machine slept through the renewal.
	LossExpired LossReason = "expired"
	// LossTaken: the server says that the lock is somebody else's, or gone.
	LossTaken LossReason = "taken or deleted"
	// LossUnreachable: renewals failed until the deadline passed.
	LossUnreachable LossReason = "not renewed"
	// LossBound: MaxHold or MaxRenewals ended the renewals.
	LossBound LossReason = "hold limit reached"
)

// LostError is the error of a lease that is no longer, or may no longer be, its
// holder's. It matches ErrLost.
type LostError struct {
	Name   string
	Reason LossReason
	Err    error // what renewals met last, or nil
}

func (e *LostError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("holdfast: lease of %q lost: %s: %v", e.Name, e.Reason, e.Err)
	}
	return fmt.Sprintf("holdfast: lease of %q lost: %s", e.Name, e.Reason)
}

// Is makes a LostError match ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns what renewals met last.
func (e *LostError) Unwrap() error { return e.Err }

// ServerError is an operation that the server, or the way to it, made fail. It
// unwraps to one of the sentinels above (ErrUnavailable, ErrAuth, ...), and to
// what the adapter returned. It matches an error of a context only if the caller's
// context has ended, and the server has not answered since it was asked: then it
// matches that error as well, so that an outage does not look like a busy lock.
type ServerError struct {
	Op     string // "acquire", "renew", "release", ...
	Name   string // the lock's
	Server string // address, without credentials
	Kind   error  // the sentinel, or nil if the error is of no known kind
	Err    error  // what the adapter returned, without arguments that the server repeated

	ambiguous bool
	ended     error // that of the caller's context, if it ended before there was an answer
}

func (e *ServerError) Error() string {
	what := shown(e.Err.Error())
	if e.Kind != nil {
		what = e.Kind.Error() + ": " + what
	}
	if e.ended != nil {
		what = e.ended.Error() + "; " + what
	}
	return fmt.Sprintf("holdfast: %s %q on %s: %s%s", e.Op, e.Name, e.Server, what, e.advice())
}

// advice is the next step, where there is an obvious one.
func (e *ServerError) advice() string {
	var dns *net.DNSError
	var plain tls.RecordHeaderError
	var other misused
	var short unconfirmed
	switch {
	case e.Kind == ErrUnavailable && untrusted(e.Err):
		return " (it runs: check its certificate, and the name and the authorities that this client expects)"
	case e.Kind == ErrUnavailable && errors.As(e.Err, &dns) && dns.IsNotFound:
		return " (check the host's name)"
	case e.Kind == ErrUnavailable && errors.As(e.Err, &plain):
		return " (it runs, but does not speak TLS on this port)"
	case e.Kind == ErrUnavailable && e.Op == opReach && errors.Is(e.Err, io.EOF):
		return " (is it a Redis or Valkey server, and does it want TLS on this port?)"
	case e.Kind == ErrUnavailable && (errors.Is(e.Err, errLate) || errors.Is(e.Err, errClockJumps)):
		return ""
	case e.Kind == ErrUnsupported && strings.HasPrefix(e.Err.Error(), "NOSTRICT"):
		return "" // it says what is missing
	case e.Kind == ErrWrongType && errors.As(e.Err, &other) && usedAs[other.what] != "":
		return " (all programs use a name as one kind: use it as that, or choose another name)"
	case e.Kind == ErrReplicas && errors.As(e.Err, &short) && short.disk:
		return " (check appendonly and appendfsync of the master and its replicas: INFO persistence)"
	case e.Kind == ErrPermission && strings.Contains(e.Err.Error(), "can't run this command"):
		return " (ACL LOG on the server names the command, which Redis 7.0 does not; see docs/SECURITY.md for the ACL that locks need)"
	}
	return advice[e.Kind]
}

// advice is the next step for errors of a kind.
var advice = map[error]string{
	ErrUnavailable:   " (is it running, and reachable from here?)",
	ErrAuth:          " (check user and password)",
	ErrPermission:    " (see docs/SECURITY.md for the ACL that locks need)",
	ErrWrongType:     " (choose another name or prefix)", // and do not delete what others may hold
	ErrPermits:       " (have all programs name the same number; it can be changed with Resize)",
	ErrParties:       " (have all programs name the same number; Reset begins a latch with another)",
	ErrReadOnly:      " (connect to the master, or through Sentinel or Cluster)",
	ErrUnsupported:   " (Redis 7.0 or Valkey 7.2 is needed; for a Cluster, a Cluster client)",
	ErrQuarantine:    " (Acquire waits for its end; for a server that is new, run \"holdfast init\" once)",
	ErrUninitialised: " (Quorum.Init admits it)",
	ErrReplicas:      " (check the replicas: INFO replication)",
	ErrOutOfMemory:   " (raise maxmemory or free some)",
	ErrWritesRefused: " (check its replicas and its disk)",
}

// Unwrap returns the sentinel, the adapter's error and, if it has ended, that of the caller's context.
func (e *ServerError) Unwrap() []error {
	all := []error{e.Err}
	if e.Kind != nil {
		all = []error{e.Kind, e.Err}
	}
	if e.ended != nil {
		all = append(all, e.ended)
	}
	return all
}

// endedBy returns the error of an operation whose context ended before the server answered: with what it
// met there last, or nil.
func endedBy(ctx context.Context, met error) error {
	var se *ServerError
	if !errors.As(met, &se) {
		return ctx.Err()
	}
	e := *se
	e.ended = ctx.Err()
	return &e
}

// QuarantineError says for how long nothing is granted yet in Strict mode. It comes
// within a *ServerError that matches ErrQuarantine.
type QuarantineError struct{ Left time.Duration }

func (e *QuarantineError) Error() string {
	return fmt.Sprintf("it may have lost locks, and grants none for another %s", e.Left)
}

// Ambiguous reports whether err leaves open what the server did: the request
// may have been carried out, but its reply was lost. After an ambiguous acquire
// the lock, if it was granted, is released in the background or expires with
// its TTL. After an ambiguous release the lock is most likely free. Of several errors,
// as errors.Join has them, one that does is enough.
func Ambiguous(err error) bool {
	if se, ok := err.(*ServerError); ok {
		return se.ambiguous
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return Ambiguous(err.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(err.Unwrap(), Ambiguous)
	}
	return false
}
