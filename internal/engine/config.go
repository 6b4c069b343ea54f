package engine

import (
	"log/slog"
	"time"
)

// Config is what the locks of one Client share. Its zero value, and a nil
// *Config, mean the defaults below.
type Config struct {
	// Batch bounds how many mutexes are acquired, released or renewed with one command. Mutexes
	// that are free, or that nobody waits for, go together if they come while an earlier command is
	// under way; nothing waits for others to come. In a Cluster, where one command can only have
	// the locks of one slot, Batch bounds how many acquires, releases or renewals are sent to one
	// master together. In Strict mode only releases go together, and acquires of a Quorum's locks.
	// Default 128, which is also the most; negative: each goes by itself.
	Batch int

	// CommandTimeout bounds one attempt of one command. An attempt that takes longer is given up
	// and, if its context allows, repeated. Default 2 s.
	CommandTimeout time.Duration

	// LocalHandovers bounds how often in a row goroutines of this process pass a lock among
	// themselves, for at most 100 ms, before it is offered to other processes. The bound is sixteen
	// times as high if no other process was waiting when the lock was last renewed. Default 64;
	// negative: never.
	LocalHandovers int

	// Logger is told, at level WARN, of settings of the server that make locks unsafe or slow, once
	// for each Client and finding. Default: slog.Default() at that time.
	// slog.New(slog.DiscardHandler) silences it.
	Logger *slog.Logger

	// MaxTTL bounds the TTL of every lease. Default 24 h, in Strict mode 1 min.
	MaxTTL time.Duration

	// Owner names this process to people who ask who holds a lock. Default: host name, process id
	// and a few random characters.
	Owner string

	// Prefix begins every key and channel. It must not have braces. Default "holdfast:".
	Prefix string

	// Quarantine is, in Strict mode, how long nothing is granted after the server is found to have
	// lost data. It must be at least MaxTTL. Default: MaxTTL, and 13 s more on a server that has or
	// had replicas: the master that it replaces may go on granting for min-replicas-max-lag, by
	// default 10 s, plus 2 s. With another max-lag, set Quarantine to MaxTTL plus max-lag plus 3 s.
	Quarantine time.Duration

	// RetryTimeout bounds how long an operation is retried while the server is unreachable,
	// loading, busy or without a master. After that the operation returns the error; its context
	// may end it sooner. Once the server has answered a waiter, only the waiter's context bounds
	// the wait. Default 3 s.
	RetryTimeout time.Duration

	// Strict makes sure that no two leases overlap if the server loses its data, or if a replica is
	// promoted that missed some: nothing is granted then until every lease that may have been lost
	// has expired; see Quarantine. Every restart and failover costs a quarantine, and so does the
	// first replica of a server that had none. Default false: locks are lost with the data;
	// docs/GUARANTEES.md says what that means.
	//
	// All clients of a Prefix must be Strict and have the same MaxTTL. Client.Init or "holdfast
	// init" admits a server; a server that was not admitted begins with a quarantine.
	// ErrUnsupported says that a server cannot be used in Strict mode: it is a Cluster, its ACL
	// denies INFO, or it has replicas but not both min-replicas-to-write and min-replicas-max-lag.
	//
	// If there are replicas, have all of them confirm every lock (MinReplicas): a master that was
	// replaced goes on granting as long as it keeps one of them, and may grant one last lock when
	// it wakes from a pause.
	Strict bool

	// TTL is the lease time of locks without a TTL option. Default 15 s.
	TTL time.Duration
}

// DefaultCommandTimeout is that of a Config which says nothing of it.
const DefaultCommandTimeout = 2 * time.Second
