// Package fence is for the resource that a lock protects. A lock cannot stop a holder
// that was paused, or a request that was long under way; a resource can, if it remembers
// the highest fence that it has seen, its mark, and refuses lower ones:
//
//   - [Redis] guards values and scripts in Redis and Valkey;
//   - [Table] guards rows of a database that have columns for a mark, [SQL] whole
//     transactions, by a table of marks;
//   - [Transport] puts fences into HTTP requests, [Guard] checks them before a handler.
//
// What a holder shows is a [Stamp], taken from its lease by [Of]. A refusal is a
// [*StaleError], which matches [ErrStale].
//
// # Two rules
//
// Raise the mark before you read. What a holder computes from what it read before, an
// earlier holder can still change. Every guard has a Raise for that.
//
// Every write carries the stamp, and one atomic step compares and writes. Checking first and
// writing later guards nothing, however short the time between.
//
// A mark belongs to one lock: fences of different locks do not compare. It has to live at
// least as long as a holder can be late. Where it is deleted, evicted, expired or lost in
// a failover, the next fence is taken, whatever it is.
//
// # What cannot be fenced
//
// Whatever does not compare: mail, payments and other calls to third parties, files
// written by a shell script, a message on a queue, a table that somebody also writes
// without the fence. There, look at the lease's Err right before, keep the TTL well above
// the longest pause that you expect, and have the action be idempotent, with a key of its
// own that the other side knows.
//
// A fence orders holders, not what one holder writes: a write of its own that was not
// answered may still arrive, after the next one, and is taken. Release the lock and get
// it anew, for a higher fence, to be rid of it.
//
// A read is not fenced either: a late holder can read, and show what it read to somebody.
//
// A semaphore, which has several holders at a time, gives them rising fences too. They
// say who came first, but no mark that the holders share can use them: each new holder
// would shut out the others, whose turn is not over. Readers of a read-write lock have one
// fence while they hold it together, and let each other in: their stamps are [Stamp.Shared].
// A mark tells them from earlier and later writers. A writer that is downgraded keeps its fence:
// before that it waits for the answers to what it has written.
//
// A lease of several locks has a fence for each. Each resource is given that of the lock which
// guards it, by [Part].
package fence
