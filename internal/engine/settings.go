package engine

import (
	"errors"
	"fmt"
	"time"
)

// newLock resolves options. What is wrong with them shows when the lock is used, as
// ErrInvalid.
func (c *Client) newLock(name string, opts []Option) *target {
	l := &target{c: c, name: name, set: &c.defaults}
	if len(opts) > 0 {
		l.choose(opts)
	}
	return l.resolved()
}

// With returns the lock with other options.
func (l *target) With(opts ...Option) *target {
	m := &target{c: l.c, name: l.name, set: l.set}
	m.choose(opts)
	return m.resolved()
}

// choose gives the lock settings of its own.
func (l *target) choose(opts []Option) {
	own := *l.set
	for _, o := range opts {
		o(&own)
	}
	l.set = &own
}

func (l *target) resolved() *target {
	if err := l.resolve(); err != nil {
		l.refuse(fmt.Errorf("%w: lock %.64q: %w", ErrInvalid, l.name, err))
	} else {
		l.set = l.c.cache.share(l.set)
	}
	return l
}

// refuse has the lock meet an error, or nil, when it is used.
func (l *target) refuse(err error) {
	own := *l.set
	own.err = err
	l.set = &own
}

func (l *target) resolve() (err error) {
	if _, err = l.c.space.Name(l.name); err != nil {
		return err
	}
	s := l.set
	switch {
	case s.owned && s.kind == &mutex && s.as == nil:
		s.kind, s.limit, s.weight = &owned, everything, 1
	case s.as != nil && s.kind != &mutex:
		return errors.New("Key and Redisson have a meaning for a Mutex only: no other program knows how this lock is kept")
	case s.as != nil:
		s.kind = s.as
	}
	if l.keys, err = s.kind.place(l.c.space, l.name, s); err != nil {
		return err
	}
	if err := s.check(l.c.cfg.MaxTTL); err != nil {
		return err
	}
	if err := s.kind.check(s); err != nil {
		return err
	}
	if err := s.checkDurability(l.c.cfg.CommandTimeout); err != nil {
		return err
	}
	if s.isDurable() && !l.c.server.CanConfirm() {
		return errors.New("MinReplicas and Fsync are not possible: this driver cannot wait for replicas")
	}
	if s == &l.c.defaults {
		return nil
	}
	if s.owner == l.c.cfg.Owner && s.meta == nil {
		s.info = l.c.defaults.info
		return nil
	}
	info := l.c.holderInfo(s.owner)
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

// check refuses what makes no sense for any lock.
func (s *settings) check(maxTTL time.Duration) error {
	switch {
	case s.wrong != nil:
		return s.wrong
	case s.ttl < minTTL:
		return fmt.Errorf("a TTL of %s is not possible; at least %s is needed", s.ttl, minTTL)
	case s.ttl > maxTTL:
		return fmt.Errorf("a TTL of %s is not allowed; at most %s is (Config.MaxTTL)", s.ttl, maxTTL)
	case s.maxHold != 0 && s.maxHold < minTTL:
		return fmt.Errorf("a MaxHold below %s is not possible", minTTL)
	case s.pollInterval != 0 && s.pollInterval < time.Millisecond:
		return errors.New("the interval of Poll is below 1ms")
	case s.maxDepth < 0:
		return errors.New("a MaxDepth below 1 is not possible")
	case s.maxDepth > 0 && !s.reentrant:
		return errors.New("MaxDepth has a meaning for Reentrant locks only")
	case s.maxTries < 0:
		return errors.New("MaxTries below 1 is not possible")
	case s.maxTries > 0 && !s.once:
		return errors.New("MaxTries has a meaning for Once only")
	case s.once && s.reentrant:
		return errors.New("Reentrant has no meaning for Once: within a run there is no other")
	case s.apart && s.reentrant:
		return errors.New("Reentrant has no meaning for an Election: within a term there is no other")
	case s.nodeTimeout != 0 && s.kind != &nodeMutex:
		return errors.New("NodeTimeout has a meaning for a lock of a Quorum only")
	case s.nodeTimeout < 0 || s.nodeTimeout > s.ttl/4:
		return fmt.Errorf("a NodeTimeout of %s is not possible; 1ms to a quarter of the TTL, %s, is", s.nodeTimeout, s.ttl)
	case s.owner == "":
		return errors.New("the owner is empty")
	}
	return nil
}
