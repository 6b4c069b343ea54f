// Package holdfast locks names across processes, on Redis and Valkey.
//
//	locks, err := holdfastgoredis.New(rdb, nil)
//	err = locks.Mutex("invoices").Do(ctx, func(ctx context.Context, l *holdfast.Lease) error {
//		return post(ctx, l.Token())
//	})
//
// A [Client] hands out locks: a mutex, which may be [Reentrant], also for an [Owner] in several
// processes; an [RWMutex]; a [Semaphore]; several names as one, [Client.Multi]; and what is made of
// locks: a job that runs [Once], an [Election], a [Latch], a [Barrier]. A [Quorum] has a mutex on
// several servers. [Key] and [Redisson] share a mutex with other programs. A [Lock] is acquired
// and gives a [Lease]; the lease is renewed until it is released, and says so
// when it is lost: [Lease.Context] ends and [Lease.Err] reports it before anybody else can
// hold the lock, as far as clocks allow. [Lease.Token] is a fence: a number that rises with every grant, by which a
// resource can refuse a holder that is late. docs/GUARANTEES.md says what is promised
// under which faults, docs/PROTOCOL.md how it works.
package holdfast
