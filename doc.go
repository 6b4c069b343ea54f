// Package holdfast provides distributed locks on Redis and Valkey. A lease renews itself, ends before another process can hold
// the lock, and has a fence by which a resource can refuse a late holder.
//
//	locks, err := holdfastgoredis.New(rdb, nil)
//	err = locks.Mutex("invoices").Do(ctx, func(ctx context.Context, l *holdfast.Lease) error {
//		return post(ctx, l.Fence())
//	})
//
// An adapter makes the [Client], over the Redis client library that the program has: holdfastgoredis, holdfastrueidis or
// holdfastvalkey. A Client hands out locks. A [Lock] is acquired and gives a [Lease], which is renewed until it is released. A lease that
// is lost says so: its [Lease.Context] ends, and [Lease.Err] reports it, before anybody else can hold the lock, as far as
// clocks allow. [Lease.Fence] is a number that rises with every grant.
//
// [Client.Mutex] is a lock that one holder has at a time, [Client.RWMutex] one for readers and writers, [Client.Semaphore]
// a number of permits, and [Client.Multi] several names as one lock. [Client.OwnerMutex] belongs to an owner in any process;
// [Client.MutexKey] and [Client.RedissonMutex] are shared with other programs. Packages build on them: a job of
// package once is completed once, package election chooses a leader, a latch opens when parties have counted down, and parties wait
// for each other at a barrier. Package quorum makes locks that a majority of servers agrees on. Package transfer hands a mutex to
// another process.
//
// A handle, such as a [Lock], is immutable, free to make and safe for concurrent use. Making it sends nothing: a bad name
// or option shows as [ErrInvalid] when it is used. A name is 1 to 512 bytes of UTF-8 without control characters, and does
// not begin with a closing brace.
//
// docs/GUARANTEES.md says what is promised under which faults. docs/PROTOCOL.md says how it works.
package holdfast
