package kind

import (
	"time"
)

// Option changes one lock.
type Option func(*Settings)

// Refuse makes every use of the lock fail with ErrInvalid, for that reason.
func Refuse(why error) Option { return func(s *Settings) { s.wrong = why } }

// TTL is holdfast.TTL.
func TTL(d time.Duration) Option { return func(s *Settings) { s.TTL = d } }

// Renew says whether the lease is renewed, at a third of its TTL, until it is
// released. Default true. A lease that is not renewed ends with its TTL.
func Renew(on bool) Option { return func(s *Settings) { s.Renew = on } }

// MaxHold is holdfast.MaxHold.
func MaxHold(d time.Duration) Option {
	return func(s *Settings) {
		if d <= 0 {
			d = -1
		}
		s.MaxHold = d
	}
}

// MaxRenewals is holdfast.MaxRenewals.
func MaxRenewals(n int) Option {
	return func(s *Settings) { s.MaxRenewals = max(n, 0) }
}

// Poll is holdfast.Poll.
func Poll(interval time.Duration) Option {
	return func(s *Settings) {
		if interval <= 0 {
			interval = -1
		}
		s.PollInterval = interval
	}
}

// Owner names the holder to people who ask who holds the lock. Default: Config.Identity.
func Owner(name string) Option { return func(s *Settings) { s.Owner = name } }

// OwnedBy makes a Mutex an owner's, who can acquire it again from any process.
func OwnedBy(owner string) Option {
	return func(s *Settings) {
		s.Kind, s.Limit, s.Weight = &Owned, Everything, 1
		s.Owner, s.Reentrant = owner, true
	}
}

// Key makes the lock live under exactly this key, instead of one made from
// prefix and name, so that it is shared with programs that use the canonical
// form: SET key token NX PX ttl, and a script that compares and deletes. A key with a
// closing brace that is not a Cluster hash tag's is refused.
func Key(exact string) Option {
	return func(s *Settings) { s.Kind, s.Key = &Keyed, exact }
}

// Redisson makes the lock the one that Redisson's getLock(name), an RLock, returns in Java.
// It is kept as Redisson keeps it, in a hash under exactly this key, and each side notifies the
// other when the lock is free. A name with braces that are not a Cluster hash tag's is refused.
func Redisson(name string) Option {
	return func(s *Settings) { s.Kind, s.Key = &RLock, name }
}

// Durability is holdfast.Durability. A timeout of 0 leaves it as it is.
func Durability(replicas int, fsync bool, timeout time.Duration) Option {
	return func(s *Settings) {
		s.replicas, s.fsync = replicas, fsync
		if timeout != 0 {
			s.confirmation = timeout
		}
	}
}

// Meta adds a note for people who ask who holds the lock. All notes together,
// with the owner's name, take at most 1 KiB.
func Meta(key, value string) Option {
	return func(s *Settings) { s.meta = &metaList{key, value, s.meta} }
}

// Reentrant is holdfast.Reentrant. False turns the option off.
func Reentrant(on bool) Option { return func(s *Settings) { s.Reentrant = on } }

// MaxDepth bounds how many leases of a Reentrant lock are nested: one more gets ErrDepth. For a lock with an Owner it also bounds how
// many leases the owner has on the server at a time; leases that are being released in the background still count. At least 1.
// Default: no bound.
func MaxDepth(n int) Option {
	return func(s *Settings) {
		if n <= 0 {
			n = -1
		}
		s.MaxDepth = n
	}
}

// Weight sets how many permits of a semaphore an acquire takes. If that is more than there are, the acquire gets ErrPermits. The
// server decides that, since Resize may have overruled the number that the caller gives. Default 1.
func Weight(n int) Option { return func(s *Settings) { s.Weight = n } }

// NodeTimeout bounds how long a node of a quorum is waited for in one round. From 1 ms to a quarter of the TTL. Default: a 200th of
// the TTL, 5 to 50 ms, and at least six times as long as the slowest node takes to answer; twice as long after each round without a
// majority; up to a quarter of the TTL, and Config.CommandTimeout.
func NodeTimeout(d time.Duration) Option {
	return func(s *Settings) {
		if d < time.Millisecond {
			d = -1
		}
		s.NodeTimeout = d
	}
}

// Of makes the lock one of a kind, of which there is limit in all and each holder has that weight.
func Of(k *Kind, limit, weight int) Option {
	return func(s *Settings) { s.Kind, s.Limit, s.Weight = k, limit, weight }
}

// AsVote makes the lock one on a node of a quorum, which calls itself that.
func AsVote() Option {
	return func(s *Settings) { s.Kind, s.apart, s.SeenAs = &nodeMutex, true, SeenAsQuorum }
}

// Apart makes each lease one that the server grants: none is passed on within the process. Observers are told seenAs as the lock's kind.
func Apart(seenAs string) Option { return func(s *Settings) { s.apart, s.SeenAs = true, seenAs } }
