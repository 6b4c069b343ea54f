package lock

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Holder is a holder of a lock. Its program, or anyone who can write the key, wrote Owner, Host and Meta: escape them before you show them.
type Holder struct {
	Name  string // of the lock
	Form  string // as in Status
	Owner string // Owner or Config.Identity; "" when Foreign
	Host  string
	PID   int
	Meta  map[string]string
	Grant string // the grant id; "" when Foreign
	// Fence is that of the server's grant; 0 if it is not known yet. Goroutines of the holder's process that passed the lock on among
	// themselves have higher ones. In a Quorum it is one node's count, not the lease's Token.
	Fence   uint64
	Since   time.Time     // by the server's clock
	TTL     time.Duration // what is left; negative if the key has no expiry
	Foreign bool          // another program holds the lock: only TTL is known
	// Weight is the number of permits of a semaphore. For a read-write lock, 1 is a reader and more a writer. For a mutex it is 0.
	Weight int
}

// Holder returns who holds the lock: one of the holders if there are several, ErrNotHeld if there is none. It changes nothing.
func (l *Lock) Holder(ctx context.Context) (Holder, error) {
	if err := l.Ready(ctx); err != nil {
		return Holder{}, err
	}
	l.AwaitDepartures(ctx)
	if l.Set.Kind.IsShared {
		return l.someHolder(ctx)
	}
	a, _, err := Ask(ctx, Request{Op: "inspect", Lock: l}, codec.WhoHolds(l.Ref()))
	switch {
	case err != nil:
		return Holder{}, err
	case a.Reply.Word == codec.Free:
		return Holder{}, ErrNotHeld
	}
	return l.HolderOf(a.Reply.Holder), nil
}

// AwaitDepartures waits until waiters of this client that gave up have left the server's queue, so that a waiter whose Acquire has returned
// is not counted. It waits no longer than a few round trips or 500 ms, whichever is more.
func (l *Lock) AwaitDepartures(ctx context.Context) {
	most := max(500*time.Millisecond, min(8*l.Of.Server.RTT.Mean(), l.Of.Config.CommandTimeout))
	l.Of.Departing.wait(ctx, l.Keys.Queue, most)
}

// HolderOf returns the holder that a script reported. It is zero if nobody holds the lock but others are queued.
func (l *Lock) HolderOf(h *codec.Holder) Holder {
	if h.Ours && h.Value.Token == wire.NoToken {
		return Holder{}
	}
	return l.shown(h.TTL, h.Ours, &h.Value)
}

// shown returns the holder that a script reported. v is used only if ours is true.
func (l *Lock) shown(ttl time.Duration, ours bool, v *wire.Value) Holder {
	h := Holder{Name: l.Name(), Form: l.Set.Kind.Form, TTL: ttl, Foreign: !ours}
	if ours {
		h.Form = l.formFor(&v.Info)
		h.Owner, h.Host, h.PID, h.Meta = v.Info.Owner, v.Info.Host, v.Info.PID, v.Info.Meta
		h.Grant, h.Fence, h.Since = wire.GrantOf(v.Token), v.Fence, time.UnixMilli(v.Granted)
	}
	return h
}

// formFor returns the lock's form as the info of a holder or waiter shows it: a mutex can be an election.
func (l *Lock) formFor(info *wire.Info) string {
	if l.Set.Kind.Form == codec.HoldsMutex && info.Kind == kind.SeenAsElection {
		return kind.SeenAsElection
	}
	return l.Set.Kind.Form
}

// holdersPerReply is how many of a lock's holders a script returns at a time: few enough not to delay other requests for long.
const holdersPerReply = 500

// someHolder is Holder for a lock that can have several holders. It returns the first that it finds.
func (l *Lock) someHolder(ctx context.Context) (Holder, error) {
	cursor := "0"
	for count := 10; ; count = min(5*count, holdersPerReply) {
		some, err := l.HoldersFrom(ctx, cursor, count)
		switch {
		case err != nil:
			return Holder{}, err
		case len(some.Holds) > 0:
			return l.Sharer(&some.Holds[0]), nil
		case some.IsLast():
			return Holder{}, ErrNotHeld
		}
		cursor = some.Next
	}
}

// Sharer returns the holder that a script reported as a hold.
func (l *Lock) Sharer(hold *codec.Hold) Holder {
	h := l.shown(hold.TTL, hold.Ours, &hold.Value)
	h.Weight = hold.Weight
	return h
}

// HoldersFrom asks for about count holders, starting at a cursor.
func (l *Lock) HoldersFrom(ctx context.Context, cursor string, count int) (codec.HoldersReply, error) {
	a, _, err := Ask(ctx, Request{Op: "inspect", Lock: l}, &codec.Holders{Lock: l.Ref(), Cursor: cursor, Count: count, Kind: l.Set.Kind.Name})
	return a.Reply, err
}
