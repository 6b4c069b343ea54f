package security

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// lasts is the TTL of locks that must not expire, however slow the machine is.
const lasts = time.Hour

// failure is what must panics with.
type failure struct{ error }

// must ends attempt with an error, if there is one, get with that of a call, and is if err is not the target.
func must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func get[T any](value T, err error) T {
	must(err)
	return value
}

func is(what string, err, target error) {
	if !errors.Is(err, target) {
		must(fmt.Errorf("%s: %w", what, err))
	}
}

// attempt returns the error that has ended f.
func attempt(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// job is what a role is for. It works as that user on locks whose names begin with its name, and ends with the first error.
type job struct {
	site
	t    *testing.T
	name string // the user's name, too
	// deaf says that the user may not subscribe: its waiters poll, and are not queued.
	deaf bool
	// forget makes the servers forget their scripts before the user needs one.
	forget bool
}

func (j job) lock(c *holdfast.Client, step string, ttl time.Duration) *holdfast.Lock {
	return c.Mutex(j.name+"/"+step, holdfast.TTL(ttl))
}

// waiter acquires the lock as the user, in a goroutine, and returns when that is queued, or has failed; if the
// user is deaf, after a while.
func (j job) waiter(ctx context.Context, operator, user *holdfast.Client, step string) <-chan error {
	j.t.Helper()
	return j.queue(ctx, j.lock(operator, step, lasts), j.lock(user, step, lasts))
}

// queue does that for any lock. The operator watches the queue through seen.
func (j job) queue(ctx context.Context, seen, wanted *holdfast.Lock) <-chan error {
	j.t.Helper()
	done := make(chan error, 1)
	go func() {
		lease, err := wanted.Acquire(ctx)
		if err == nil {
			err = backend.ReleasedSince(time.Now().Add(-backend.Claim), lease)
		}
		done <- err
	}()
	limit := time.Now().Add(5 * time.Minute)
	if j.deaf {
		limit = time.Now().Add(200 * time.Millisecond)
	}
	for len(done) == 0 {
		queued, err := backend.Waiting(context.Background(), seen)
		if err == nil && queued > 0 {
			break
		}
		if time.Now().After(limit) {
			if !j.deaf {
				j.t.Errorf("%s: no waiter is queued", seen.Name())
			}
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	return done
}

// result waits for a waiter.
func result(done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-time.After(5 * time.Minute):
		return errors.New("a waiter got nothing, not even an error")
	}
}

// locking acquires a free lock, is refused a held one, waits for one and is handed it, is woken when one is
// found free, and leaves a queue. It also uses locks that several may hold.
func locking(j job) {
	ctx := context.Background()
	operator, one, two := j.client(j.t, ""), j.client(j.t, j.name), j.client(j.t, j.name)

	if j.forget {
		j.do(j.t, "SCRIPT", "FLUSH")
	}
	lease := get(j.lock(one, "free", lasts).TryAcquire(ctx))
	must(lease.Extend(ctx, 2*lasts))
	is("a lock that is held", expect.ErrOf(j.lock(two, "free", lasts).TryAcquire(ctx)), holdfast.ErrHeld)
	must(lease.Release(ctx))

	// A holder whose lock has gone asks whether the server has lost its data.
	flags := ""
	if j.cluster {
		flags = "c"
	}
	reply, err := j.run(j.t, j.name, script.Reassert(), j.name+"/free", flags, "AAAAAAAAAAAAAAAAAAAAAA", "60000", "9000000000000000", "1", "1", "{}", "1", "0", "1")
	must(denied(err))
	if text, failed := strings.CutPrefix(reply, "error "); failed {
		must(fmt.Errorf("%w: %s", holdfast.ErrDenied, text))
	} else if !strings.HasPrefix(reply, "absent ") {
		must(fmt.Errorf("a lock that another has had: %s", reply))
	}

	// It is renewed.
	lasting(func(ttl time.Duration) {
		lease := get(j.lock(one, "renewed", ttl).Acquire(ctx))
		for first := lease.Deadline(); !lease.Deadline().After(first); time.Sleep(5 * time.Millisecond) {
			if err := lease.Err(); err != nil {
				must(fmt.Errorf("a lease that should be renewed: %w", err))
			}
		}
		must(lease.Release(ctx))
	})

	// It is handed over. If that is denied, the waiter looks again when the lease would have ended.
	lasting(func(ttl time.Duration) {
		lease := get(j.lock(one, "held", ttl).Acquire(ctx))
		waiting := j.waiter(ctx, operator, two, "held")
		released := lease.Release(ctx)
		must(errors.Join(released, result(waiting)))
	})

	// The lock is found free while somebody is queued.
	lease = get(j.lock(one, "found", lasts).Acquire(ctx))
	waiting := j.waiter(ctx, operator, two, "found")
	must(j.redis(j.t, "").Del(ctx, "holdfast:{"+lease.Name()+"}").Err())
	switch passing, err := j.lock(one, "found", lasts).TryAcquire(ctx); {
	case err == nil:
		must(passing.Release(ctx))
	default:
		is("a lock that is found free", err, holdfast.ErrHeld)
	}
	must(result(waiting))
	_ = lease.Release(ctx) // it is lost
	if !j.deaf {
		j.passing(one)
	}

	// A waiter gives up.
	lease = get(j.lock(one, "left", lasts).Acquire(ctx))
	leaving, leave := context.WithCancel(ctx)
	waiting = j.waiter(leaving, operator, two, "left")
	leave()
	is("a waiter that gave up", result(waiting), context.Canceled)
	backend.Eventually(j.t, "the waiter that gave up is not in the queue", func() bool {
		queued, err := backend.Waiting(ctx, j.lock(operator, "left", lasts))
		return err == nil && queued == 0
	})
	must(lease.Release(ctx))
	readingAndWriting(j)
	counting(j)
}

// passing finds a lock free while a waiter is queued that listens and never looks. A client's waiter is not enough: while its
// subscription is new, the server may take it for dead, or it may look at the same time. Then nothing is published.
func (j job) passing(user *holdfast.Client) {
	j.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	lock, rdb := j.lock(user, "passed", lasts), j.redis(j.t, "")
	space, k := keysOf(j.t, lock.Name())
	channel, subscribe, flags := space.Channel("x"), rdb.Subscribe, ""
	if j.cluster {
		channel, subscribe, flags = keys.ShardChannel(k, "x"), rdb.SSubscribe, "c"
	}
	hears := subscribe(ctx, channel)
	defer hears.Close()
	get(hears.Receive(ctx))
	for _, step := range []struct {
		reply string
		args  []string
	}{
		{"granted ", []string{"t" + flags, "AAAAAAAAAAAAAAAAAAAAAA", "3600000", "0", "1", "{}"}},
		{"queued ", []string{"w" + flags, "BBBBBBBBBBBBBBBBBBBBBB", "3600000", "0", "1", "{}", "3600000", channel, ""}},
	} {
		reply, err := j.run(j.t, "", script.Acquire(), lock.Name(), step.args...)
		if err != nil || !strings.HasPrefix(reply, step.reply) {
			must(fmt.Errorf("want %q: %q, %w", step.reply, reply, err))
		}
	}
	must(rdb.Del(ctx, k.Lock).Err())
	is("a free lock for which somebody is queued", expect.ErrOf(lock.TryAcquire(ctx)), holdfast.ErrHeld)
	if told, err := hears.ReceiveMessage(ctx); err != nil || !strings.HasPrefix(told.Payload, "hf2 grant BBBBBBBBBBBBBBBBBBBBBB ") {
		must(fmt.Errorf("the waiter is told %v, %w", told, err))
	}
}

// Multi-locks, jobs and elections, which are made of mutexes, need no more rights than mutexes.
func TestLockersCanDoWhatIsMadeOfLocks(t *testing.T) {
	everySite(t, func(t *testing.T, s site) {
		role := s.role(t, "locker")
		s.user(t, role.name, role.texts())
		ctx, j := t.Context(), job{site: s, t: t, name: role.name}
		operator, one, two := s.client(t, ""), s.client(t, role.name), s.client(t, role.name)
		names := []string{role.name + "/one", role.name + "/two"}
		lease := backend.Acquire(t, one.Multi(names, holdfast.TTL(lasts)))
		waiting := j.queue(ctx, operator.Mutex(names[0]), two.Multi(names, holdfast.TTL(lasts)))
		backend.Release(t, lease)
		expect.Err(t, "several", result(waiting), nil)

		for _, first := range []bool{true, false} {
			o := once.New(s.client(t, role.name), role.name+"/once", once.Slot("monday", time.Minute), holdfast.TTL(lasts))
			run, err := o.Do(ctx, func(context.Context, *holdfast.Lease) (string, error) { return "done", nil })
			if err != nil || run.Here != first {
				t.Errorf("once, first %v: %+v, %v", first, run, err)
			}
			expect.Err(t, "once", expect.ErrOf(o.Last(ctx)), nil)
		}

		of := func() *election.Election {
			return election.New(s.client(t, role.name).Mutex(role.name+"/election", holdfast.TTL(lasts)))
		}
		sees := backend.Watch(t, of())
		leader := backend.Campaign(ctx, of())
		leader.Elected(t)
		for sees() == "" {
		}
		next := backend.Campaign(ctx, of())
		backend.Waiters(t, operator.Mutex(role.name+"/election"), 1)
		leader.Answer <- nil
		next.Elected(t)
		next.Answer <- nil
		for sees() != "" {
		}
		expect.Err(t, "an election", errors.Join(leader.Ran(t), next.Ran(t)), nil)
	})
}

// readingAndWriting makes readers hold a lock together, makes one of them the writer and a reader again, and
// then lets another reader in.
func readingAndWriting(j job) {
	ctx := context.Background()
	of := func(user string) *holdfast.RWMutex {
		return j.client(j.t, user).RWMutex(j.name+"/shared", holdfast.TTL(lasts))
	}
	operator, one, two := of(""), of(j.name), of(j.name)

	reader := get(one.Reader().TryAcquire(ctx))
	second := get(two.Reader().TryAcquire(ctx))
	is("a lock that readers hold", expect.ErrOf(two.Writer().TryAcquire(ctx)), holdfast.ErrHeld)
	must(second.Release(ctx))
	writer := get(one.TryUpgrade(ctx, reader))
	waiting := j.queue(ctx, operator.Reader(), two.Reader())
	reader = get(one.Downgrade(ctx, writer))
	must(result(waiting))
	must(reader.Extend(ctx, 2*lasts))
	must(reader.Release(ctx))
}

// counting acquires a permit of a semaphore while another is held, once that of a dead holder has expired, and
// resizes the semaphore.
func counting(j job) {
	ctx := context.Background()
	of := func() *holdfast.Semaphore {
		return j.client(j.t, j.name).Semaphore(j.name+"/permits", 2, holdfast.TTL(lasts))
	}
	one, two := of(), of()
	held := get(one.Permits(1).TryAcquire(ctx))
	flags := "t"
	if j.cluster {
		flags += "c"
	}
	reply, err := j.run(j.t, "", script.ShareAcquire(), one.Name(), flags, "AAAAAAAAAAAAAAAAAAAAAA", "300", "0", "1", `{"o":"dead"}`, "sem", "2", "1")
	if err != nil || !strings.HasPrefix(reply, "granted ") {
		j.t.Errorf("the permit of somebody who died: %s, %v", reply, err)
	}
	get(backend.HoldersOf(ctx, one))
	after := get(two.Permits(1).Acquire(ctx))
	for _, permits := range []int{3, 0} {
		must(one.Resize(ctx, permits))
	}
	must(after.Release(ctx))
	must(held.Release(ctx))
}

// inspecting shows holders and waiters, also of a lock with several holders, and lists names.
func inspecting(j job) {
	ctx := context.Background()
	operator, user := j.client(j.t, ""), j.client(j.t, j.name)
	lease := backend.Acquire(j.t, operator.Mutex(j.name+"/seen", holdfast.Identity("the operator"), holdfast.TTL(lasts)))
	waiting, leave := context.WithCancel(ctx)
	defer leave()
	waiter := j.waiter(waiting, operator, j.client(j.t, ""), "seen")
	if j.forget {
		j.do(j.t, "SCRIPT", "FLUSH")
	}
	s, err := user.Mutex(j.name + "/seen").Status(ctx)
	// A waiter whose subscription is slow polls for a while, and is not queued then.
	for end := time.Now().Add(5 * time.Minute); err == nil && len(s.Waiters) == 0 && len(waiter) == 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
		s, err = user.Mutex(j.name + "/seen").Status(ctx)
	}
	must(err)
	if len(waiter) > 0 {
		must(fmt.Errorf("the waiter waits no longer: %w", <-waiter))
	}
	if h, _ := s.Holder(); h.Identity != "the operator" || len(s.Waiters) != 1 || s.Waiters[0].PID != os.Getpid() || h.TTL <= 0 {
		must(fmt.Errorf("seen: %+v", s))
	}
	if held, err := backend.IsHeld(ctx, user.Mutex(j.name+"/free")); held || err != nil {
		must(fmt.Errorf("a free lock is held: %v, %w", held, err))
	}
	permit := backend.Acquire(j.t, operator.Semaphore(j.name+"/permits", 2, holdfast.Identity("the operator"), holdfast.TTL(lasts)).Permits(1))
	all := get(backend.HoldersOf(ctx, user.Semaphore(j.name+"/permits", 2)))
	if len(all) != 1 || all[0].Identity != "the operator" || all[0].Permits != 1 {
		must(fmt.Errorf("seen: %+v", all))
	}
	backend.Release(j.t, permit)
	if s, err := inspect.New(user).Get(ctx, j.name+"/seen"); err != nil || s.Kind != holdfast.KindMutex || len(s.Holders) != 1 {
		must(fmt.Errorf("got: %+v, %w", s, err))
	}
	names := get(list(ctx, user, j.name+"/*"))
	if !slices.Contains(names, lease.Name()) {
		must(fmt.Errorf("listed: %q", names))
	}
	// The key that has this name is not the role's. It hides nothing.
	for name, want := range map[string]int{lease.Name(): 1, j.name + "/free": 0} {
		if names, err := list(ctx, user, name); err != nil || len(names) != want {
			must(fmt.Errorf("listed by the name %s: %q, %w", name, names, err))
		}
	}
	must(lease.Release(ctx))
}

// list returns the names of the locks that match.
func list(ctx context.Context, user *holdfast.Client, pattern string) (names []string, err error) {
	for s, err := range inspect.New(user).List(ctx, pattern) {
		if err != nil {
			return names, err
		}
		names = append(names, s.Name)
	}
	return names, nil
}

// denied turns a server's NOPERM into the library's error, as the library does.
func denied(err error) error {
	if redis.HasErrorPrefix(err, "NOPERM") {
		return fmt.Errorf("%w: %w", holdfast.ErrDenied, err)
	}
	return err
}

// breaking does what inspecting does, and takes locks from their holders, who are told, hands them to others, and asks a holder
// to let go.
func breaking(j job) {
	inspecting(j)
	ctx := context.Background()
	operator, in := j.client(j.t, ""), inspect.New(j.client(j.t, j.name))
	permits := func(c *holdfast.Client) *holdfast.Lock {
		return c.Semaphore(j.name+"/broken permits", 2, holdfast.TTL(lasts)).Permits(2)
	}
	for _, lock := range []func(c *holdfast.Client) *holdfast.Lock{
		func(c *holdfast.Client) *holdfast.Lock { return j.lock(c, "broken", lasts) }, permits,
	} {
		lease := backend.Acquire(j.t, lock(operator))
		next := j.queue(ctx, lock(operator), lock(j.client(j.t, "")))
		seen := backend.Seen(j.t, inspect.New(operator), lease.Name(), lease.Fence())
		must(in.Revoke(ctx, seen, "test"))
		backend.Told(j.t, "the holder is asked", lease.Revoked())
		get(in.Break(ctx, seen, "test"))
		backend.Told(j.t, "the holder is told of the loss", lease.Done())
		var lost *holdfast.LostError
		if !errors.As(lease.Err(), &lost) || lost.Reason != holdfast.LossBroken {
			must(fmt.Errorf("the holder is told %w", lease.Err()))
		}
		must(<-next)
	}
	theBarrier := barrier.New(operator, j.name+"/broken phase", 2, holdfast.TTL(lasts))
	one := get(theBarrier.Join(ctx))
	get(in.Break(ctx, backend.Seen(j.t, inspect.New(operator), theBarrier.Name(), one.Lease().Fence()), "test"))
	for b, err := range in.History(ctx) {
		if must(err); b.Name == theBarrier.Name() {
			return
		}
	}
	must(errors.New("what was broken is not on record"))
}

// lasting calls f with a TTL, and again with twice the TTL if a lease ended because the process or the server was
// too slow to renew it in time. What a user may not do is refused, however slow the machine is.
func lasting(f func(ttl time.Duration)) {
	for ttl := 2 * time.Second; ; ttl *= 2 {
		err := attempt(func() { f(ttl) })
		var lost *holdfast.LostError
		late := errors.As(err, &lost) && !errors.Is(err, holdfast.ErrDenied) &&
			(lost.Reason == holdfast.LossExpired || lost.Reason == holdfast.LossUnreachable)
		if !late || ttl > time.Minute {
			must(err)
			return
		}
	}
}

var jobs = []struct {
	role string
	do   func(job)
}{{"locker", locking}, {"inspector", inspecting}, {"breaker", breaking}}

// Fault: One rule of a role's ACL is taken away. Something fails with ErrDenied, or nothing fails if docs/acl says
// that the rule is optional.
func TestRolesHaveWhatTheyNeedAndNoMore(t *testing.T) {
	everySite(t, func(t *testing.T, s site) {
		for _, kind := range jobs {
			role := s.role(t, kind.role)
			s.user(t, role.name, role.texts())
			// This rule comes first: eval is needed only while the server lacks a script.
			without := func(left rule) {
				name := role.name + "-without-" + left.text
				t.Run(name, func(t *testing.T) {
					j := job{
						site: s, t: t, name: strings.NewReplacer("|", "-", "*", "", "&", "channels-", "~", "keys-").Replace(name),
						deaf:   left.text[0] == '&' || strings.HasSuffix(left.text, "subscribe"),
						forget: left.text == "+eval",
					}
					if !j.forget {
						t.Parallel()
					}
					s.user(t, j.name, role.without(left))
					err := attempt(func() { kind.do(j) })
					switch {
					case left.optional && err != nil:
						t.Errorf("it is optional, but: %v", err)
					case !left.optional && !errors.Is(err, holdfast.ErrDenied):
						t.Errorf("want an error that says what is missing, got: %v", err)
					}
					if left.text == "+ping" && s.patient {
						j.silence()
					}
				})
			}
			for _, left := range role.rules {
				without(left)
			}
			t.Run(role.name, func(t *testing.T) {
				t.Parallel()
				expect.Err(t, "do", attempt(func() { kind.do(job{site: s, t: t, name: role.name}) }), nil)
			})
		}
	})
}

// silence makes the user wait for so long that its subscription is checked with PING, which it may not send.
// The waiter gets the lock all the same.
func (j job) silence() {
	operator := j.client(j.t, "")
	lease := backend.Acquire(j.t, j.lock(operator, "silent", lasts))
	waiting := j.waiter(context.Background(), operator, j.client(j.t, j.name), "silent")
	backend.Eventually(j.t, "a ping is refused", func() bool {
		for _, n := range j.nodes {
			log := expect.Of(n.Do("ACL", "LOG", 128)).OK(j.t)
			for _, entry := range log.([]any) {
				if text := fmt.Sprint(entry); strings.Contains(text, "object ping ") && strings.Contains(text, "username "+j.name+" ") {
					return true
				}
			}
		}
		return false
	})
	backend.Release(j.t, lease)
	expect.Err(j.t, "a waiter whose subscription is silent", result(waiting), nil)
}

func keysOf(t *testing.T, name string) (keys.Space, keys.Set) {
	t.Helper()
	space := expect.Of(keys.NewSpace("holdfast:")).OK(t)
	k := expect.Of(space.Name(name)).OK(t)
	return space, k
}

// run runs a script of the library as a user, like somebody who knows how.
func (s site) run(t *testing.T, user string, sc script.Script, name string, args ...string) (string, error) {
	t.Helper()
	space, k := keysOf(t, name)
	all := []string{k.Lock, k.Queue, space.Fence()}
	if s.cluster {
		all[2] = space.SlotFence(keys.Slot(k.Lock))
	}
	if sc.Name == script.ShareAcquire().Name {
		k = k.For("sem")
		all[1], all = k.Queue, append(all, k.Expiries())
	}
	d := drivertest.Of(holdfastgoredis.NewDriver(s.redis(t, user)))
	t.Cleanup(func() { _ = d.Close() })
	return d.Run(t.Context(), driver.Call{Script: sc, Keys: all, Args: args})
}

// A role cannot do what it is not for, in any way: through the library, with the library's scripts and a token
// that it has read, or by plain commands.
func TestRolesCannotDoMore(t *testing.T) {
	everySite(t, func(t *testing.T, s site) {
		for _, kind := range jobs {
			s.user(t, kind.role, s.role(t, kind.role).texts())
		}
		ctx := t.Context()
		operator, rdb := s.client(t, ""), s.redis(t, "")
		lease := backend.Acquire(t, operator.Mutex("held", holdfast.TTL(lasts)))
		var before string
		var value wire.Value
		backend.Eventually(t, "the value has its fence", func() (is bool) { // a renewal writes it
			before = rdb.Get(ctx, "holdfast:{held}").Val()
			value, is = wire.ParseValue(before)
			return is && value.Fence == lease.Fence()
		})
		c := s.client(t, "inspector")
		for _, name := range []string{"free", "held"} {
			short, cancel := context.WithTimeout(ctx, 30*time.Second)
			_, err1 := c.Mutex(name).TryAcquire(short)
			_, err2 := c.Mutex(name).Acquire(short)
			cancel()
			expect.Err(t, "inspector takes the lock "+name, err1, holdfast.ErrDenied)
			expect.Err(t, "inspector takes the lock "+name, err2, holdfast.ErrDenied)
		}
		flags := ""
		if s.cluster {
			flags = "c"
		}
		for _, mode := range []string{"t", "w", "l"} {
			args, wait := []string{mode + flags, "AAAAAAAAAAAAAAAAAAAAAA", "1000", "0", "1", "{}"}, []string{"1000", "holdfast:c:x", ""}
			mutex, err1 := s.run(t, "inspector", script.Acquire(), "free", slices.Concat(args, wait)...)
			permit, err2 := s.run(t, "inspector", script.ShareAcquire(), "free", slices.Concat(args, []string{"sem", "2", "1"}, wait)...)
			if err1 == nil && strings.HasPrefix(mutex, "granted") || err2 == nil && strings.HasPrefix(permit, "granted") {
				t.Errorf("inspector acquires: %s, %s", mutex, permit)
			}
		}
		for _, use := range []struct {
			script script.Script
			args   []string
		}{{script.Renew(), []string{"3600000", "0", fmt.Sprint(value.Fence)}}, {script.Release(), []string{"", "0"}}} {
			reply, err := s.run(t, "inspector", use.script, "held", append([]string{flags, value.Token}, use.args...)...)
			if err == nil && !strings.HasPrefix(reply, "error ") {
				t.Errorf("inspector uses a token that it has read to %s: %s", use.script.Name, reply)
			}
		}
		for user, commands := range map[string][][]any{
			"inspector": {
				{"SET", "holdfast:{free}", "x", "NX", "PX", "1000"}, {"PEXPIRE", "holdfast:{held}", "3600000"}, {"APPEND", "holdfast:{held}", "+"},
				{"HSET", "holdfast:{free}", "kind", "sem"}, {"PERSIST", "holdfast:{held}"}, {"DEL", "holdfast:{held}"},
				{"ZADD", "holdfast:{held}:q", "1", "x"}, {"PUBLISH", "holdfast:c:x", "hf2 standby x 1 1"}, {"CONFIG", "GET", "*"}, {"FLUSHALL"},
			},
			"breaker": {
				{"APPEND", "holdfast:{held}", "+"}, {"PERSIST", "holdfast:{held}"}, {"SUBSCRIBE", "holdfast:c:x"}, {"CONFIG", "GET", "*"}, {"FLUSHALL"},
			},
		} {
			for _, command := range commands {
				expect.Err(t, fmt.Sprint(user, command), denied(s.redis(t, user).Do(ctx, command...).Err()), holdfast.ErrDenied)
			}
		}
		expect.Equal(t, "the lock", rdb.Get(ctx, "holdfast:{held}").Val(), before)
		if n := rdb.Exists(ctx, "holdfast:{free}").Val() + rdb.Exists(ctx, "holdfast:{free}:q").Val() + rdb.Exists(ctx, "holdfast:{held}:q").Val(); n != 0 {
			t.Errorf("%d keys were made", n)
		}
		expect.Err(t, "the lease", lease.Err(), nil)
		backend.Release(t, lease)
		s.strangers(t)
	})
}

// strangers makes every role try keys outside the prefix.
func (s site) strangers(t *testing.T) {
	ctx := t.Context()
	s.redis(t, "").Set(ctx, "payroll", "42", 0)
	for _, kind := range jobs {
		rdb := s.redis(t, kind.role)
		for _, command := range [][]any{
			{"GET", "payroll"}, {"DEL", "payroll"}, {"EVAL", "return redis.call('GET', KEYS[1])", 1, "payroll"},
		} {
			expect.Err(t, fmt.Sprint(kind.role, command), denied(rdb.Do(ctx, command...).Err()), holdfast.ErrDenied)
		}
		// The key is named inside a script.
		if reply, err := rdb.Do(ctx, "EVAL", "return redis.call('GET', 'payroll')", 1, "holdfast:{payroll}").Result(); err == nil {
			t.Errorf("%s: GET within a script: %v", kind.role, reply)
		}
		elsewhere := expect.Of(holdfastgoredis.New(rdb, &holdfast.Config{Prefix: "other:"})).OK(t)
		backend.CloseWith(t, elsewhere)
		for _, l := range []*holdfast.Lock{elsewhere.Mutex("a"), s.client(t, kind.role).MutexKey("payroll")} {
			expect.Err(t, kind.role+": a lock outside of the prefix", expect.ErrOf(l.TryAcquire(ctx)), holdfast.ErrDenied)
			expect.Err(t, kind.role+": the holder of a lock outside of the prefix", expect.ErrOf(backend.HolderOf(ctx, l)), holdfast.ErrDenied)
		}
	}
	expect.Equal(t, "payroll", s.redis(t, "").Get(ctx, "payroll").Val(), "42")
}
