package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/option"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// RWMutex is a lock that any number of readers or one writer has at a time. Each side is a Lock, and each holder has a lease of
// its own, so that one that crashed keeps others out for no longer than its TTL.
//
// Readers and writers wait in one queue; readers that stand together in it go in together. So neither side starves: a reader
// that comes while a writer waits goes in after that writer. Readers of one process with the same options that come within 100
// ms share one lease on the server, except those with MaxHold, MaxRenewals, NoRenew or Poll. TryAcquire joins none.
//
// A writer's fence is above those of all earlier leases. Readers that hold the lock together have the same fence: one above the
// last writer's or, if a writer among them was downgraded, that writer's.
type RWMutex struct {
	rwMutexHandle
	read, write *engine.Target
	options     option.Set
}

// RWMutex returns the lock of that name, which any number of readers or one writer has at a time. Its options are those of
// both sides.
func (c *Client) RWMutex(name string, opts ...RWMutexOption) *RWMutex {
	o := option.Resolve(c.queued, opts)
	read, write := c.e().Sides(name, o.Given)
	return &RWMutex{printable.Name("holdfast.RWMutex", read), read, write, option.Set{Wait: o.Wait}}
}

type rwMutexHandle = printable.Handle[printable.Named]

// Reader returns the lock that readers acquire, with further options.
func (rw *RWMutex) Reader(opts ...RWMutexOption) *Lock {
	o := option.Resolve(rw.options, opts)
	return newLock(rw.read.With(o.Given...), o.Wait)
}

// Writer returns the lock that writers acquire, with further options.
func (rw *RWMutex) Writer(opts ...RWMutexOption) *Lock {
	o := option.Resolve(rw.options, opts)
	return newLock(rw.write.With(o.Given...), o.Wait)
}

// Downgrade makes a writer's lease a reader's, with the same fence and without a gap: no other writer comes between, and
// readers that wait go in. The writer's lease is over, even after an error: the lock is then given up, in the background if
// need be. Nothing has changed after ErrInvalid, as for a lease that has others nested in it, nor if ctx had ended before the
// call.
//
// The reader's lease has the options of rw.Reader(), the writer's identity, and the bounds of both: MaxHold counts from the
// writer's grant, and MaxRenewals goes on counting.
func (rw *RWMutex) Downgrade(ctx context.Context, writer *Lease) (*Lease, error) {
	lease, err := newLease(engine.Downgrade(ctx, writer.e(), rw.write, rw.read))
	return lease, writer.leave(err)
}

// TryUpgrade makes a reader's lease a writer's, with a new fence, if there is no other reader. If there is, it returns a
// *HeldError, which does not name it (Status does), and the reader's lease goes on. It does not wait: two readers that both
// want to write would wait for each other forever. The reader's lease also goes on after ErrInvalid, and if nothing was sent,
// for example because ctx had ended. After success, and after any other error, it is over. Options and bounds are as after
// Downgrade, with those of rw.Writer().
func (rw *RWMutex) TryUpgrade(ctx context.Context, reader *Lease) (*Lease, error) {
	lease, err := newLease(engine.TryUpgrade(ctx, reader.e(), rw.read, rw.write))
	return lease, reader.leave(err)
}

// Name returns the lock's name.
func (rw *RWMutex) Name() string { return rw.read.Name() }

// Status says who holds the lock, readers and writers, and who waits for it. It changes nothing.
func (rw *RWMutex) Status(ctx context.Context) (Status, error) { return statusOf(ctx, rw.read) }
