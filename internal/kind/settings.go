package kind

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Names of kinds that are mutexes to the server. A Status recognizes an election by the information that its leader or first candidate
// gives.
const (
	SeenAsMulti    = "multi"
	SeenAsOnce     = "once"
	SeenAsElection = "election"
	SeenAsQuorum   = "quorum"
)

// Settings are a lock's resolved options. Goroutines whose locks have interchangeable settings can pass the lock on among themselves.
type Settings struct {
	*Terms // shared: change only those of a copy
	Owner  string
	Key    string    // exact key, or ""
	meta   *metaList // the notes in Info
	Info   string    // about the holder, as in the lock's value
}

// Terms are the settings that are the same for most locks of a program. They are comparable.
type Terms struct {
	TTL          time.Duration
	Renew        bool
	MaxHold      time.Duration // 0: no bound
	MaxRenewals  int           // < 0: no bound; never 0
	PollInterval time.Duration // 0: wait for notifications
	Reentrant    bool
	MaxDepth     int           // 0: no bound
	NodeTimeout  time.Duration // for a quorum's lock; 0: chosen by the TTL
	apart        bool          // the server grants each lease: none is passed on within the process
	SeenAs       string        // the kind that observers are told, if not the server's
	Called       string        // the lock's name if its keys do not contain one; usually ""

	Kind   *Kind
	Limit  int // of the sum of the holders' weights, if the lock can have several
	Weight int

	Durable      bool // replicas or disks have to confirm writes
	replicas     int
	fsync        bool
	confirmation time.Duration // how long to wait for replicas or disks; 0: the default

	wrong error // the error given to Refuse
	Err   error // what is wrong with the lock's name or options
}

// Copy returns a copy that can be changed.
func (s *Settings) Copy() *Settings {
	own, terms := *s, *s.Terms
	own.Terms = &terms
	return &own
}

// Interchangeable reports whether two locks with the same keys have the same settings.
func (s *Settings) Interchangeable(t *Settings) bool {
	return (s.Terms == t.Terms || *s.Terms == *t.Terms) && s.Owner == t.Owner && s.Key == t.Key && s.Info == t.Info // Info has the notes
}

// Cache keeps the settings of recent locks so that new locks can share them: a program may make a lock for each of a million leases.
// Settings with notes or a key are kept apart: in most programs they differ from lock to lock, and would push out all others.
type Cache struct {
	terms       latest[Terms]
	usual, rare latest[Settings]
}

// Share returns recent settings that are interchangeable with s, or s itself, which must not be changed afterwards.
func (c *Cache) Share(s *Settings) *Settings {
	s.Terms = c.terms.share(s.Terms, func(a, b *Terms) bool { return *a == *b })
	if s.meta != nil || s.Key != "" {
		return c.rare.share(s, (*Settings).Interchangeable)
	}
	return c.usual.share(s, (*Settings).Interchangeable)
}

// latest keeps the values most recently given to share.
type latest[T any] struct {
	values [8]atomic.Pointer[T]
	next   atomic.Uint32
}

// share returns one of the latest values that equals v, or v.
func (l *latest[T]) share(v *T, same func(a, b *T) bool) *T {
	for i := range l.values {
		if known := l.values[i].Load(); known != nil && same(known, v) {
			return known
		}
	}
	l.values[l.next.Add(1)%uint32(len(l.values))].Store(v)
	return v
}

// metaList is a list of notes, latest first.
type metaList struct {
	key, value string
	next       *metaList
}

// Describe sets Info, about a holder on that host. It need not be made anew if it is that of usual.
func (s *Settings) Describe(host string, usual *Settings) (err error) {
	if usual != nil && s.Owner == usual.Owner && s.meta == nil && s.SeenAs != SeenAsElection {
		s.Info = usual.Info
		return nil
	}
	info := wire.Info{Owner: s.Owner, Host: host, PID: os.Getpid()}
	if s.SeenAs == SeenAsElection {
		info.Kind = SeenAsElection
	}
	for m := s.meta; m != nil; m = m.next {
		if info.Meta == nil {
			info.Meta = map[string]string{}
		}
		if _, later := info.Meta[m.key]; !later {
			info.Meta[m.key] = m.value
		}
	}
	s.Info, err = info.Encode()
	return err
}

// Inheriting returns the settings of a lease that continues one with the settings of from. It has the stricter bounds of both, and from's
// owner and notes, which the server keeps.
func (s *Settings) Inheriting(from *Settings) *Settings {
	own := s.Copy()
	own.Renew = own.Renew && from.Renew
	if own.MaxHold == 0 || from.MaxHold > 0 && from.MaxHold < own.MaxHold {
		own.MaxHold = from.MaxHold
	}
	if own.MaxRenewals < 0 || from.MaxRenewals >= 0 && from.MaxRenewals < own.MaxRenewals {
		own.MaxRenewals = from.MaxRenewals
	}
	own.Owner, own.meta, own.Info = from.Owner, from.meta, from.Info
	return own
}

// Term returns how long the server is asked to keep the lock: the TTL, or MaxHold if that is shorter.
func (s *Settings) Term() time.Duration {
	if s.MaxHold > 0 {
		return min(s.TTL, s.MaxHold)
	}
	return s.TTL
}

// Unbounded reports whether a lease is renewed for as long as it is held.
func (s *Settings) Unbounded() bool { return s.Renew && s.MaxHold == 0 && s.MaxRenewals < 0 }

// Passable reports whether a lease may be passed on within the process. A lease with a bound of its own may not, since the bound belongs to
// one holder. Neither may a shared lock: fences reserved for this process would not rise from grant to grant while the server grants the
// lock to other processes, too.
func (s *Settings) Passable() bool { return s.Kind.exclusive && s.Unbounded() && !s.apart }

// Carriable reports whether a lease can be detached. The lease of a job or a term cannot: it belongs to the running function.
func (s *Settings) Carriable() bool {
	// mutants: detach-apart
	return s.Kind.carried && !s.apart
}

// NodeWait returns how long to wait for a node of a quorum whose round trip is short.
func (s *Settings) NodeWait() time.Duration {
	if s.NodeTimeout > 0 {
		return s.NodeTimeout
	}
	return min(max(s.TTL/200, 5*time.Millisecond), 50*time.Millisecond)
}

// SlowNodeGrace returns how long to wait for the other nodes after a majority has answered. begun is when the nodes were asked.
func (s *Settings) SlowNodeGrace(begun time.Time) time.Duration {
	return max(time.Since(begun), s.NodeWait()/10, time.Millisecond)
}

// MinTTL is the shortest TTL. Drift takes 2 ms of it.
const MinTTL = 5 * time.Millisecond

// Check returns an error if the settings make no sense for a client with these limits. canConfirm is false if writes have to be confirmed,
// but the driver cannot do that.
func (s *Settings) Check(maxTTL, commandTimeout time.Duration, canConfirm bool) error {
	switch {
	case s.wrong != nil:
		return s.wrong
	case s.TTL < MinTTL:
		return fmt.Errorf("a TTL of %s is not possible; at least %s is needed", s.TTL, MinTTL)
	case s.TTL > maxTTL:
		return fmt.Errorf("a TTL of %s is not allowed; at most %s is (Config.MaxTTL)", s.TTL, maxTTL)
	case s.MaxHold != 0 && s.MaxHold < MinTTL:
		return fmt.Errorf("a MaxHold below %s is not possible", MinTTL)
	case s.MaxRenewals == 0:
		return errors.New("a MaxRenewals below 1 is not possible; NoRenew renews never")
	case s.PollInterval != 0 && s.PollInterval < time.Millisecond:
		return errors.New("the interval of Poll is below 1ms")
	case s.MaxDepth < 0:
		return errors.New("a MaxDepth below 1 is not possible")
	case s.MaxDepth > 0 && !s.Reentrant:
		return errors.New("MaxDepth has a meaning for Reentrant locks only")
	case s.NodeTimeout != 0 && !s.Kind.IsVote:
		return errors.New("NodeTimeout has a meaning for a lock of a Quorum only")
	case s.NodeTimeout < 0 || s.NodeTimeout > s.TTL/4:
		return fmt.Errorf("a NodeTimeout of %s is not possible; 1ms to a quarter of the TTL, %s, is", s.NodeTimeout, s.TTL/4)
	case s.Owner == "":
		return errors.New("the identity is empty")
	case s.replicas < 0:
		return errors.New("the number of replicas is negative")
	case s.confirmation != 0 && (s.confirmation < time.Millisecond || s.confirmation > commandTimeout):
		return fmt.Errorf("the timeout of Durability is %s; it must be between 1ms and %s (Config.CommandTimeout)", s.confirmation, commandTimeout)
	case !canConfirm:
		return errors.New("Durability is not possible: this driver cannot wait for replicas")
	case s.Kind.check != nil:
		return s.Kind.check(s)
	}
	return nil
}

// defaultConfirmation bounds the wait for replicas, defaultSync the wait for disks. With appendfsync everysec a server begins to write to
// its disk once a second, and notices up to 0.1 s late that the write is done. CommandTimeout bounds the whole call, whose reply comes up
// to 0.1 s after the wait ends.
const (
	defaultConfirmation = time.Second
	defaultSync         = 1700 * time.Millisecond
)

// Durability returns what a write must achieve, if the whole call may take commandTimeout.
func (s *Settings) Durability(commandTimeout time.Duration) driver.Durability {
	d := driver.Durability{Replicas: s.replicas, Fsync: s.fsync, Timeout: s.confirmation}
	switch {
	case d.Timeout != 0:
	case s.fsync:
		d.Timeout = max(min(defaultSync, commandTimeout*17/20), time.Millisecond)
	default:
		d.Timeout = min(defaultConfirmation, commandTimeout)
	}
	return d
}

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
		s.Durable, s.replicas, s.fsync = replicas != 0 || fsync, replicas, fsync
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
