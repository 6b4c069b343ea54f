package engine

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// What locks are called that the server does not tell from others. A Status tells an election by what its leader or first candidate
// says of itself.
const (
	SeenAsMulti    = "multi"
	SeenAsOnce     = "once"
	SeenAsElection = "election"
	SeenAsQuorum   = "quorum"
)

// settings are a lock's resolved options. Goroutines whose locks have interchangeable settings can pass the lock on among
// themselves.
type settings struct {
	*terms // only those of copied settings may be changed
	owner  string
	key    string    // exact key, or ""
	meta   *metaList // with which info was made
	info   string    // of the holder, as it stands in the lock's value
}

// terms are the settings that are the same for most locks of a program. They are comparable.
type terms struct {
	ttl          time.Duration
	renew        bool
	maxHold      time.Duration // 0: no bound
	maxRenewals  int           // < 0: no bound; not 0
	pollInterval time.Duration // 0: wait for notifications
	reentrant    bool
	maxDepth     int           // 0: no bound
	nodeTimeout  time.Duration // of a quorum's lock, 0: by the TTL
	apart        bool          // each lease is granted by the server: none is passed on within the process
	seenAs       string        // the kind that observers are told, if it is not the server's
	called       string        // the name of what has none in its keys; most often ""

	kind   *kind
	limit  int // of the holders' weights in all, if several may hold the lock
	weight int

	replicas     int
	fsync        bool
	confirmation time.Duration // how long to wait for replicas or disks; 0: the default

	wrong error // what Refuse said
	err   error // what is wrong with the lock's name or options
}

// copied returns a copy that can be changed.
func (s *settings) copied() *settings {
	own, terms := *s, *s.terms
	own.terms = &terms
	return &own
}

func (s *settings) interchangeable(t *settings) bool {
	return (s.terms == t.terms || *s.terms == *t.terms) && s.owner == t.owner && s.key == t.key && s.info == t.info // which has the notes
}

// settingsCache keeps the settings of recent locks so that new locks can share them: a program may make a lock for each of a
// million leases. Settings with notes or a key differ from lock to lock in most programs. They are kept apart, because they
// would push out all others.
type settingsCache struct {
	terms       latest[terms]
	usual, rare latest[settings]
}

// share returns recent settings that are interchangeable with s, or else s itself, which must not change from then on.
func (c *settingsCache) share(s *settings) *settings {
	s.terms = c.terms.share(s.terms, func(a, b *terms) bool { return *a == *b })
	if s.meta != nil || s.key != "" {
		return c.rare.share(s, (*settings).interchangeable)
	}
	return c.usual.share(s, (*settings).interchangeable)
}

// latest keeps the values that share returned most recently.
type latest[T any] struct {
	values [8]atomic.Pointer[T]
	next   atomic.Uint32
}

// share returns one of the latest values that is the same as v, or v.
func (l *latest[T]) share(v *T, same func(a, b *T) bool) *T {
	for i := range l.values {
		if known := l.values[i].Load(); known != nil && same(known, v) {
			return known
		}
	}
	l.values[l.next.Add(1)%uint32(len(l.values))].Store(v)
	return v
}

// metaList is the list of the notes that Meta added, latest first.
type metaList struct {
	key, value string
	next       *metaList
}

// describe returns how the server tells people of the holder, a process on that machine.
func (s *settings) describe(host string) (string, error) {
	info := wire.Info{Owner: s.owner, Host: host, PID: os.Getpid()}
	if s.seenAs == SeenAsElection {
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
	return info.Encode()
}

// isOrdinary reports whether describe says no more than an owner's name that is the client's.
func (s *settings) isOrdinary(owner string) bool {
	return s.owner == owner && s.meta == nil && s.seenAs != SeenAsElection
}

// inheriting returns the settings of a lease that follows, without a gap, one with the settings from. It has the stricter bounds of
// both, and from's owner and notes, which the server keeps.
func (s *settings) inheriting(from *settings) *settings {
	own := s.copied()
	own.renew = own.renew && from.renew
	if own.maxHold == 0 || from.maxHold > 0 && from.maxHold < own.maxHold {
		own.maxHold = from.maxHold
	}
	if own.maxRenewals < 0 || from.maxRenewals >= 0 && from.maxRenewals < own.maxRenewals {
		own.maxRenewals = from.maxRenewals
	}
	own.owner, own.meta, own.info = from.owner, from.meta, from.info
	return own
}

// term returns how long the server is asked to keep the lock.
func (s *settings) term() time.Duration {
	if s.maxHold > 0 {
		return min(s.ttl, s.maxHold)
	}
	return s.ttl
}

// unbounded reports whether a lease is renewed for as long as it is held.
func (s *settings) unbounded() bool { return s.renew && s.maxHold == 0 && s.maxRenewals < 0 }

// passable reports whether a lease may be passed on within the process. A lease with a bound of its own may not: the bound belongs to
// one holder. Neither may a shared lock, since fences reserved for this process would not rise from grant to grant while other
// processes are granted the lock, too.
func (s *settings) passable() bool { return s.kind.exclusive && s.unbounded() && !s.apart }

// carriable reports whether a lease can be detached. The lease of a job or a term cannot: it belongs to the running function.
func (s *settings) carriable() bool {
	// mutants: detach-apart
	return s.kind.carried && !s.apart
}

// nodeWait is how long to wait for a node of a quorum whose round trip is short.
func (s *settings) nodeWait() time.Duration {
	if s.nodeTimeout > 0 {
		return s.nodeTimeout
	}
	return min(max(s.ttl/200, 5*time.Millisecond), 50*time.Millisecond)
}

// slowNodeGrace is how long to wait for the other nodes once a majority, asked at begun, has answered.
func (s *settings) slowNodeGrace(begun time.Time) time.Duration {
	return max(time.Since(begun), s.nodeWait()/10, time.Millisecond)
}

// minTTL leaves some of a lease after drift has taken its 2 ms.
const minTTL = 5 * time.Millisecond

// check returns an error if the settings make no sense for a client with these limits.
func (s *settings) check(maxTTL, commandTimeout time.Duration, canConfirm func() bool) error {
	switch {
	case s.wrong != nil:
		return s.wrong
	case s.ttl < minTTL:
		return fmt.Errorf("a TTL of %s is not possible; at least %s is needed", s.ttl, minTTL)
	case s.ttl > maxTTL:
		return fmt.Errorf("a TTL of %s is not allowed; at most %s is (Config.MaxTTL)", s.ttl, maxTTL)
	case s.maxHold != 0 && s.maxHold < minTTL:
		return fmt.Errorf("a MaxHold below %s is not possible", minTTL)
	case s.maxRenewals == 0:
		return errors.New("a MaxRenewals below 1 is not possible; NoRenew renews never")
	case s.pollInterval != 0 && s.pollInterval < time.Millisecond:
		return errors.New("the interval of Poll is below 1ms")
	case s.maxDepth < 0:
		return errors.New("a MaxDepth below 1 is not possible")
	case s.maxDepth > 0 && !s.reentrant:
		return errors.New("MaxDepth has a meaning for Reentrant locks only")
	case s.nodeTimeout != 0 && !s.kind.isVote:
		return errors.New("NodeTimeout has a meaning for a lock of a Quorum only")
	case s.nodeTimeout < 0 || s.nodeTimeout > s.ttl/4:
		return fmt.Errorf("a NodeTimeout of %s is not possible; 1ms to a quarter of the TTL, %s, is", s.nodeTimeout, s.ttl)
	case s.owner == "":
		return errors.New("the identity is empty")
	case s.replicas < 0:
		return errors.New("the number of replicas is negative")
	case s.confirmation != 0 && (s.confirmation < time.Millisecond || s.confirmation > commandTimeout):
		return fmt.Errorf("the timeout of Durability is %s; it must be between 1ms and %s (Config.CommandTimeout)", s.confirmation, commandTimeout)
	case s.isDurable() && !canConfirm():
		return errors.New("Durability is not possible: this driver cannot wait for replicas")
	case s.kind.check != nil:
		return s.kind.check(s)
	}
	return nil
}

// defaultConfirmation bounds the wait for replicas, defaultSync the wait for disks. With appendfsync
// everysec a server starts to write to its disk once a second, and notices up to 0.1 s late that
// the write is done. The whole call has CommandTimeout, and its reply comes up to 0.1 s after the
// wait is over.
const (
	defaultConfirmation = time.Second
	defaultSync         = 1700 * time.Millisecond
)

// isDurable reports whether replicas or disks have to confirm writes.
func (s *settings) isDurable() bool { return s.replicas != 0 || s.fsync }

// durability returns what the settings demand of a write that may take commandTimeout.
func (s *settings) durability(commandTimeout time.Duration) driver.Durability {
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
