package behaviour

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// eachNative runs f on the servers that have DELIFEQ.
func eachNative(t *testing.T, f func(t testing.TB, b *backend.Backend)) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		if !b.Server.Binary().Deletes() {
			t.Skipf("SKIPPED: %s has no DELIFEQ; Valkey 9 has", b.Name)
		}
		f(t, b)
	})
}

// releasing returns a function that reports how many releases since its last call used the server's own
// command, the batch script, and the script for one lock.
func releasing(s *server.Server) func() string {
	var before map[string]int64
	count := func() map[string]int64 {
		stats := s.CommandStats()
		return map[string]int64{"delifeq": stats["delifeq"], "mget": stats["mget"], "evalsha": stats["eval"] + stats["evalsha"]}
	}
	before = count()
	return func() string {
		now := count()
		defer func() { before = now }()
		return fmt.Sprintf("%d DELIFEQ, %d MGET, %d scripts", now["delifeq"]-before["delifeq"], now["mget"]-before["mget"], now["evalsha"]-before["evalsha"])
	}
}

// A single release is one DELIFEQ. If a waiter has come, that does nothing, and the script that hands the lock
// over follows. Several releases together are one script.
func TestAReleaseThatGoesAloneIsOneCommand(t *testing.T) {
	t.Parallel()
	eachNative(t, func(t testing.TB, b *backend.Backend) {
		c, p := through(t, b, nil)
		other := b.Client(t, nil)
		end := settled(t, b, c)
		for _, s := range []script.Script{script.Release(), script.BatchRelease()} {
			if err := b.Redis(t).ScriptLoad(t.Context(), s.Source).Err(); err != nil {
				t.Fatal(err)
			}
		}
		lease := backend.Acquire(t, c.Mutex("m", holdfast.Meta("a", "b:c+")))
		since := releasing(b.Server)
		backend.Release(t, lease)
		if got := since(); got != "1 DELIFEQ, 0 MGET, 0 scripts" {
			t.Errorf("a release: %s", got)
		}

		lease = backend.Acquire(t, c.Mutex("m", holdfast.TTL(time.Minute)))
		waiting := queue(t, other.Mutex("m"), 1)
		since()
		backend.Release(t, lease)
		next := backend.Receive(t, waiting)
		if got := since(); !strings.HasPrefix(got, "1 DELIFEQ,") {
			t.Errorf("a release of a lock that is waited for: %s", got)
		}
		backend.Release(t, next)

		// Many ask at once, and a round trip to the server takes longer than it takes all of them to ask.
		const goroutines = 40
		leases := make([]*holdfast.Lease, goroutines)
		for i := range leases {
			leases[i] = backend.Acquire(t, c.Mutex(fmt.Sprint("m", i)))
		}
		since()
		p.DelayReplies(10 * time.Millisecond)
		crowd(goroutines, func(i int) {
			if err := leases[i].Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
		p.DelayReplies(0)
		var singles, together, scripts int
		if _, err := fmt.Sscanf(since(), "%d DELIFEQ, %d MGET, %d scripts", &singles, &together, &scripts); err != nil || together == 0 || singles+together > goroutines/2 {
			t.Errorf("%d releases at once: %d DELIFEQ and %d scripts for many", goroutines, singles, together)
		}
		end()
		b.Cleaned(t)
	})
}

// The client knows the form of the value only for plain mutexes that an answered request acquired. It releases
// other locks by scripts, and so does a client without batches.
func TestLocksWhoseValueIsNotKnownAreReleasedByScripts(t *testing.T) {
	t.Parallel()
	eachNative(t, func(t testing.TB, b *backend.Backend) {
		c, other := b.Client(t, nil), b.Client(t, nil)
		backend.Release(t, backend.Acquire(t, c.Mutex("warm")))
		kinds := map[string]*holdfast.Lock{
			"exact key":          c.MutexKey("a"),
			"a lock of Redisson": c.RedissonMutex("b"),
			"a reader":           c.RWMutex("c").Reader(),
			"a permit":           c.Semaphore("d", 1).Permits(1),
			"by itself":          b.Client(t, &holdfast.Config{ViaClient: true}).Mutex("e"),
		}
		since := releasing(b.Server)
		for what, l := range kinds {
			backend.Release(t, backend.Acquire(t, l))
			if got := since(); !strings.HasPrefix(got, "0 DELIFEQ") {
				t.Errorf("%s: %s", what, got)
			}
		}
		// The lock is requested alone because it was contended, and in a batch again after that.
		held := backend.Acquire(t, other.Mutex("g"))
		if _, err := c.Mutex("g").TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("a lock that is held: %v", err)
		}
		backend.Release(t, held)
		for range 2 {
			lease := backend.Acquire(t, c.Mutex("g"))
			since()
			backend.Release(t, lease)
			if got := since(); !strings.HasPrefix(got, "1 DELIFEQ") {
				t.Errorf("contended before: %s", got)
			}
		}
		// The server hands this lock over.
		lease := backend.Acquire(t, other.Mutex("f"))
		waiting := queue(t, c.Mutex("f"), 1)
		backend.Release(t, lease)
		next := backend.Receive(t, waiting)
		since()
		backend.Release(t, next)
		if got := since(); !strings.HasPrefix(got, "0 DELIFEQ") {
			t.Errorf("handed over: %s", got)
		}
		b.Cleaned(t)
	})
}

// The fence may be ahead of the clock, as after fences were reserved in vain.
func TestReleaseWithAFenceThatLeadsTheClock(t *testing.T) {
	t.Parallel()
	eachNative(t, func(t testing.TB, b *backend.Backend) {
		c := b.Client(t, nil)
		backend.Release(t, backend.Acquire(t, c.Mutex("m")))
		surveyed(t, b)
		for _, lead := range []time.Duration{0, 500 * time.Microsecond, 900 * time.Millisecond, time.Hour, 23 * time.Hour} {
			backend.SetCounter(t, b.Redis(t), "holdfast:fences", time.Now().Add(lead).UnixMicro())
			lease := backend.Acquire(t, c.Mutex("m"))
			if ahead := time.Until(time.UnixMicro(int64(lease.Fence()))); ahead < lead-time.Minute {
				t.Errorf("the fence is %v ahead; want %v", ahead, lead)
			}
			since, want := releasing(b.Server), "1 DELIFEQ, 0 MGET, 0 scripts"
			backend.Release(t, lease)
			if got := since(); !strings.HasPrefix(got, want) {
				t.Errorf("%v: %s; want %s", lead, got, want)
			}
		}
		b.Cleaned(t)
	})
}

// If the user may not use the command, releases go by scripts from then on: the command is refused once.
func TestReleasesWithoutPermissionForTheCommand(t *testing.T) {
	t.Parallel()
	eachNative(t, func(t testing.TB, b *backend.Backend) {
		if err := b.Redis(t).ACLSetUser(t.Context(), "u", "on", ">secret", "+@all", "-delifeq", "allchannels", "~*").Err(); err != nil {
			t.Fatal(err)
		}
		c := b.Client(t, nil, func(o *redis.Options) { o.Username, o.Password = "u", "secret" })
		for i := range 5 {
			backend.Release(t, backend.Acquire(t, c.Mutex(fmt.Sprint("m", i))))
		}
		if n := b.Server.Rejections()["delifeq"]; n != 1 {
			t.Errorf("DELIFEQ is refused %d times; want once", n)
		}
		b.Cleaned(t)
	})
}

// aging is a driver whose server is replaced by an older one, which does not know the command.
type aging struct {
	drivertest.Driver
	old   atomic.Bool
	asked atomic.Int64
}

func (d *aging) Run(ctx context.Context, call driver.Call) (string, error) {
	if call.Script.Command != "" {
		d.asked.Add(1)
		if d.old.Load() {
			return "", driver.ReplyError("ERR unknown command 'delifeq', with args beginning with: '" + call.Keys[0] + "' '" + call.Args[0] + "' ")
		}
	}
	return d.Driver.Run(ctx, call)
}

// A refusal that may pass is no reason to give up the command: another server may become the master.
func TestAServerThatIsReplacedByAnOlderOne(t *testing.T) {
	t.Parallel()
	eachNative(t, func(t testing.TB, b *backend.Backend) {
		d := &aging{Driver: drivertest.Of(holdfastgoredis.NewDriver(b.Redis(t)))}
		c, err := holdfast.New(d, nil)
		if err != nil {
			t.Fatal(err)
		}
		backend.CloseWith(t, c)
		use := func(want int64) {
			t.Helper()
			before := d.asked.Load()
			for i := range 3 {
				backend.Release(t, backend.Acquire(t, c.Mutex(fmt.Sprint("m", i))))
			}
			if n := d.asked.Load() - before; n != want {
				t.Errorf("DELIFEQ is asked for %d times; want %d", n, want)
			}
		}
		use(3)
		// It is refused for the moment.
		lease := backend.Acquire(t, c.Mutex("m"))
		for _, want := range []any{"1", "0"} {
			if _, err := b.Server.Do("CONFIG", "SET", "min-replicas-to-write", want); err != nil {
				t.Fatal(err)
			}
			if err := lease.Release(t.Context()); (err != nil) != (want == "1") || err != nil && !backend.HasCode(err, "NOREPLICAS") {
				if !errors.Is(err, holdfast.ErrAmbiguous) {
					t.Errorf("Release, with %v replicas wanted: %v", want, err)
				}
			}
		}
		use(3)
		d.old.Store(true)
		use(1)
		use(0)
		d.old.Store(false)
		use(0) // for good
		b.Cleaned(t)
	})
}

// A copy of the command that comes late, or twice, releases nobody else's lock.
func TestALateCopyOfTheCommandDoesNothing(t *testing.T) {
	t.Parallel()
	eachNative(t, func(t testing.TB, b *backend.Backend) {
		c, p := through(t, b, nil)
		held := p.Hold(proxy.Containing("delifeq", "{m}"), proxy.Cut)
		backend.Release(t, backend.Acquire(t, c.Mutex("m")))
		if reply := held.Forward(t); reply != ":0\r\n" {
			t.Errorf("a copy that is late: %q", reply)
		}
		for _, c := range []*holdfast.Client{c, b.Client(t, nil)} {
			next := backend.Acquire(t, c.Mutex("m"))
			for range 2 {
				if reply := held.Forward(t); reply != ":0\r\n" {
					t.Errorf("a copy that is late: %q", reply)
				}
			}
			if err := next.Extend(t.Context(), time.Minute); err != nil {
				t.Errorf("the next lease: %v", err)
			}
			backend.Release(t, next)
		}
		b.Cleaned(t)
	})
}
