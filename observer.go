package holdfast

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/lock"
)

// Observer is told what happens to locks, for logs, metrics and traces: see [Config.Observers]. Any function may be nil.
//
// The functions are called by the goroutine that acquires, renews or releases, with no mutex locked; they must not block, nor
// call Client.Close. For each lease they are called one at a time and in order: AcquireStart, AcquireQueued at most once,
// AcquireEnd, which is before the acquire returns; if the lock was granted, Renewed and RenewFailed any number of times and
// Revoked at most once; then Lost or Released, and nothing more. Released comes when the server has answered, most often before
// Release returns; Client.Close waits for it. A function that panics is logged with its stack, at level ERROR, and changes
// nothing about the lock.
//
// Every lease counts: nested ones, readers that share a hold, each term of an election, parties of latches and barriers. A
// Multi, or a quorum's mutex, is one acquire and one lease, of which only Renewed and RenewFailed come for each part; a quorum
// tells the observers of its first client. Downgrade and TryUpgrade are an acquire of the other side, during which the first
// lease is released, unless TryUpgrade returns ErrHeld.
type Observer struct {
	// AcquireStart is called when an acquire begins, with the caller's context. The other functions, and later Observers, get the
	// values of the context it returns; the caller's code does not. A nil context counts as ctx.
	AcquireStart func(ctx context.Context, e AcquireEvent) context.Context
	// AcquireQueued is called when the acquire has to wait for others.
	AcquireQueued func(ctx context.Context, e AcquireEvent)
	// AcquireEnd is called when the lock was granted, or, with Err set, was not. Each AcquireStart has one.
	AcquireEnd func(ctx context.Context, e AcquireEvent)
	// Renewed is called when a lease was renewed or extended. The renewal that confirms a hand-over by the server does not count.
	Renewed func(ctx context.Context, e LeaseEvent)
	// RenewFailed is called when a renewal failed. It is retried until the deadline.
	RenewFailed func(ctx context.Context, e LeaseEvent)
	// Lost is called when a lease was lost. One that is not released after Client.Close is lost when it expires.
	Lost func(ctx context.Context, e LeaseEvent)
	// Revoked is called when somebody asked the holder to let go: see Lease.Revoked.
	Revoked func(ctx context.Context, e LeaseEvent)
	// Released is called when a lease was released or detached. The lease is over even if the release failed (Err).
	Released func(ctx context.Context, e LeaseEvent)
	// ServerLost is called once for each outage: when the server stops answering, or does not begin to. An error that it sends
	// is an answer, and so is an answer from any node of a Cluster.
	ServerLost func(e ServerEvent)
	// ServerFound is called when it answers again.
	ServerFound func(e ServerEvent)
}

// AcquireEvent describes an acquire: the upper fields from the start, the lower ones as they become known.
type AcquireEvent struct {
	Name     string // of Multi, all names, with commas between them
	Kind     Kind
	Mode     Mode
	Permits  int // of a semaphore, else 0
	Identity string
	Try      bool // it does not wait: TryAcquire, TryDo, TryJoin, TryUpgrade, Latch.Register, transfer.Adopt
	Start    time.Time

	Ahead    int           // AcquireQueued: how many other processes are queued ahead of this one, as far as known
	Holder   Holder        // AcquireQueued, and ErrHeld: who holds it, as far as known; else zero
	Waited   time.Duration // AcquireEnd: since Start
	Handover Handover      // AcquireEnd: how the lock came
	Fence    uint64        // AcquireEnd: of the lease
	Grant    string        // AcquireEnd: the lease's grant id, by which others know it (Holder.Grant); "" with Multi and Quorum
	Err      error         // AcquireEnd: nil if granted; else what the acquire returns
}

// LeaseEvent describes something that happened to a lease.
type LeaseEvent struct {
	Name     string
	Kind     Kind
	Mode     Mode
	Permits  int // of a semaphore, else 0
	Identity string
	Fence    uint64
	Grant    string    // as of AcquireEvent
	Granted  time.Time // local time

	Deadline time.Time     // Renewed, RenewFailed: until when it is held now
	Slack    time.Duration // Renewed: how much was left of the lease when the renewal was confirmed
	Held     time.Duration // Lost, Released: since Granted
	Handover Handover      // Released: HandoverLocal if another goroutine of this process has the lock now
	Reason   LossReason    // Lost
	By       string        // Revoked: who asks, by that program's Config.Identity
	Note     string        // Revoked: why; may be empty
	Err      error         // RenewFailed; Lost: a *LostError; Released: why the release failed, or nil
}

// ServerEvent describes a server that was lost or found.
type ServerEvent struct {
	Server string        // its address, without credentials
	Down   time.Duration // ServerFound: how long it was unreachable
	Err    error         // ServerLost: the last error
}

// Handover says how a lock passes from one holder to the next.
type Handover string

// How a lock came to its holder, or where it went.
const (
	HandoverNone   Handover = ""       // it was free, or nobody waited, as far as known
	HandoverServer Handover = "server" // the server passed it between processes, or a Ticket did
	HandoverLocal  Handover = "local"  // goroutines of one process passed it on, or share it as readers
)

// newObserver returns the engine's observer, which tells all of these; nil if there are none.
func newObserver(given []*Observer, logger *slog.Logger) *lock.Observer {
	all := observers{logger: logger}
	for _, o := range given {
		if o != nil {
			all.list = append(all.list, o)
		}
	}
	if len(all.list) == 0 {
		return nil
	}
	o := &lock.Observer{
		AcquireQueued: tell(all, func(o *Observer) func(context.Context, AcquireEvent) { return o.AcquireQueued }, newAcquireEvent),
		AcquireEnd:    tell(all, func(o *Observer) func(context.Context, AcquireEvent) { return o.AcquireEnd }, newAcquireEvent),
		Renewed:       tell(all, func(o *Observer) func(context.Context, LeaseEvent) { return o.Renewed }, newLeaseEvent),
		RenewFailed:   tell(all, func(o *Observer) func(context.Context, LeaseEvent) { return o.RenewFailed }, newLeaseEvent),
		Lost:          tell(all, func(o *Observer) func(context.Context, LeaseEvent) { return o.Lost }, newLeaseEvent),
		Revoked:       tell(all, func(o *Observer) func(context.Context, LeaseEvent) { return o.Revoked }, newLeaseEvent),
		Released:      tell(all, func(o *Observer) func(context.Context, LeaseEvent) { return o.Released }, newLeaseEvent),
		ServerLost: func(server string, err error) {
			all.tellServer(func(o *Observer) func(ServerEvent) { return o.ServerLost }, ServerEvent{Server: server, Err: leave(err)})
		},
		ServerFound: func(server string, down time.Duration) {
			all.tellServer(func(o *Observer) func(ServerEvent) { return o.ServerFound }, ServerEvent{Server: server, Down: down})
		},
	}
	if slices.ContainsFunc(all.list, func(o *Observer) bool { return o.AcquireStart != nil }) {
		o.AcquireStart = all.acquireStart
	}
	return o
}

// observers are those of one client.
type observers struct {
	list   []*Observer
	logger *slog.Logger
}

func (all observers) acquireStart(ctx context.Context, e lock.AcquireEvent) context.Context {
	event := newAcquireEvent(&e)
	for _, o := range all.list {
		if o.AcquireStart != nil {
			ctx = all.start(ctx, o.AcquireStart, &event)
		}
	}
	return ctx
}

// start calls an Observer's AcquireStart and returns its context, or ctx if it returns nil or panics.
func (all observers) start(ctx context.Context, f func(context.Context, AcquireEvent) context.Context, e *AcquireEvent) (next context.Context) {
	next = ctx
	defer all.outlive()
	if made := f(ctx, *e); made != nil {
		next = made
	}
	return next
}

// tell returns a function that tells an event to all observers that want it; nil if none does.
func tell[E, Own any](all observers, of func(*Observer) func(context.Context, Own), own func(*E) Own) func(context.Context, E) {
	var wanted []func(context.Context, Own)
	for _, o := range all.list {
		if f := of(o); f != nil {
			wanted = append(wanted, f)
		}
	}
	if wanted == nil {
		return nil
	}
	return func(ctx context.Context, e E) {
		event := own(&e)
		for _, f := range wanted {
			tellOne(all, ctx, f, &event)
		}
	}
}

func tellOne[Own any](all observers, ctx context.Context, f func(context.Context, Own), event *Own) {
	defer all.outlive()
	f(ctx, *event)
}

func (all observers) tellServer(of func(*Observer) func(ServerEvent), e ServerEvent) {
	for _, o := range all.list {
		if f := of(o); f != nil {
			func() {
				defer all.outlive()
				f(e)
			}()
		}
	}
}

// outlive is deferred by callers of an Observer's functions. It recovers from a panic, which must not unwind an acquire or a
// renewal.
func (all observers) outlive() {
	// mutants: observer-panics
	if what := recover(); what != nil {
		logger := all.logger
		if logger == nil {
			logger = slog.Default()
		}
		logger.Error("holdfast: an Observer panicked", "panic", fmt.Sprint(what), "stack", string(debug.Stack()))
	}
}

func newAcquireEvent(e *lock.AcquireEvent) AcquireEvent {
	own := AcquireEvent{
		Name: e.Name, Identity: e.Owner, Try: e.Try, Start: e.Start, Ahead: e.Ahead, Waited: e.Waited, Handover: Handover(e.Handover),
		Fence: e.Fence, Grant: e.Grant, Err: leave(e.Err),
	}
	own.Kind, own.Mode, own.Permits = seen(&e.Subject)
	if e.Holder != nil && e.Holder.Name != "" {
		own.Holder = holder(*e.Holder)
	}
	return own
}

func newLeaseEvent(e *lock.LeaseEvent) LeaseEvent {
	own := LeaseEvent{
		Name: e.Name, Identity: e.Owner, Fence: e.Fence, Grant: e.Grant, Granted: e.Granted, Deadline: e.Deadline, Slack: e.Slack,
		Held: e.Held, Handover: Handover(e.Handover), Reason: LossReason(e.Reason), By: e.By, Note: e.Note, Err: leave(e.Err),
	}
	own.Kind, own.Mode, own.Permits = seen(&e.Subject)
	if lost, is := own.Err.(*LostError); is && lost.Fence == 0 {
		lost.Fence = e.Fence
	}
	return own
}

// seen returns the kind of an event's lock, its mode, and the permits of a semaphore.
func seen(s *lock.Subject) (kind Kind, mode Mode, permits int) {
	kind, isKept := kinds[s.Kind]
	if !isKept { // one that only observers know
		return Kind(s.Kind), ModeExclusive, 0
	}
	mode, permits = modeOf(kind, s.Weight)
	return kind, mode, permits
}
