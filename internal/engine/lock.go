package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Lock is something that can be acquired. It is immutable and free to make: it holds
// no connection, and nothing is sent before it is used. What is acquired is a Lease.
type Lock struct {
	c    *Client
	name string
	keys keys.Set
	set  *settings // not to be changed: locks share them
	*composition
}

// composition is what a lock has that is made of others: it has no keys of its own.
type composition struct {
	parts  []*Lock // as they were named
	quorum *Quorum // whose servers they are on, or nil
}

// alone is the composition of all locks that are not made of others. Nothing writes to it.
var alone composition

// newLock resolves options. What is wrong with them shows when the lock is used, as
// ErrInvalid.
func (c *Client) newLock(name string, opts []Option) *Lock {
	l := &Lock{c: c, name: name, set: &c.defaults, composition: &alone}
	if len(opts) > 0 {
		l.choose(opts)
	}
	return l.resolved()
}

// With returns the lock with other options.
func (l *Lock) With(opts ...Option) *Lock {
	m := &Lock{c: l.c, name: l.name, set: l.set, composition: &alone}
	m.choose(opts)
	return m.resolved()
}

// choose gives the lock settings of its own.
func (l *Lock) choose(opts []Option) {
	own := *l.set
	for _, o := range opts {
		o(&own)
	}
	l.set = &own
}

func (l *Lock) resolved() *Lock {
	if err := l.resolve(); err != nil {
		l.refuse(fmt.Errorf("%w: lock %.64q: %w", ErrInvalid, l.name, err))
	} else {
		l.set = l.c.cache.share(l.set)
	}
	return l
}

// refuse has the lock meet an error, or nil, when it is used.
func (l *Lock) refuse(err error) {
	own := *l.set
	own.err = err
	l.set = &own
}

func (l *Lock) resolve() (err error) {
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
	case s.pollTries < 0:
		return errors.New("the number of tries of Poll is negative")
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

// Name returns the lock's name.
func (l *Lock) Name() string { return l.name }

// Key returns the lock's key; "" of several locks.
func (l *Lock) Key() string {
	if l.quorum != nil {
		return l.parts[0].keys.Lock
	}
	return l.keys.Lock
}

// Form says what kind of lock it is, as whatis.lua does.
func (l *Lock) Form() string { return l.set.kind.form }

// Limit returns how many permits a semaphore has, or parties a latch or a barrier, as their user says; else 0.
func (l *Lock) Limit() int {
	if !l.set.kind.isShared() || l.set.limit == everything {
		return 0
	}
	return l.set.limit
}

// Now returns about what time it is by the server's clock, once the server has answered something.
func (l *Lock) Now() time.Time { return time.UnixMicro(l.c.server.Time(l.c.slot(l))) }

// Acquire waits for the lock until it has it or ctx ends. Waiters are served in the
// order in which their processes came, and within a process in the order of their
// calls. A free lock costs one round trip; a waiter sleeps until it is handed the
// lock, and polls nobody.
//
// Errors: ctx.Err() as it is when others had the lock until ctx ended, and a *ServerError
// that matches both ctx.Err() and, most often, ErrUnavailable when the server had left
// a request unanswered by then; ErrClosed; ErrInvalid, before any I/O; a *ServerError
// for what the server, or the way to it, does not allow; with Poll, ErrHeld. After
// an error the caller has no lock and no place in the queue; what may still be on
// its way is taken back in the background.
func (l *Lock) Acquire(ctx context.Context) (*Lease, error) {
	l.c.tasks.Begin() // Close waits for what this brings
	defer l.c.tasks.End()
	return l.acquire(ctx, time.Time{})
}

// acquire waits for the lock until ctx ends, or until end if that is not zero.
func (l *Lock) acquire(ctx context.Context, end time.Time) (*Lease, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	if lease, err := l.reenter(ctx); lease != nil || err != nil {
		return lease, err
	}
	switch {
	case l.set.pollInterval > 0:
		return l.poll(ctx, end)
	case l.quorum != nil:
		return l.quorum.acquire(ctx, l, end)
	case l.parts != nil:
		return l.acquireAll(ctx, end)
	}
	return l.c.queueOf(l.queueKey()).acquire(ctx, l, end)
}

// TryAcquire takes the lock if it is free and nobody queues for it. Otherwise it
// returns a *HeldError, which matches ErrHeld; in Strict mode ErrQuarantine, when nothing
// is granted yet. Other errors as those of Acquire.
func (l *Lock) TryAcquire(ctx context.Context) (*Lease, error) {
	l.c.tasks.Begin()
	defer l.c.tasks.End()
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	if lease, err := l.reenter(ctx); lease != nil || err != nil {
		return lease, err
	}
	return l.try(ctx)
}

// Do acquires the lock, calls f and releases the lock, also when f panics. The
// context that f gets is made from ctx and ends, with a cause, when the lease does: at
// its deadline at the latest, which is before anybody else can have the lock.
// Do returns f's error joined with that of the release: one that matches ErrLost
// when the lease was lost while f ran.
func (l *Lock) Do(ctx context.Context, f func(ctx context.Context, lease *Lease) error) error {
	lease, err := l.Acquire(ctx)
	if err != nil {
		return err
	}
	return lease.do(ctx, func(ctx context.Context) error { return f(ctx, lease) })
}

// ready refuses what cannot work before any I/O, and learns what the server is.
func (l *Lock) ready(ctx context.Context) error {
	if l.set.err != nil {
		return l.set.err
	}
	if l.quorum == nil && l.c.isClosing() {
		return exec.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if l.quorum != nil {
		return l.quorum.ready(ctx, l)
	}
	if err := l.c.server.Connect(ctx, l.name); err != nil {
		return err
	}
	one := l
	if l.parts != nil {
		one = l.parts[0]
	}
	l.c.checkOnce.Do(func() { l.c.tasks.Run(func() { l.c.checkServer(one) }) })
	return nil
}

// alike reports whether holders of l and m cannot be told apart, but by their tokens.
func (l *Lock) interchangeable(m *Lock) bool {
	if l == m {
		return true
	}
	return l.c == m.c && l.keys == m.keys && (l.set == m.set || l.set.interchangeable(m.set))
}

func (s *settings) interchangeable(t *settings) bool {
	a, b := *s, *t
	a.meta, b.meta = nil, nil // which info has
	return a == b
}

// lineKey names the line in which those wait who are in each other's way: not those of other
// owners with the same name, which are the server's business, or the one who has the lock
// would wait behind them for itself.
func (l *Lock) queueKey() string {
	if l.set.kind.byOwner {
		return l.keys.Queue + "\n" + l.set.owner
	}
	return l.keys.Queue
}

// try takes the lock if it is free, without a place in the local line.
func (l *Lock) try(ctx context.Context) (*Lease, error) {
	switch {
	case l.quorum != nil:
		return l.quorum.try(ctx, l)
	case l.parts != nil:
		return l.tryAll(ctx)
	}
	a := l.newAttempt()
	got, err := a.begin(ctx, modeTry, 1)
	if err != nil {
		a.abandon()
		return nil, err
	}
	switch got := got.(type) {
	case *hold:
		l.noteUnqueued(got)
		return got.begin(ctx), nil
	case heldByOther:
		a.abandon()
		return nil, &HeldError{Name: l.name, Holder: got.holder}
	case quarantined:
		a.abandon()
		return nil, l.c.quarantineError("acquire", l.name, got)
	}
	a.abandon()
	return nil, l.malformed("acquire")
}

// replaces ends the grant that this process had of the lock before, if it has not noticed that it was lost, and
// notes the one that it has now.
func (l *Lock) noteUnqueued(h *hold) {
	if l.set.kind.isShared() {
		return
	}
	key := l.queueKey()
	l.c.mu.Lock()
	wq, tried := l.c.queues.Get(key), l.c.unqueued.Get(key)
	l.c.unqueued.Set(key, h)
	h.unqueued = true
	l.c.mu.Unlock()
	tried.replacedBy(h)
	if wq != nil {
		wq.mu.Lock()
		defer wq.mu.Unlock()
		wq.held.replacedBy(h)
	}
}

// poll tries at an interval.
func (l *Lock) poll(ctx context.Context, end time.Time) (*Lease, error) {
	limit, stop := timeUp(end)
	defer stop()
	for n := 1; ; n++ {
		asked := time.Now()
		lease, err := l.try(ctx)
		if n > 1 && err != nil && ctx.Err() != nil && !l.c.server.IsSilent(asked) {
			if isOver(end) {
				return nil, errTimeUp
			}
			return nil, ctx.Err() // it was answered before
		}
		if !errors.Is(err, ErrHeld) && !errors.Is(err, exec.ErrQuarantine) || n == l.set.pollTries {
			return lease, err
		}
		select {
		case <-time.After(jitter(l.set.pollInterval, 10)):
		case <-limit:
			return nil, err
		case <-ctx.Done():
			if isOver(end) {
				return nil, err
			}
			return nil, ctx.Err()
		case <-l.c.closing:
			return nil, exec.ErrClosed
		}
	}
}

// jitter returns d, up to so many percent longer or shorter.
func jitter(d time.Duration, percent int) time.Duration {
	spread := d * time.Duration(percent) / 100
	if spread <= 0 {
		return d
	}
	return d - spread + rand.N(2*spread)
}

func (l *Lock) malformed(op string) error {
	return &exec.Failure{Op: op, Name: l.name, Server: l.c.server.Addr(), Err: wire.ErrMalformed}
}

// Holder is who holds a lock. Owner, Host and Meta are what its program wrote, or
// whoever can write the key: escape them before you show them.
type Holder struct {
	Name  string // the lock's
	Form  string // of the lock: see Lock.Form
	Key   string // the lock's key
	Owner string // Owner or Config.Owner; "" when Foreign
	Host  string
	PID   int
	Meta  map[string]string
	// Fence is that of the grant by the server. Goroutines of the holder's process
	// that passed the lock on among themselves have higher ones. Of a Quorum it is one
	// node's count, and not the lease's Token.
	Fence   uint64
	Since   time.Time     // by the server's clock
	TTL     time.Duration // what is left; negative when the key has no expiry
	Waiters int           // processes in the queue; not this one, if all its waiters have given up
	Foreign bool          // another program holds it: only Key, TTL and Waiters are known
	// Weight is how many permits of a semaphore it has; of a read-write lock, 1 is a
	// reader and more a writer. 0 for a mutex.
	Weight int
}

// Holder says who holds the lock, one of them if there are several: ErrNotHeld if nobody
// does. It changes nothing.
func (l *Lock) Holder(ctx context.Context) (Holder, error) {
	switch {
	case l.parts != nil:
		all, err := l.Holders(ctx)
		if err != nil {
			return Holder{}, err
		}
		if len(all) == 0 {
			return Holder{}, ErrNotHeld
		}
		return all[0], nil
	case l.set.kind.isShared():
		return l.someHolder(ctx)
	}
	if err := l.ready(ctx); err != nil {
		return Holder{}, err
	}
	l.awaitDepartures(ctx)
	a, _, err := l.c.call(ctx, request{
		op: "inspect", lock: l, script: script.Holder,
		args: []string{l.flags(""), ""},
	})
	if err != nil {
		return Holder{}, err
	}
	switch a.Word {
	case "free":
		return Holder{}, ErrNotHeld
	case "held":
		return l.parseHolder(&a.Reply)
	}
	return Holder{}, l.malformed("inspect")
}

// Holders says who holds the lock: nobody, or, of a mutex, one; of a semaphore or a
// read-write lock, all that do, in no order; of Multi, who holds each of its locks. It changes
// nothing. Many holders are asked for some hundreds at a time, so that the server has time
// for others: of those that come or go meanwhile, some are told and some are not.
func (l *Lock) Holders(ctx context.Context) ([]Holder, error) {
	switch {
	case l.quorum != nil:
		return l.quorum.holders(ctx, l)
	case l.parts != nil:
		return l.holdersOfParts(ctx)
	}
	if !l.set.kind.isShared() {
		h, err := l.Holder(ctx)
		if errors.Is(err, ErrNotHeld) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return []Holder{h}, nil
	}
	return l.allHolders(ctx)
}

// awaitDepartures has those of this client left the queue that have given up: nobody is to be counted as
// waiting whose Acquire has returned.
func (l *Lock) awaitDepartures(ctx context.Context) {
	l.c.departing.wait(ctx, l.keys.Queue, max(500*time.Millisecond, 8*l.c.server.RTT.Mean()))
}

// IsHeld reports whether anybody holds the lock.
func (l *Lock) IsHeld(ctx context.Context) (bool, error) {
	_, err := l.Holder(ctx)
	if errors.Is(err, ErrNotHeld) {
		return false, nil
	}
	return err == nil, err
}

// parseHolder reads what follows in a "held" reply.
func (l *Lock) parseHolder(r *wire.Reply) (Holder, error) {
	_, h, err := l.parseHolding(r)
	return h, err
}

// parseHolding is parseHolder that also tells the holder's token; "" of another program.
func (l *Lock) parseHolding(r *wire.Reply) (token string, h Holder, err error) {
	var pttl, waiters int64
	if err := r.Ints(&pttl, &waiters); err != nil {
		return "", Holder{}, l.malformed("inspect")
	}
	v, _ := wire.ParseValue(r.Rest())
	return v.Token, l.holder(duration(pttl), int(waiters), r.Rest()), nil
}

// holder makes a Holder of a lock's value.
func (l *Lock) holder(ttl time.Duration, waiters int, value string) Holder {
	h := Holder{Name: l.name, Form: l.set.kind.form, Key: l.keys.Lock, TTL: ttl, Waiters: waiters}
	v, ours := wire.ParseValue(value)
	if !ours {
		h.Foreign = true
		return h
	}
	h.Owner, h.Host, h.PID, h.Meta = v.Info.Owner, v.Info.Host, v.Info.PID, maps.Clone(v.Info.Meta)
	h.Fence, h.Since = v.Fence, time.UnixMilli(v.Granted)
	return h
}

// flags returns a script's flags: its own mode, and those of prelude.lua.
func (l *Lock) flags(mode string) string {
	if l.c.server.InCluster() {
		mode += "c"
	}
	mode += l.set.kind.flags
	return mode + l.c.strictFlags()
}
