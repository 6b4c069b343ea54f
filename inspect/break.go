package inspect

import (
	"context"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/inspector"
)

// Broken is the record of a Break, or of a Revoke.
type Broken struct {
	Name    string          // of the lock
	Holder  holdfast.Holder // who held it. Of a Revoke, only its Name, Grant and Fence are known
	By      string          // Config.Identity of the client that broke it
	Reason  string
	Time    time.Time // by the server's clock
	Fence   uint64    // above those of all grants until then; 0 for a Revoke
	Revoked bool      // the holder was only asked to let go
}

// ErrChanged says that the lock has another holder than the one that was given. Nothing was done.
var ErrChanged = inspector.ErrChanged

// Break takes a lock, whatever its kind, from a holder that was seen, for example in Status.Holders, and hands it to the next waiter.
// Only the holder's Name and Grant count. Nobody else is touched: if the lock has another holder by now, the error is [ErrChanged], and
// if it has none, [holdfast.ErrNotHeld]. So other readers of an RWMutex keep it, as do other leases of an OwnerMutex's owner. A party
// of a Latch or Barrier counts as dead. A holder without a Grant, such as one that is Foreign, cannot be broken ([holdfast.ErrInvalid]).
//
// The holder may still be at work: break a lock when you know that its holder hangs, is gone, or minds its lease. A client
// that held the lock for more than a second is told at once, by push: the lease ends with a [*holdfast.LostError] whose
// Reason is [holdfast.LossBroken] and whose By is the Config.Identity of the inspector's client. One that cannot hear it ends
// the lease when it next renews, and one that hangs when it goes on: Lease.Err compares clocks. Only fences protect a
// resource from what it does until then: guards refuse its fence once they have seen Broken.Fence or a later grant's. Readers share
// a fence, as do an owner's leases: a guard cannot tell a broken one from the others.
//
// Who broke which lock, when and why is recorded on the server: see History. reason, together with the owner, may take 2 KiB
// as JSON ([holdfast.ErrInvalid]). A break that was not answered is retried like an acquire, and takes effect once;
// [holdfast.ErrAmbiguous] says that it may have. In a Cluster the record follows the break in a request of its own: if that
// fails, Break returns both a Broken and the error.
//
// A quorum's lock is broken on all nodes that have it for that grant. If too few answer, the error is a [*quorum.Error], and
// some may have been broken. Broken.Fence is one node's count.
//
// Break works when the server is out of memory. It also works in Strict mode during a quarantine: the lock is then free, and
// nobody is granted it before the quarantine ends.
func (i *Inspector) Break(ctx context.Context, holder holdfast.Holder, reason string) (Broken, error) {
	b, err := i.of.Break(ctx, holder.Name, holder.Grant, reason, "")
	return newBroken(&b), access.Error(err)
}

// Revoke asks the holder that was seen to let go, and does nothing else: its Lease.Revoked channel is closed, and a job of
// holdfast run gets TERM. The errors are those of Break. nil says that the request is on record, not that the holder is there
// to read it. A lease that is detached has no holder to ask, and once it is adopted it is another grant.
func (i *Inspector) Revoke(ctx context.Context, holder holdfast.Holder, reason string) error {
	return access.Error(i.of.Revoke(ctx, holder.Name, holder.Grant, reason, ""))
}

// History yields the breaks and revocations on record, the latest first. The server keeps about the latest 1,000. Of a quorum it
// yields what any node has on record, each once. An error is the last: see List.
func (i *Inspector) History(ctx context.Context) iter.Seq2[Broken, error] {
	return func(yield func(Broken, error) bool) {
		i.of.History(ctx, func(b inspector.Broken, err error) bool { return yield(newBroken(&b), access.Error(err)) })
	}
}

func newBroken(b *inspector.Broken) Broken {
	if b.Name == "" {
		return Broken{}
	}
	return Broken{b.Name, access.Holder(b.Holder).(holdfast.Holder), b.By, b.Reason, b.Time, b.Fence, b.Revoked}
}
