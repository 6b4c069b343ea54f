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

// Renew sets whether the lease is renewed until it is released. The default is true.
func Renew(on bool) Option { return func(s *Settings) { s.Renew = on } }

// MaxHold is holdfast.MaxHold.
func MaxHold(d time.Duration) Option { return func(s *Settings) { s.MaxHold = positive(d) } }

// MaxRenewals is holdfast.MaxRenewals.
func MaxRenewals(n int) Option { return func(s *Settings) { s.MaxRenewals = max(n, 0) } }

// Poll is holdfast.Poll.
func Poll(interval time.Duration) Option {
	return func(s *Settings) { s.PollInterval = positive(interval) }
}

// Owner is holdfast.Identity.
func Owner(name string) Option { return func(s *Settings) { s.Owner = name } }

// OwnedBy makes a Mutex an OwnerMutex.
func OwnedBy(owner string) Option {
	return func(s *Settings) {
		s.Kind, s.Limit, s.Weight = &Owned, Everything, 1
		s.Owner, s.Reentrant = owner, true
	}
}

// Key makes a Mutex a MutexKey.
func Key(exact string) Option {
	return func(s *Settings) { s.Kind, s.Key = &Keyed, exact }
}

// Redisson makes a Mutex a RedissonMutex.
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

// Meta is holdfast.Meta.
func Meta(key, value string) Option {
	return func(s *Settings) { s.meta = &metaList{key, value, s.meta} }
}

// Reentrant is holdfast.Reentrant, or with false its opposite.
func Reentrant(on bool) Option { return func(s *Settings) { s.Reentrant = on } }

// MaxDepth is holdfast.MaxDepth.
func MaxDepth(n int) Option { return func(s *Settings) { s.MaxDepth = positive(n) } }

// Weight sets how many permits of a semaphore an acquire takes. Default 1.
func Weight(n int) Option { return func(s *Settings) { s.Weight = n } }

// NodeTimeout is quorum.Config.NodeTimeout, which checks it.
func NodeTimeout(d time.Duration) Option { return func(s *Settings) { s.NodeTimeout = d } }

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
