package holdfast

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/internal/lock"
)

// Config is what the locks of one client share. A nil *Config means the defaults, and so does a field that is zero. New copies
// it, and returns ErrInvalid for a value that is not allowed.
type Config struct {
	// CommandTimeout bounds one attempt of one command, which is then repeated as long as RetryTimeout and its context allow. At
	// least 5 ms. Default 2 s.
	CommandTimeout time.Duration

	// Durability is what has to confirm every grant and every renewal, unless a lock says otherwise. Default: nothing.
	Durability Durability

	// IgnoreDeadlocks makes an acquire go on waiting in a circle of callers that wait for each other; see Lock.Acquire. Others may be
	// told of it, and inspect.Inspector.Deadlocks lists it. Who would wait for its own lease is told all the same. Default false.
	IgnoreDeadlocks bool

	// Logger is told of lost leases (WARN; INFO if they are LossSuperseded), of a server that stops answering (WARN) and answers
	// again (INFO), of quarantines and of settings under which locks are unsafe or slow (WARN, once for each client and finding), of
	// leases for which Close waits (WARN), and of an Observer that panics (ERROR). Default: slog.Default();
	// slog.New(slog.DiscardHandler) silences it.
	Logger *slog.Logger

	// MaxLocalHandovers bounds how often in a row goroutines of this process pass a lock among themselves, for at most 100 ms: 16
	// times as often if no other process was waiting at the last renewal. Default 64; negative: never.
	MaxLocalHandovers int

	// MaxTTL bounds how long a lease lasts without a renewal, so that a crashed holder never keeps others out for longer. From
	// 5 ms to 10 years. Default 24 h, in Strict mode 1 min.
	MaxTTL time.Duration

	// Observers are told what happens to locks, in this order. Default none, which costs nothing.
	Observers []*Observer

	// Identity names this process to people who ask who holds a lock. Default: host, process id, random characters.
	Identity string

	// PollInterval makes waiters ask the server again and again instead of subscribing: see Poll. Latches and barriers look once a
	// second if they are not notified. At least 1 ms. Default 0: notifications; a quorum, which has none, asks at random times.
	PollInterval time.Duration

	// Prefix begins every key and channel. It has no braces. Default "holdfast:".
	Prefix string

	// Quarantine is how long a Strict server grants nothing after it lost data: at least MaxTTL. Default: MaxTTL, and 13 s more on a
	// server that has or had replicas, since the master that it replaced may go on granting for min-replicas-max-lag, by default
	// 10 s, plus 2 s. With another max-lag, set it to MaxTTL plus max-lag plus 3 s.
	Quarantine time.Duration

	// RetryTimeout is how long an operation is retried while the server is unavailable. The last attempt may take CommandTimeout
	// beyond that, if the server hangs. A waiter that the server has answered once is bounded by its context and Wait alone. At
	// least 5 ms. Default 3 s.
	RetryTimeout time.Duration

	// Strict makes sure that no two leases overlap when the server loses data, or when a replica that missed some is promoted:
	// nothing is granted then until every lease that may have been lost has expired; see Quarantine. All clients of a Prefix must be
	// Strict and have the same MaxTTL. A server is admitted with inspect.Inspector.Admit or "holdfast init". Every restart and
	// failover costs a quarantine, and so does the first replica of a server that had none. Default false: locks are lost with the
	// data; docs/GUARANTEES.md says what that means.
	//
	// ErrUnsupported says that the server cannot be used so: a Cluster; a server whose ACL denies INFO; one that has replicas, but
	// not min-replicas-to-write and min-replicas-max-lag. Where there are replicas, have all of them confirm every lock (Durability):
	// a master that was replaced goes on granting while it keeps one, and may grant a last lock when it wakes from a pause.
	Strict bool

	// TTL is the lease time of locks without the TTL option: how long a lock outlives a holder that crashed. From 5 ms to
	// MaxTTL. Default 15 s, or MaxTTL if that is shorter.
	TTL time.Duration

	// ViaClient gives each call a connection to itself, over go-redis for acquires one of the program's client. By default almost
	// everything goes over one connection to each server that the client library makes and only Holdfast uses: hooks and metrics of a
	// go-redis client do not see those calls, and its pool does not count the connection. Package holdfastgoredis says what they see
	// with ViaClient. Acquiring a free mutex then takes a script, and goroutines do not share requests. It makes no difference with
	// drivers that provide no connections, such as a driver.Wrapper.
	ViaClient bool
}

// engine returns what the engine needs of the configuration. It refuses what only this package knows.
func (c *Config) engine() (*lock.Config, error) {
	own := &lock.Config{
		CommandTimeout:  c.CommandTimeout,
		IgnoreDeadlocks: c.IgnoreDeadlocks,
		LocalHandovers:  c.MaxLocalHandovers,
		Logger:          c.Logger,
		MaxTTL:          c.MaxTTL,
		Observer:        newObserver(c.Observers, c.Logger),
		Owner:           c.Identity,
		Prefix:          c.Prefix,
		Quarantine:      c.Quarantine,
		RetryTimeout:    c.RetryTimeout,
		Strict:          c.Strict,
		TTL:             c.TTL,
		ViaClient:       c.ViaClient,
	}
	command := c.CommandTimeout
	if command == 0 {
		command = lock.DefaultCommandTimeout
	}
	switch {
	case c.Durability.Replicas < 0:
		return nil, fmt.Errorf("%w: Config.Durability.Replicas is negative", ErrInvalid)
	case c.Durability.Timeout != 0 && (c.Durability.Timeout < time.Millisecond || c.Durability.Timeout > command):
		return nil, fmt.Errorf("%w: a Config.Durability.Timeout of %s is not possible; 1ms to %s (CommandTimeout) is", ErrInvalid, c.Durability.Timeout, command)
	case c.PollInterval != 0 && c.PollInterval < time.Millisecond:
		return nil, fmt.Errorf("%w: a Config.PollInterval of %s is not possible; at least 1ms is needed", ErrInvalid, c.PollInterval)
	}
	return own, nil
}
