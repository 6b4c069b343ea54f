package holdfast

import "time"

// Config is what the locks of one Client share. Its zero value, and a nil
// *Config, mean the defaults below.
type Config struct {
	// CommandTimeout bounds one attempt of one command; an attempt that takes
	// longer is given up and, while its context allows, repeated. Default 2 s.
	CommandTimeout time.Duration

	// LocalHandovers bounds how often in a row goroutines of this process
	// pass a lock among themselves, for at most 100 ms, before it is offered to
	// other processes. Default 64; negative switches local hand-over off.
	LocalHandovers int

	// MaxTTL bounds the TTL of every lease. Default 24 h.
	MaxTTL time.Duration

	// Owner names this process to people who ask who holds a lock. Default:
	// host name, process id and a few random characters.
	Owner string

	// Prefix begins every key and channel. It has no braces. Default
	// "holdfast:".
	Prefix string

	// RetryTimeout bounds for how long an operation is begun again while the
	// server is unreachable, loading, busy or without a master, before it
	// returns the error; a context may end it sooner. A waiter that the server
	// has answered once is bounded by its context alone. Default 3 s.
	RetryTimeout time.Duration

	// TTL is the lease time of locks without a TTL option. Default 15 s.
	TTL time.Duration
}
