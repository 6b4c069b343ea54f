package engine

import (
	"log/slog"
	"time"
)

// Config is what the locks of one Client share. Its zero value, and a nil
// *Config, mean the defaults below.
type Config struct {
	// Batch bounds how many mutexes are acquired, released or renewed with one command, where
	// several are at the same time: those that are free, or for which nobody waits. They are
	// those that come while an earlier command is under way; nothing waits for others to
	// come. In a Cluster, where a command can have the locks of one slot only, it bounds how many
	// acquires, releases or renewals are sent to one master together. In Strict mode only releases are
	// gathered, and acquires of a Quorum's locks.
	// Default 128, which is also the most; negative: each goes by itself.
	Batch int

	// CommandTimeout bounds one attempt of one command; an attempt that takes
	// longer is given up and, while its context allows, repeated. Default 2 s.
	CommandTimeout time.Duration

	// LocalHandovers bounds how often in a row goroutines of this process
	// pass a lock among themselves, for at most 100 ms, before it is offered to
	// other processes; sixteen times as often if none waited when the lock was last
	// renewed. Default 64; negative switches local hand-over off.
	LocalHandovers int

	// Logger is told, at level WARN, of settings under which locks are not safe
	// or slow: once for each Client and finding. Default: slog.Default(), as
	// it is then; slog.New(slog.DiscardHandler) silences it.
	Logger *slog.Logger

	// MaxTTL bounds the TTL of every lease. Default 24 h, in Strict mode 1 min.
	MaxTTL time.Duration

	// Owner names this process to people who ask who holds a lock. Default:
	// host name, process id and a few random characters.
	Owner string

	// Prefix begins every key and channel. It has no braces. Default
	// "holdfast:".
	Prefix string

	// Quarantine is, in Strict mode, for how long nothing is granted once a loss of
	// data has been noticed. At least MaxTTL. Default: MaxTTL, and 13 s more on a
	// server that has or had replicas, since the master that it replaces may go on
	// granting for min-replicas-max-lag, which is 10 s by default, and 2 s. With
	// another max-lag set this to MaxTTL, the max-lag and 3 s.
	Quarantine time.Duration

	// RetryTimeout bounds for how long an operation is begun again while the
	// server is unreachable, loading, busy or without a master, before it
	// returns the error; a context may end it sooner. A waiter that the server
	// has answered once is bounded by its context alone. Default 3 s.
	RetryTimeout time.Duration

	// Strict makes sure that no two leases overlap when the server loses its data, or
	// a replica that missed some is promoted: nothing is granted then until every
	// lease that may have been lost has expired; see Quarantine. All clients of a
	// Prefix must be Strict, and have the same MaxTTL. A server is admitted with
	// Client.Init or "holdfast init"; one that was not is in quarantine at first.
	// Every restart and failover costs a quarantine, and so does the first replica
	// of a server that had none. ErrUnsupported says that the
	// server cannot be used so: a Cluster, one whose ACL denies INFO, one that has
	// replicas and not min-replicas-to-write and min-replicas-max-lag. Where there are
	// replicas, have all of them confirm every lock (MinReplicas): a master that was
	// replaced goes on granting while it keeps one of them, and may grant a last lock
	// when it wakes from a pause. Default false: locks are lost with the data;
	// docs/GUARANTEES.md says what that means.
	Strict bool

	// TTL is the lease time of locks without a TTL option. Default 15 s.
	TTL time.Duration
}
