// Package faults tests one fault at a time on real servers: replies are lost, requests come late or twice,
// servers refuse, stall and forget.
package faults

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// impatient is for clients that give up soon, and for faults that last until then. Nothing that a client sends
// is carried out later than the sum of its timeouts plus a second. They do not give up so soon that a machine which stands
// still for some seconds keeps them from their first answer.
var impatient = holdfast.Config{CommandTimeout: 2 * time.Second, RetryTimeout: 8 * time.Second}

// steady is for requests that are not answered. It tries again soon, so that the fault can be short, but not so
// soon that a machine which stands still for two seconds causes faults of its own.
var steady = holdfast.Config{CommandTimeout: 3 * time.Second, RetryTimeout: lasting()}

// patient is for connections that are cut, which a client notices at once.
var patient = holdfast.Config{CommandTimeout: 4 * time.Second, RetryTimeout: lasting()}

// through returns a client whose connections go through p. All scripts are loaded, including those that it does not need yet.
func through(t *testing.T, p *proxy.Proxy, cfg holdfast.Config, change ...func(*redis.Options)) *holdfast.Client {
	t.Helper()
	o := &redis.Options{Addr: p.Addr()}
	for _, f := range change {
		f(o)
	}
	c := backend.Open(t, &cfg, o)
	backend.Eventually(t, "the client is warm", func() bool { // an impatient one may need several tries
		return c.Mutex("warm-up").Do(t.Context(), func(ctx context.Context, lease *holdfast.Lease) error {
			return lease.Extend(ctx, time.Second)
		}) == nil
	})
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr()})
	defer rdb.Close()
	for _, w := range []way{native, single, exact, shared} {
		for _, s := range []script.Script{w.acquire, w.release, w.renew} {
			expect.OK(t, rdb.ScriptLoad(t.Context(), s.Source).Err())
		}
	}
	return c
}

// way is how a client acquires and releases mutexes that nobody waits for: natively or by script.
type way struct {
	name                    string
	native                  bool
	acquire, release, renew script.Script // acquire is not for a native way
}

var (
	native = way{"natively", true, script.Acquire(), script.BatchRelease(), script.BatchRenew()}
	single = way{"by script", false, script.Acquire(), script.Release(), script.BatchRenew()}
	exact  = way{"of Redisson's", false, script.Acquire(), script.Release(), script.Renew()}
	shared = way{"", false, script.ShareAcquire(), script.ShareRelease(), script.ShareRenew()}
)

// eachWay runs f with a client through p in each of the ways.
func eachWay(t *testing.T, p *proxy.Proxy, cfg holdfast.Config, f func(t *testing.T, c *holdfast.Client, w way)) {
	t.Helper()
	for _, w := range []way{native, single} {
		t.Run(w.name, func(t *testing.T) {
			cfg.ViaClient = !w.native
			f(t, through(t, p, cfg), w)
		})
	}
}

// form is a kind of lock under a name, and how its requests are sent.
type form struct {
	way
	enqueue     script.Script
	key         string // the lock's
	lock, rival lockOf // while rival is held, lock is not granted
}

// namedKey is the key of the lock "a" of any kind.
const namedKey = "holdfast:{a}"

func (w form) isMutex() bool { return w.enqueue == script.Acquire() && w.key == namedKey }

type lockOf func(c *holdfast.Client, opts ...holdfast.Option) *holdfast.Lock

// forms returns all kinds of locks that are one lock on one server. Elections and jobs hold a mutex.
func forms() []form {
	mutex := func(more ...holdfast.Option) lockOf {
		return func(c *holdfast.Client, opts ...holdfast.Option) *holdfast.Lock {
			return c.Mutex("a", holdfast.Options(more...), holdfast.Options(opts...))
		}
	}
	redisson := func(more ...holdfast.Option) lockOf {
		return func(c *holdfast.Client, opts ...holdfast.Option) *holdfast.Lock {
			return c.RedissonMutex("{a}", holdfast.Options(more...), holdfast.Options(opts...))
		}
	}
	owner := func(id string) lockOf {
		return func(c *holdfast.Client, opts ...holdfast.Option) *holdfast.Lock {
			return c.OwnerMutex("a", id, holdfast.Options(opts...))
		}
	}
	reader := func(c *holdfast.Client, opts ...holdfast.Option) *holdfast.Lock {
		return c.RWMutex("a").Reader(holdfast.Options(opts...))
	}
	writer := func(c *holdfast.Client, opts ...holdfast.Option) *holdfast.Lock {
		return c.RWMutex("a").Writer(holdfast.Options(opts...))
	}
	permit := func(c *holdfast.Client, opts ...holdfast.Option) *holdfast.Lock {
		return c.Semaphore("a", 1, holdfast.Options(opts...)).Permits(1)
	}
	all := []form{
		{native, script.Acquire(), namedKey, mutex(), mutex(holdfast.Identity("rival"))},
		{single, script.Acquire(), namedKey, mutex(), mutex(holdfast.Identity("rival"))},
		{exact, script.Acquire(), "{a}", redisson(), redisson(holdfast.Identity("rival"))},
		{shared, script.ShareAcquire(), namedKey, reader, writer},
		{shared, script.ShareAcquire(), namedKey, writer, reader},
		{shared, script.ShareAcquire(), namedKey, permit, permit},
		{shared, script.ShareAcquire(), namedKey, owner("me"), owner("you")},
	}
	for i, name := range []string{"a reader's", "a writer's", "a permit", "an owner's"} {
		all[i+3].name = name
	}
	return all
}

// eachForm runs f for each kind of lock, on a server of its own, with a client whose connections go through p.
func eachForm(t *testing.T, cfg holdfast.Config, f func(t *testing.T, b *place, p *proxy.Proxy, c *holdfast.Client, w form)) {
	t.Helper()
	eachServer(t, forms(), func(t *testing.T, b *place, w form) {
		p := proxy.New(t, b.Server.Addr())
		cfg := cfg
		cfg.ViaClient = !w.native
		f(t, b, p, b.through(t, p, cfg), w)
	})
}

// eachKind is eachForm without the proxy.
func eachKind(t *testing.T, f func(t *testing.T, b *place, w form), opts ...server.Option) {
	t.Helper()
	eachServer(t, forms(), func(t *testing.T, b *place, w form) {
		b.ViaClient = !w.native
		f(t, b, w)
	}, opts...)
}

// eachMutex runs f on every real server, all at once, with clients that acquire mutexes natively, and with those that do so by script.
func eachMutex(t *testing.T, f func(t *testing.T, b *backend.Backend), opts ...server.Option) {
	t.Helper()
	t.Parallel()
	for _, w := range []way{native, single} {
		t.Run(w.name, func(t *testing.T) {
			backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
				b.ViaClient = !w.native
				f(t, b)
			}, opts...)
		})
	}
}

// eachServer runs f with a server for each form. The mutex, and in a soak every form, runs on every real server; the others run on one.
func eachServer(t *testing.T, forms []form, f func(t *testing.T, b *place, w form), opts ...server.Option) {
	t.Helper()
	t.Parallel()
	for _, w := range forms {
		servers := server.Binaries(t)
		if !w.isMutex() && !soak.Long() {
			servers = []server.Binary{server.One(t)}
		}
		for _, bin := range servers {
			t.Run(w.name+"/"+bin.Name, func(t *testing.T) {
				t.Parallel()
				f(t, newPlace(t, bin, opts...), w)
			})
		}
	}
}

// refused reports whether the reply says that a late copy did nothing: it has the lock's number for a native release,
// 0 for a command, and word for a script. It is not for native acquires, which nothing refuses.
func (w way) refused(reply, word string) bool {
	if !w.native {
		return strings.Contains(reply, word)
	}
	return strings.HasSuffix(reply, "freed 1\r\n") || reply == ":0\r\n"
}

// refuses requires that a late copy or a lost request was refused.
func (w way) refuses(t *testing.T, reply, word string) {
	t.Helper()
	if !w.refused(reply, word) {
		t.Errorf("the reply is %q", reply)
	}
}

// granted reports whether the reply says that the one lock is granted.
func (w way) granted(reply string) bool {
	if !w.native {
		return strings.Contains(reply, "granted")
	}
	return strings.Contains(reply, "*4\r\n+OK\r\n")
}

// acquiring matches an acquire of a lock in this way.
func (w way) acquiring(name string) proxy.Match {
	if !w.native {
		return running(w.acquire, name)
	}
	return proxy.Containing("MULTI", "{"+name+"}", "PXAT")
}

// releasing matches a release of a mutex in this way. If the server has a command for it, a single release does
// not need the script for batches.
func (w way) releasing(name string) proxy.Match {
	if !w.native {
		return running(w.release, name)
	}
	return either(running(w.release, name), proxy.Containing("DELIFEQ", "{"+name+"}"))
}

func either(a, b proxy.Match) proxy.Match {
	return func(request []byte) bool { return a(request) || b(request) }
}

// running matches a script's execution on a lock. A new connection sends the source of some scripts first.
func running(s script.Script, name string) proxy.Match {
	return either(proxy.Containing(s.SHA1, "{"+name+"}"), proxy.Containing(s.Source, "{"+name+"}"))
}

// within checks that a holder does not believe in more than the server grants: its deadline is not past the expiry of the key.
func within(t *testing.T, rdb *redis.Client, lease *holdfast.Lease) {
	t.Helper()
	deadline := lease.Deadline()
	pttl := expect.Of(rdb.PTTL(t.Context(), "holdfast:{"+lease.Name()+"}").Result()).OK(t)
	notPast(t, lease, deadline, pttl)
}

// notPast requires that the deadline is not past the expiry of a lock that lasts for pttl from now.
func notPast(t *testing.T, lease *holdfast.Lease, deadline time.Time, pttl time.Duration) {
	t.Helper()
	after := time.Now()
	if lease.Err() == nil && deadline.After(after.Add(pttl)) {
		t.Errorf("the deadline is %s past the key's expiry", deadline.Sub(after.Add(pttl)))
	}
}

// within checks the same for a lock of that form.
func (w form) within(t *testing.T, b *place, lease *holdfast.Lease) {
	t.Helper()
	deadline := lease.Deadline()
	h, err := backend.HolderOf(t.Context(), w.lock(b.Client(t, nil)))
	if lease.Err() != nil {
		return // the holder knows of the loss; its release reports it
	}
	if err != nil || h.Foreign || h.TTL <= 0 {
		t.Fatalf("the holder is %+v, %v", h, err)
	}
	notPast(t, lease, deadline, h.TTL)
}

// Fault: The server carries out a request, and its reply is lost. A repeated acquire, enqueue or renewal recognizes
// what it has; a repeated release is ambiguous, not a loss; nothing is left behind.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	for what, after := range map[string]proxy.After{"connection cut": proxy.Cut, "silence": proxy.Hang} {
		t.Run(what, func(t *testing.T) {
			eachForm(t, steady, func(t *testing.T, b *place, p *proxy.Proxy, c *holdfast.Client, w form) {
				if !w.native {
					seldom(t, after)
				}
				lostReplies(t, b, p, c, w, after)
			})
		})
	}
}

// seldom leaves a test with silence to the nightly ones: each request waits for CommandTimeout.
func seldom(t *testing.T, after proxy.After) {
	t.Helper()
	if after == proxy.Hang && testing.Short() {
		t.Skip("SKIPPED: part of make nightly")
	}
}

func lostReplies(t *testing.T, b *place, p *proxy.Proxy, c *holdfast.Client, w form, after proxy.After) {
	t.Run("acquire", func(t *testing.T) {
		trap := p.LoseReply(w.acquiring("a"), after)
		lease := backend.Acquire(t, w.lock(c))
		if lost := trap.Reply(t); !w.granted(lost) {
			t.Fatalf("the lost reply was %q", lost)
		}
		w.within(t, b, lease)
		backend.Release(t, lease)
		b.Cleaned(t)
	})
	t.Run("enqueue", func(t *testing.T) {
		seldom(t, after)
		lease := backend.Acquire(t, w.rival(b.Client(t, nil)))
		trap := p.LoseReply(proxy.Containing(w.enqueue.SHA1, "{a}", "holdfast:c:"), after)
		leases := backend.Start(t, w.lock(c))
		expect.Contains(t, "the lost reply", trap.Reply(t), "queued")
		backend.Waiters(t, w.lock(c), 1)
		backend.Release(t, lease)
		lease = backend.Receive(t, leases)
		w.within(t, b, lease)
		backend.Release(t, lease)
		b.Cleaned(t)
	})
	t.Run("renew", func(t *testing.T) {
		lease := backend.Acquire(t, w.lock(c, holdfast.TTL(9*time.Second)))
		first := lease.Deadline()
		trap := p.LoseReply(running(w.renew, "a"), after)
		trap.Wait(t)
		backend.Eventually(t, "another renewal is answered", func() bool { return lease.Deadline().After(first) })
		w.within(t, b, lease)
		backend.Release(t, lease)
		b.Cleaned(t)
	})
	t.Run("release", func(t *testing.T) {
		lease := backend.Acquire(t, w.lock(c))
		if !w.native {
			defer waiterServed(t, b, w)()
		}
		trap := p.LoseReply(w.releasing("a"), after)
		err := lease.Release(t.Context())
		trap.Wait(t)
		expect.ErrBut(t, "Release, repeated after a lost reply", err, holdfast.ErrAmbiguous, holdfast.ErrLost)
	})
	t.Run("break", func(t *testing.T) {
		seldom(t, after)
		lease, other := backend.Acquire(t, w.lock(b.Client(t, nil))), w.rival(b.Client(t, nil))
		leases := backend.Start(t, other)
		backend.Waiters(t, other, 1)
		breaks := script.Break()
		if w.enqueue.Name == script.ShareAcquire().Name {
			breaks = script.ShareBreak()
		}
		rdb := b.Redis(t)
		expect.OK(t, rdb.ScriptLoad(t.Context(), breaks.Source).Err())
		trap := p.LoseReply(proxy.Containing(breaks.SHA1), after)
		in := inspect.New(c)
		seen := expect.Of(backend.HolderOf(t.Context(), w.lock(c))).OK(t)
		broken, err := in.Break(t.Context(), seen, t.Name())
		if lost := trap.Reply(t); !strings.Contains(lost, "broken ") || err != nil {
			t.Fatalf("the lost reply was %q; Break: %v", lost, err)
		}
		expect.Fails(t, "a second Break", expect.ErrOf(in.Break(t.Context(), seen, "")))
		onRecord := 0
		for r, err := range in.History(t.Context()) {
			expect.OK(t, err)
			if r.Reason == t.Name() {
				if onRecord++; r.Fence != broken.Fence {
					t.Errorf("on record is %+v, told was %+v", r, broken)
				}
			}
		}
		expect.Equal(t, "how often the break is on record", onRecord, 1)
		expect.Err(t, "Release of what was broken", lease.Release(t.Context()), holdfast.ErrLost)
		backend.Release(t, backend.Receive(t, leases))
		// The tombstone of the broken holder would last for a minute, and the record longer.
		rdb.Del(t.Context(), "holdfast:journal")
		backend.Eventually(t, "nothing but tombstones is left", func() bool {
			_, ok := buried(t, rdb, b.Keys(t))
			return ok
		})
		rdb.Del(t.Context(), append(b.Keys(t), "none")...)
	})
	if !w.native {
		return
	}
	// The native release leaves the lock to its waiter, and nobody is told.
	t.Run("release of a lock that is waited for", func(t *testing.T) {
		seldom(t, after)
		lease := backend.Acquire(t, w.lock(c))
		defer waiterServed(t, b, w)()
		trap := p.LoseReply(w.releasing("a"), after)
		backend.Release(t, lease)
		w.refuses(t, trap.Reply(t), "")
	})
}

// waiterServed makes another process wait for the lock. It returns a function that requires that the waiter is served, and leaves nothing.
func waiterServed(t *testing.T, b *place, w form) func() {
	t.Helper()
	l := w.rival(b.Client(t, nil))
	leases := backend.Start(t, l)
	backend.Waiters(t, l, 1)
	return func() {
		t.Helper()
		backend.Release(t, backend.Receive(t, leases))
		b.Cleaned(t)
	}
}

// Fault: The first copy of an acquire, an enqueue or a release is late, and arrives after a second one has acquired
// the lock and released it. The late copy is refused: it leaves no lock without a holder, and nothing in the queue.
//
// Bug: A stale release, repeated, deletes a newer lock.
func TestLateCopies(t *testing.T) {
	eachForm(t, patient, lateCopies)
}

func lateCopies(t *testing.T, b *place, p *proxy.Proxy, c *holdfast.Client, w form) {
	t.Run("acquire", func(t *testing.T) {
		if w.native {
			lateNativeCopy(t, b, p, c)
			return
		}
		held := p.Hold(w.acquiring("a"), proxy.Cut)
		backend.Release(t, backend.Acquire(t, w.lock(c)))
		w.refuses(t, held.Forward(t), "gone")
		b.Cleaned(t) // of the tombstone
		w.refuses(t, held.Forward(t), "late")
		expect.Of(backend.IsHeld(t.Context(), w.lock(c))).Is(t, "an orphan lock", false)
	})
	t.Run("enqueue", func(t *testing.T) {
		lease := backend.Acquire(t, w.rival(b.Client(t, nil)))
		leases := backend.Start(t, w.lock(c)) // opens the subscription
		backend.Waiters(t, w.lock(c), 1)
		backend.Release(t, lease)
		backend.Release(t, backend.Receive(t, leases))

		lease = backend.Acquire(t, w.rival(b.Client(t, nil)))
		held := p.Hold(running(w.enqueue, "a"), proxy.Cut)
		leases = backend.Start(t, w.lock(c))
		held.Wait(t)
		backend.Waiters(t, w.lock(c), 1)
		backend.Release(t, lease)
		backend.Release(t, backend.Receive(t, leases))
		blocker := backend.Acquire(t, w.rival(b.Client(t, nil)))
		expect.Contains(t, "the late copy is answered", held.Forward(t), "gone")
		backend.Waiters(t, w.lock(c), 0)
		backend.Release(t, blocker)
		b.Cleaned(t)
		// The client remembers the lock as contended until it acquires it again.
		backend.Release(t, backend.Acquire(t, w.lock(c)))
	})
	t.Run("cancelled", func(t *testing.T) {
		held := p.Hold(w.acquiring("a"), proxy.Hang)
		abandon(t, w.lock(c, holdfast.TTL(longest)), held, func() {})
		if w.native {
			givenBack(t, b, held)
			return
		}
		backend.Eventually(t, "the tombstone stands", func() bool {
			return len(b.Keys(t)) == 1 // the queue's
		})
		w.refuses(t, held.Forward(t), "gone")
		b.Cleaned(t)
	})
	t.Run("release", func(t *testing.T) {
		held := p.Hold(w.releasing("a"), proxy.Cut)
		backend.Release(t, backend.Acquire(t, w.lock(c)))
		next := backend.Acquire(t, w.lock(c))
		before := expect.Of(backend.HolderOf(t.Context(), w.lock(c))).OK(t)
		w.refuses(t, held.Forward(t), "gone")
		if h, err := backend.HolderOf(t.Context(), w.lock(c)); err != nil || h.Grant != before.Grant {
			t.Errorf("the late copy took the next lease: %v, %v", h, err)
		}
		backend.Release(t, next)
		b.Cleaned(t)
	})
}

// abandon acquires a lock, and gives up when the request is held back and what is to happen then has happened.
func abandon(t *testing.T, l *holdfast.Lock, held proxy.Held, then func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := l.Acquire(ctx)
		failed <- err
	}()
	held.Wait(t)
	then()
	cancel()
	expect.Equal(t, "Acquire", <-failed, context.Canceled)
}

// longest is a TTL for locks that have to be given back: no test waits until it is over.
const longest = 30 * time.Minute

// Nothing makes the server refuse a late copy of a native acquire. The client gives back what it takes, and in any case that ends
// at the expiry that the copy names.
func lateNativeCopy(t *testing.T, b *place, p *proxy.Proxy, c *holdfast.Client) {
	held := p.Hold(native.acquiring("a"), proxy.Cut)
	lease := backend.Acquire(t, c.Mutex("a", holdfast.TTL(longest)))
	if reply := held.Forward(t); native.granted(reply) {
		t.Errorf("the late copy is granted a lock that is held: %q", reply)
	}
	backend.Release(t, lease)
	givenBack(t, b, held)
	if b.clock == nil {
		return
	}
	b.pass(t, longest)
	held.Forward(t) // which the server carries out, for no time
	expect.Of(backend.IsHeld(t.Context(), c.Mutex("a"))).Is(t, "a copy later than its expiry has taken the lock", false)
	b.Cleaned(t)
}

// givenBack sends the copy of a native acquire whose caller has given up, or has gone on with another token. What the copy takes
// is given back.
func givenBack(t *testing.T, b *place, held proxy.Held) {
	t.Helper()
	if reply := held.Forward(t); !native.granted(reply) {
		t.Fatalf("the late copy is answered %q", reply)
	}
	b.Cleaned(t)
}

// Fault: The context ends in the middle of an acquire. No lock is left, and the waiter behind is served.
func TestCancelledInTheMiddle(t *testing.T) {
	eachForm(t, patient, func(t *testing.T, b *place, p *proxy.Proxy, c *holdfast.Client, w form) {
		rival := b.Client(t, nil)
		p.DelayReplies(30 * time.Millisecond)
		for i := range 30 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*3)*time.Millisecond)
			lease, err := w.lock(c, holdfast.TTL(time.Minute)).Acquire(ctx)
			cancel()
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Acquire: %v", err)
			}
			behind := backend.Start(t, w.rival(rival))
			if err == nil {
				backend.Release(t, lease)
			}
			backend.Release(t, backend.Receive(t, behind)) // long before the minute is over
		}
		b.Cleaned(t)
	})
}
