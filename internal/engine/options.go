package engine

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/keys"
)

// Option changes one lock.
type Option func(*settings)

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

// Refuse makes every use of the lock fail with ErrInvalid, for that reason.
func Refuse(why error) Option { return func(s *settings) { s.wrong = why } }

// TTL is holdfast.TTL.
func TTL(d time.Duration) Option { return func(s *settings) { s.ttl = d } }

// Renew says whether the lease is renewed, at a third of its TTL, until it is
// released. Default true. A lease that is not renewed ends with its TTL.
func Renew(on bool) Option { return func(s *settings) { s.renew = on } }

// MaxHold is holdfast.MaxHold.
func MaxHold(d time.Duration) Option {
	return func(s *settings) {
		if d <= 0 {
			d = -1
		}
		s.maxHold = d
	}
}

// MaxRenewals is holdfast.MaxRenewals.
func MaxRenewals(n int) Option {
	return func(s *settings) { s.maxRenewals = max(n, 0) }
}

// Poll is holdfast.Poll.
func Poll(interval time.Duration) Option {
	return func(s *settings) {
		if interval <= 0 {
			interval = -1
		}
		s.pollInterval = interval
	}
}

// Owner names the holder to people who ask who holds the lock. Default: Config.Identity.
func Owner(name string) Option { return func(s *settings) { s.owner = name } }

// OwnedBy makes a Mutex an owner's, who can acquire it again from any process.
func OwnedBy(owner string) Option {
	return func(s *settings) {
		s.kind, s.limit, s.weight = &owned, everything, 1
		s.owner, s.reentrant = owner, true
	}
}

// Key makes the lock live under exactly this key, instead of one made from
// prefix and name, so that it is shared with programs that use the canonical
// form: SET key token NX PX ttl, and a script that compares and deletes. A key with a
// closing brace that is not a Cluster hash tag's is refused.
func Key(exact string) Option {
	return func(s *settings) { s.kind, s.key = &keyed, exact }
}

// Redisson makes the lock the one that Redisson's getLock(name), an RLock, returns in Java.
// It is kept as Redisson keeps it, in a hash under exactly this key, and each side notifies the
// other when the lock is free. A name with braces that are not a Cluster hash tag's is refused.
func Redisson(name string) Option {
	return func(s *settings) { s.kind, s.key = &redisson, name }
}

// Durability is holdfast.Durability. A timeout of 0 leaves it as it is.
func Durability(replicas int, fsync bool, timeout time.Duration) Option {
	return func(s *settings) {
		s.replicas, s.fsync = replicas, fsync
		if timeout != 0 {
			s.confirmation = timeout
		}
	}
}

// Meta adds a note for people who ask who holds the lock. All notes together,
// with the owner's name, take at most 1 KiB.
func Meta(key, value string) Option {
	return func(s *settings) { s.meta = &metaList{key, value, s.meta} }
}

// Mutex returns the lock of that name, which has one holder at a time, unless the options make it a lock of another kind. It sends nothing:
// with a bad name or option, every use of the lock returns ErrInvalid.
func (c *Client) Mutex(name string, opts ...Option) *Target {
	l := &Target{c: c, set: &c.defaults}
	if len(opts) > 0 {
		l.choose(opts)
	}
	return l.resolved(name)
}

// With returns the lock with other options.
func (l *Target) With(opts ...Option) *Target {
	m := &Target{c: l.c, set: l.set}
	m.choose(opts)
	return m.resolved(l.name())
}

// choose applies options to a copy of the lock's settings.
func (l *Target) choose(opts []Option) {
	own := l.set.copied()
	for _, o := range opts {
		o(own)
	}
	l.set = own
}

// resolved completes the lock of that name, whose options are chosen.
func (l *Target) resolved(name string) *Target {
	if err := l.resolve(name); err != nil {
		l.refuse(fmt.Errorf("%w: lock %.64q: %w", ErrInvalid, name, err))
		l.set.called = name
	} else if l.set != &l.c.defaults {
		l.set = l.c.cache.share(l.set)
	}
	return l
}

// refuse makes every use of the lock return err, unless that is nil.
func (l *Target) refuse(err error) {
	own := l.set.copied()
	own.err = err
	l.set = own
}

func (l *Target) resolve(name string) (err error) {
	if err = keys.CheckName(name); err != nil {
		return err
	}
	s := l.set
	if l.keys, err = s.kind.place(l.c.space, name, s); err != nil {
		return err
	}
	if err := s.check(l.c); err != nil {
		return err
	}
	if s == &l.c.defaults { // which others read
		return nil
	}
	if s.owner == l.c.cfg.Owner && s.meta == nil && s.seenAs != SeenAsElection {
		s.info = l.c.defaults.info
		return nil
	}
	info := l.c.holderInfo(s.owner)
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
	s.info, err = info.Encode()
	return err
}

// check returns an error if the settings make no sense for a lock of that client.
func (s *settings) check(c *Client) error {
	maxTTL, commandTimeout := c.cfg.MaxTTL, c.cfg.CommandTimeout
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
	case s.isDurable() && !c.server.CanConfirm():
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
