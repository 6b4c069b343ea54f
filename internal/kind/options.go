package kind

import "time"

// Option changes the settings of one lock.
type Option func(*Settings)

// Refuse makes every use of the lock fail with ErrInvalid and this reason.
func Refuse(why error) Option { return func(s *Settings) { s.wrong = why } }

// positive returns n or, if n is not positive, a negative number, which Settings.Check refuses: 0 would stand for the default.
func positive[N ~int | ~int64](n N) N {
	if n <= 0 {
		return -1
	}
	return n
}

// TTL is holdfast.TTL.
func TTL(d time.Duration) Option { return func(s *Settings) { s.TTL = d } }

// Renew sets whether the lease is renewed at a third of its TTL until it is released. The default is true. A lease that is not renewed ends
// with its TTL.
func Renew(on bool) Option { return func(s *Settings) { s.Renew = on } }

// MaxHold is holdfast.MaxHold.
func MaxHold(d time.Duration) Option { return func(s *Settings) { s.MaxHold = positive(d) } }

// MaxRenewals is holdfast.MaxRenewals.
func MaxRenewals(n int) Option { return func(s *Settings) { s.MaxRenewals = max(n, 0) } }

// Poll is holdfast.Poll.
func Poll(interval time.Duration) Option {
	return func(s *Settings) { s.PollInterval = positive(interval) }
}

// Owner sets the holder's name, for people who ask who holds the lock. Default: Config.Identity.
func Owner(name string) Option { return func(s *Settings) { s.Owner = name } }

// OwnedBy makes a Mutex a lock of this owner, who can acquire it again from any process.
func OwnedBy(owner string) Option {
	return func(s *Settings) {
		s.Kind, s.Limit, s.Weight = &Owned, Everything, 1
		s.Owner, s.Reentrant = owner, true
	}
}

// Key keeps the lock under exactly this key instead of one made from prefix and name. It is then shared with programs that use the
// canonical form: SET key token NX PX ttl, and a script that compares and deletes. A key is refused if it has a closing brace that does not
// end a Cluster hash tag.
func Key(exact string) Option {
	return func(s *Settings) { s.Kind, s.Key = &Keyed, exact }
}

// Redisson makes the lock the one that Redisson's getLock(name), an RLock, returns in Java: a hash under exactly this key. Each side
// notifies the other when the lock is free. A name is refused if it has braces that do not make a Cluster hash tag.
func Redisson(name string) Option {
	return func(s *Settings) { s.Kind, s.Key = &RLock, name }
}

// Durability is holdfast.Durability. A timeout of 0 keeps the previous one.
func Durability(replicas int, fsync bool, timeout time.Duration) Option {
	return func(s *Settings) {
		s.replicas, s.fsync = replicas, fsync
		if timeout != 0 {
			s.confirmation = timeout
		}
	}
}

// Meta adds a note for people who ask who holds the lock. All notes and the owner's name together take at most 1 KiB.
func Meta(key, value string) Option {
	return func(s *Settings) { s.meta = &metaList{key, value, s.meta} }
}

// Reentrant is holdfast.Reentrant, or with false its opposite.
func Reentrant(on bool) Option { return func(s *Settings) { s.Reentrant = on } }

// MaxDepth bounds how many leases of a Reentrant lock are nested, at least 1: one more gets ErrDepth. For a lock with an Owner it also
// bounds how many leases the owner has on the server at a time, including those being released in the background. Default: no bound.
func MaxDepth(n int) Option { return func(s *Settings) { s.MaxDepth = positive(n) } }

// Weight sets how many permits of a semaphore an acquire takes. If that is more than there are, the acquire gets ErrPermits. The server
// decides that, since Resize may have overruled the caller's number. Default 1.
func Weight(n int) Option { return func(s *Settings) { s.Weight = n } }

// NodeTimeout bounds how long one round waits for a node of a quorum: 1 ms to a quarter of the TTL. The default is a 200th of the TTL, from
// 5 to 50 ms, but at least six times as long as the slowest node takes to answer. It doubles after each round without a majority, up to a
// quarter of the TTL and Config.CommandTimeout.
func NodeTimeout(d time.Duration) Option {
	return func(s *Settings) {
		if d < time.Millisecond {
			d = -1
		}
		s.NodeTimeout = d
	}
}

// Of makes the lock one of kind k. limit is the total of the holders' weights, and weight this holder's.
func Of(k *Kind, limit, weight int) Option {
	return func(s *Settings) { s.Kind, s.Limit, s.Weight = k, limit, weight }
}

// AsVote makes the lock one on a node of a quorum. Observers are told that it is a quorum's.
func AsVote() Option {
	return func(s *Settings) { s.Kind, s.apart, s.SeenAs = &nodeMutex, true, SeenAsQuorum }
}

// Apart makes the server grant each lease: none is passed on within the process. Observers are told seenAs as the lock's kind.
func Apart(seenAs string) Option { return func(s *Settings) { s.apart, s.SeenAs = true, seenAs } }
