package holdfast

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// Config is what the locks of one client share. A nil *Config means the defaults, and so does a field that is zero. New copies
// it, and returns ErrInvalid for a value that is not allowed.
type Config struct {
	// CommandTimeout bounds one attempt of one command. An attempt that takes longer is given up and, as long as RetryTimeout
	// and its context allow, repeated. At least 5 ms. Default 2 s.
	CommandTimeout time.Duration

	// Fsync makes a grant or renewal count only once it is on disk, on the master and on as many replicas as MinReplicas
	// says (WAITAOF). The option of the same name does it for one lock, and tells what it needs. Default false.
	Fsync bool

	// Logger is told of lost leases, at level WARN (INFO if they are LossSuperseded); of a server that stops answering, at
	// level WARN, and answers again, at level INFO; of settings under which locks are unsafe or slow, at level WARN, once for
	// each client and finding; and of an Observer that panics, at level ERROR. Default: slog.Default();
	// slog.New(slog.DiscardHandler) silences it.
	Logger *slog.Logger

	// MaxLocalHandovers bounds how often in a row goroutines of this process pass a lock among themselves, for at most
	// 100 ms, before it is offered to other processes. The bound is sixteen times as high if no other process was waiting when
	// the lock was last renewed. Default 64; negative: never.
	MaxLocalHandovers int

	// MaxTTL bounds how long a lease lasts without a renewal, so that a crashed holder never keeps others out for longer. From
	// 5 ms to 10 years. Default 24 h, in Strict mode 1 min.
	MaxTTL time.Duration

	// MinReplicas makes a grant or renewal count only once that many replicas have it (WAIT). The option of the same name
	// does it for one lock, and tells what that is worth. Default 0.
	MinReplicas int

	// Observers are told what happens to locks, in this order. Default none, which costs nothing.
	Observers []*Observer

	// Owner names this process to people who ask who holds a lock. Default: host, process id, random characters.
	Owner string

	// PollInterval makes waiters ask the server again and again instead of subscribing, for servers where pub/sub is
	// forbidden: see Poll. It does not apply to latches and barriers, which look once a second if they are not notified. A
	// Quorum has that of its first client. At least 1 ms. Default 0: notifications; a Quorum, which has none, asks at random
	// times.
	PollInterval time.Duration

	// Prefix begins every key and channel. It has no braces. Default "holdfast:".
	Prefix string

	// Quarantine is how long a Strict server grants nothing after it lost data: at least MaxTTL. It is for Strict only. Default:
	// MaxTTL, and 13 s more on a server that has or had replicas, because the master that it replaced may go on granting for
	// min-replicas-max-lag, by default 10 s, plus 2 s. With another max-lag, set Quarantine to MaxTTL plus max-lag plus 3 s.
	Quarantine time.Duration

	// ReplicaTimeout bounds how long MinReplicas and Fsync are waited for: from 1 ms to CommandTimeout. Default:
	// CommandTimeout or 1 s, the shorter; with Fsync 1.7 s, or 85% of CommandTimeout if that is shorter.
	ReplicaTimeout time.Duration

	// RetryTimeout is how long an operation is retried while the server is unavailable, before it returns the error. The last
	// attempt may take CommandTimeout beyond that, if the server hangs; a context may end it sooner. A waiter that the server has
	// answered once is bounded by its context and Wait alone. At least 5 ms. Default 3 s.
	RetryTimeout time.Duration

	// Strict makes sure that no two leases overlap when the server loses data, or when a replica that missed some is
	// promoted: nothing is granted then until every lease that may have been lost has expired; see Quarantine. All clients
	// of a Prefix must be Strict and have the same MaxTTL. A server is admitted with Client.Admit or "holdfast init".
	// Every restart and failover costs a quarantine, and so does the first replica of a server that had none.
	//
	// ErrUnsupported says that the server cannot be used so: a Cluster; a server whose ACL denies INFO; one that has
	// replicas, but not min-replicas-to-write and min-replicas-max-lag. Where there are replicas, have all of them confirm
	// every lock (MinReplicas): a master that was replaced goes on granting while it keeps one of them, and may grant a
	// last lock when it wakes from a pause. Default false: locks are lost with the data; docs/GUARANTEES.md says what
	// that means.
	Strict bool

	// TTL is the lease time of locks without the TTL option: how long a lock outlives a holder that crashed. From 5 ms to
	// MaxTTL. Default 15 s, or MaxTTL if that is shorter.
	TTL time.Duration

	// ViaClient sends everything through the client library. By default, almost everything goes over a connection to each server
	// that only Holdfast uses. The client library makes that connection, but its hooks and its metrics do not see the calls, and its pool
	// does not count the connection. With ViaClient, those of a go-redis client see acquires; package holdfastgoredis says more. Acquiring
	// a free mutex then takes a script in place of a few short commands, and goroutines do not share requests. ViaClient makes no
	// difference with drivers that provide no connections, such as a driver.Wrapper, or that of a go-redis client with a Limiter or a
	// StreamingCredentialsProvider.
	ViaClient bool
}

// isDurable reports whether replicas or disks have to confirm every lock.
func (c *Config) isDurable() bool { return c.MinReplicas != 0 || c.Fsync }

// engine returns what the engine needs of the configuration. It refuses what only this package knows.
func (c *Config) engine() (*engine.Config, error) {
	own := &engine.Config{
		CommandTimeout: c.CommandTimeout,
		LocalHandovers: c.MaxLocalHandovers,
		Logger:         c.Logger,
		MaxTTL:         c.MaxTTL,
		Observer:       newObserver(c.Observers, c.Logger),
		Owner:          c.Owner,
		Prefix:         c.Prefix,
		Quarantine:     c.Quarantine,
		RetryTimeout:   c.RetryTimeout,
		Strict:         c.Strict,
		TTL:            c.TTL,
		ViaClient:      c.ViaClient,
	}
	command := c.CommandTimeout
	if command == 0 {
		command = engine.DefaultCommandTimeout
	}
	switch {
	case c.MinReplicas < 0:
		return nil, fmt.Errorf("%w: Config.MinReplicas is negative", ErrInvalid)
	case c.ReplicaTimeout != 0 && (c.ReplicaTimeout < time.Millisecond || c.ReplicaTimeout > command):
		return nil, fmt.Errorf("%w: a Config.ReplicaTimeout of %s is not possible; 1ms to %s (CommandTimeout) is", ErrInvalid, c.ReplicaTimeout, command)
	case c.PollInterval != 0 && c.PollInterval < time.Millisecond:
		return nil, fmt.Errorf("%w: a Config.PollInterval of %s is not possible; at least 1ms is needed", ErrInvalid, c.PollInterval)
	}
	return own, nil
}
