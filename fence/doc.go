// Package fence lets a resource refuse writes of a holder whose lease is over. The lock cannot stop a holder that was
// paused, or a request that took a long time to arrive. The resource can, if it remembers its mark, the highest fence
// that it has seen, and refuses lower fences:
//
//   - [Redis] guards values and scripts in Redis and Valkey.
//   - [SQL] guards transactions of a database, with a table of marks.
//   - [Transport] puts fences into HTTP requests, and [Guard] checks them before a handler runs.
//
// A holder shows a [Stamp], which [Of] takes from its lease. A refusal is a [*StaleError], which matches [ErrStale].
//
// # Two rules
//
// Raise the mark before you read. Until the mark is raised, an earlier holder can still change what you have read.
// Every guard has a Raise method for this.
//
// Every write carries the stamp, and one atomic step both compares and writes. Checking first and writing later guards
// nothing, no matter how little time passes between them.
//
// A mark belongs to one lock, because fences of different locks do not compare. It must live at least as long as a
// holder can be late. If it is deleted, evicted, expired or lost in a failover, the resource accepts any fence.
//
// # What cannot be fenced
//
// Nothing that does not compare can be fenced: mail, payments and other calls to third parties, files written by a shell
// script, a message on a queue, a table that another program writes without the fence. In these cases check the lease's
// Err right before the action, keep the TTL well above the longest pause that you expect, and make the action
// idempotent, with a key that the other side knows.
//
// A fence orders holders, not the writes of one holder. A write that was not answered may still arrive after the next
// one, and is accepted. To rule that out, release the lock and acquire it again, for a higher fence.
//
// Reads are not fenced either: a late holder can read, and show what it read.
//
// The holders of a semaphore also get rising fences, which say who came first. They cannot share a mark: each new holder
// would shut out the others, which still hold the semaphore. Readers of a read-write lock share one fence while they
// hold it together, so that they do not shut out each other: their stamps are [Stamp.Shared]. A mark still tells them
// from earlier and later writers. A writer that is downgraded keeps its fence, so it must wait for the answers to its
// writes first.
//
// A lease of several locks has a fence for each of them. Show each resource the fence of the lock that guards it, with
// [Part].
package fence
