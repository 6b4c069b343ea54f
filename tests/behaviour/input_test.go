package behaviour

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
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
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// unreachable returns a client whose server cannot be reached, to show that it refuses invalid input before any I/O.
func unreachable(t testing.TB) *holdfast.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	c := expect.Of(holdfastgoredis.New(rdb, nil)).OK(t)
	backend.CloseWith(t, c)
	return c
}

// Fault: Absurd TTLs, names and keys. ErrInvalid, before anything is sent.
func TestBadInputIsRefusedBeforeIO(t *testing.T) {
	ctx, c := t.Context(), unreachable(t)
	long := strings.Repeat("x", 1<<20)
	many := make([]string, 257)
	for i := range many {
		many[i] = fmt.Sprint("n", i)
	}
	refused := func(what string, errs ...error) {
		t.Helper()
		for _, err := range errs {
			expect.Err(t, what, err, holdfast.ErrInvalid)
			expect.AtMost(t, what+": bytes of the error", len(fmt.Sprint(err)), 1500)
		}
	}
	for what, l := range map[string]*holdfast.Lock{
		"an empty name":                 c.Mutex(""),
		"a long name":                   c.Mutex(long[:513]),
		"a megabyte name":               c.Mutex(long),
		"a newline":                     c.Mutex("a\nb"),
		"invalid UTF-8":                 c.Mutex("a\xff"),
		"a closing brace first":         c.Mutex("}a"),
		"an empty key":                  c.MutexKey(""),
		"a key with odd braces":         c.MutexKey("a}b"),
		"half a hash tag":               c.MutexKey("a}"),
		"Redisson without a name":       c.RedissonMutex(""),
		"a name with a brace":           c.RedissonMutex("a{b"),
		"a name with odd braces":        c.RedissonMutex("a}b"),
		"a TTL of 0":                    c.Mutex("a", holdfast.TTL(0)),
		"a negative TTL":                c.Mutex("a", holdfast.TTL(-time.Second)),
		"a TTL that drift uses up":      c.Mutex("a", holdfast.TTL(2*time.Millisecond)),
		"no option":                     c.Mutex("a", nil),
		"no option among options":       c.Mutex("a", holdfast.Options(nil)),
		"a TTL below 1ms":               c.Mutex("a", holdfast.TTL(time.Millisecond-1)),
		"a TTL beyond MaxTTL":           c.Mutex("a", holdfast.TTL(25*time.Hour)),
		"the longest TTL":               c.Mutex("a", holdfast.TTL(math.MaxInt64)),
		"MaxHold of 0":                  c.Mutex("a", holdfast.MaxHold(0)),
		"a short MaxHold":               c.Mutex("a", holdfast.MaxHold(time.Millisecond)),
		"MaxRenewals of 0":              c.Mutex("a", holdfast.MaxRenewals(0)),
		"negative MaxRenewals":          c.Mutex("a", holdfast.MaxRenewals(-1)),
		"an empty owner":                c.Mutex("a", holdfast.Identity("")),
		"long meta":                     c.Mutex("a", holdfast.Meta("k", long[:2000])),
		"a polling interval of 0":       c.Mutex("a", holdfast.Poll(0)),
		"a short polling interval":      c.Mutex("a", holdfast.Poll(time.Microsecond)),
		"a negative interval":           c.Mutex("a", holdfast.Poll(-time.Second)),
		"a negative Wait":               c.Mutex("a", holdfast.Wait(-1)),
		"a timeout of Durability alone": c.Mutex("a", holdfast.Durability{Timeout: time.Second}),
		"a depth of 0":                  c.Mutex("a", holdfast.Reentrant(), holdfast.MaxDepth(0)),
		"a depth without need":          c.Mutex("a", holdfast.MaxDepth(3)),
		"negative Replicas":             c.Mutex("a", holdfast.Durability{Replicas: -1, Timeout: 0}),
		"a long timeout of replicas":    c.Mutex("a", holdfast.Durability{Replicas: 1, Timeout: time.Hour}),
		"an owner with a newline":       c.OwnerMutex("a", "a\nb"),
		"a long owner":                  c.OwnerMutex("a", long[:513]),
		"no owner":                      c.OwnerMutex("a", ""),
		"an owner with another name":    c.OwnerMutex("a", "me", holdfast.Identity("you")),
		"a semaphore of 0":              c.Semaphore("a", 0).Permits(1),
		"a semaphore of -1":             c.Semaphore("a", -1).Permits(1),
		"a semaphore of a million 1":    c.Semaphore("a", 1_000_001).Permits(1),
		"a weight of 0":                 c.Semaphore("a", 5).Permits(0),
		"a negative weight":             c.Semaphore("a", 5).Permits(-3),
		"a weight above all permits":    c.Semaphore("a", 5).Permits(1_000_001),
		"a reader with a TTL of 0":      c.RWMutex("a").Reader(holdfast.TTL(0)),
		"several without a name":        c.Multi(nil),
		"one of several":                c.Multi([]string{"a"}),
		"257 names":                     c.Multi(many),
		"a name twice":                  c.Multi([]string{"a", "b", "a"}),
		"an empty name of several":      c.Multi([]string{"a", ""}),
		"a long name of several":        c.Multi([]string{"a", long}),
		"MaxHold of 0 of several":       c.Multi([]string{"a", "b"}, holdfast.MaxHold(0)),
		"MaxRenewals of 0, of several":  c.Multi([]string{"a", "b"}, holdfast.MaxRenewals(0)),
		"a short TTL of several":        c.Multi([]string{"a", "b"}, holdfast.TTL(time.Millisecond)),
	} {
		_, err := l.TryAcquire(ctx)
		_, err2 := l.Acquire(ctx)
		_, err3 := l.Status(ctx)
		refused(what, err, err2, err3, l.Do(ctx, func(context.Context, *holdfast.Lease) error { return nil }))
	}

	hour := once.Every(time.Hour)
	for what, j := range map[string]*once.Job{
		"a job without a name":       once.New(c, "", hour),
		"no window":                  once.New(c, "j", once.Window{}),
		"a window of 0":              once.New(c, "j", once.Every(0)),
		"a negative window":          once.New(c, "j", once.Every(-time.Hour)),
		"a window of 11 years":       once.New(c, "j", once.Every(11*365*24*time.Hour)),
		"a slot without a name":      once.New(c, "j", once.Slot("", time.Hour)),
		"a slot with a newline":      once.New(c, "j", once.Slot("a\nb", time.Hour)),
		"a slot with a long name":    once.New(c, "j", once.Slot(long[:513], time.Hour)),
		"a slot for 0":               once.New(c, "j", once.Slot("a", 0)),
		"no tries":                   once.New(c, "j", hour, once.MaxTries(0)),
		"a job with a TTL of 0":      once.New(c, "j", hour, holdfast.TTL(0)),
		"a job with a negative Wait": once.New(c, "j", hour, holdfast.Wait(-1)),
	} {
		_, err := j.Do(ctx, mustNotRun(t))
		_, err2 := j.TryDo(ctx, mustNotRun(t))
		_, err3 := j.Last(ctx)
		refused(what, err, err2, err3)
		if what == "a window of 0" && !strings.Contains(fmt.Sprint(err3), what+"s") {
			t.Errorf("the error of a window of 0 does not say so: %v", err3)
		}
	}

	elections := map[string]*election.Election{"no name": election.New(c.Mutex(""))}
	latches := map[string]*latch.Latch{"no name": latch.New(c, "", 1), "no parties": latch.New(c, "l", 0), "too many": latch.New(c, "l", 1_000_001)}
	barriers := map[string]*barrier.Barrier{
		"no name": barrier.New(c, "", 1), "no parties": barrier.New(c, "b", -1), "too many": barrier.New(c, "b", 10_001),
	}
	for what, o := range map[string]holdfast.Option{
		"a bad TTL": holdfast.TTL(0), "a bad MaxHold": holdfast.MaxHold(-1), "no owner": holdfast.Identity(""),
	} {
		elections[what], latches[what], barriers[what] = election.New(c.Mutex("e", o)), latch.New(c, "l", 3, o), barrier.New(c, "b", 3, o)
	}
	for what, e := range elections {
		_, err := e.Leader(ctx)
		refused("an election with "+what, err, e.Run(ctx, nil))
		for _, err := range e.Watch(ctx) {
			refused("a watch with "+what, err)
		}
	}
	for what, l := range latches {
		_, err := l.Register(ctx)
		_, err2 := l.Count(ctx)
		_, err3 := l.Status(ctx)
		refused("a latch with "+what, err, err2, err3, l.Wait(ctx), l.CountDown(ctx), l.Reset(ctx), l.Delete(ctx))
	}
	for what, b := range barriers {
		_, err := b.Join(ctx)
		_, err2 := b.TryJoin(ctx)
		_, err3 := b.Status(ctx)
		refused("a barrier with "+what, err, err2, err3)
	}
}

// Fault: An absurd Config. ErrInvalid, before anything is sent.
func TestBadConfigIsRefused(t *testing.T) {
	d := drivertest.Of(holdfastgoredis.NewDriver(redis.NewClient(&redis.Options{})))
	for what, cfg := range map[string]holdfast.Config{
		"a prefix with a brace": {Prefix: "a{b}"},
		"a negative TTL":        {TTL: -1},
		"a TTL beyond MaxTTL":   {TTL: time.Hour, MaxTTL: time.Minute},
		"an absurd MaxTTL":      {MaxTTL: math.MaxInt64},
		"a tiny timeout":        {CommandTimeout: 1},
		"a short timeout":       {CommandTimeout: time.Millisecond},
		"an absurd timeout":     {CommandTimeout: math.MaxInt64},
		"a short RetryTimeout":  {RetryTimeout: time.Millisecond},
		"tries without end":     {RetryTimeout: math.MaxInt64},
		"less than no replicas": {Durability: holdfast.Durability{Replicas: -1}},
		"a hasty confirmation":  {Durability: holdfast.Durability{Replicas: 1, Timeout: 1}},
		"a long confirmation":   {Durability: holdfast.Durability{Replicas: 1, Timeout: 3 * time.Second}},
		"a hasty poller":        {PollInterval: 1},
		"a short Quarantine":    {Strict: true, MaxTTL: time.Minute, Quarantine: time.Second},
	} {
		expect.Err(t, what, expect.ErrOf(holdfast.New(d, &cfg)), holdfast.ErrInvalid)
	}
	var none *redis.Client
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	expect.Err(t, "no driver", expect.ErrOf(holdfast.New(nil, nil)), holdfast.ErrInvalid)
	for _, cfg := range []holdfast.Config{{Durability: holdfast.Durability{Replicas: 1}}, {Durability: holdfast.Durability{Fsync: true}}} {
		expect.Err(t, "a driver that cannot wait for replicas", expect.ErrOf(holdfast.New(struct{ driver.Driver }{d}, &cfg)), holdfast.ErrInvalid)
	}
	for what, rdb := range map[string]redis.UniversalClient{"no client": nil, "a nil client": none, "a Ring": ring} {
		_, err := holdfastgoredis.New(rdb, nil)
		expect.Err(t, what, err, holdfast.ErrInvalid)
		if what == "a Ring" && !strings.Contains(err.Error(), "Ring") {
			t.Errorf("a Ring is refused without a reason: %v", err)
		}
	}
}

func TestEndedContextsAreRefusedBeforeIO(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := unreachable(t).Mutex("a")
	_, err := l.Acquire(ctx)
	_, err2 := l.TryAcquire(ctx)
	_, err3 := l.Status(ctx)
	for _, err := range []error{err, err2, err3} {
		expect.Equal(t, "the error", err, context.Canceled)
	}
}

func TestOddNamesAreFine(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		for _, name := range []string{"a b", "a{b}c", "{", "日本", "a:b", `"quoted"`, "%s", strings.Repeat("x", 512)} {
			lease := backend.Acquire(t, c.Mutex(name))
			leases := queue(t, b.Client(t, nil).Mutex(name), 1)
			backend.Release(t, lease)
			backend.Release(t, backend.Receive(t, leases))
		}
		wantNoKeys(t, b)
	})
}

// journal is a client's log.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) config() *holdfast.Config {
	return &holdfast.Config{Logger: slog.New(slog.NewTextHandler(j, nil))}
}

// surveyed waits until a client has checked the server's settings: the server then has the script.
func surveyed(t testing.TB, b *backend.Backend) {
	t.Helper()
	backend.Eventually(t, "the settings were looked at", func() bool {
		known, err := b.Server.Do("SCRIPT", "EXISTS", script.Survey().SHA1)
		return err == nil && fmt.Sprint(known) == "[1]"
	})
}

// settled waits until a client does by itself nothing that a test would count: it has checked the server's settings, and
// listens to notices for operators, as it does once it has had a lease for a second. The client listens for as long as it has
// that lease: end releases it, and so does the end of the test.
func settled(t testing.TB, b *backend.Backend, c *holdfast.Client) (end func()) {
	t.Helper()
	lease := backend.Acquire(t, c.Mutex(fmt.Sprintf("settled %p", c), holdfast.TTL(5*time.Minute), holdfast.NoRenew()))
	end = func() { _ = lease.Release(context.Background()) } // fails if the test has ended the client
	t.Cleanup(end)
	surveyed(t, b)
	backend.Eventually(t, "the journal was read", func() bool {
		known, err := b.Server.Do("SCRIPT", "EXISTS", script.Notes().SHA1)
		return err == nil && fmt.Sprint(known) == "[1]"
	})
	return end
}

// use acquires and releases some locks in several goroutines.
func use(t testing.TB, c *holdfast.Client) {
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "a", "b"} {
		wg.Go(func() { backend.Release(t, backend.Acquire(t, c.Mutex(name))) })
	}
	wg.Wait()
}

func expectWarnings(t testing.TB, said string, want ...string) {
	t.Helper()
	if n := strings.Count(said, "level=WARN"); n != len(want) || n != strings.Count(said, "\n") {
		t.Errorf("want %d warnings, and nothing else; heard\n%s", len(want), said)
	}
	for _, w := range want {
		expect.Contains(t, "the log", said, w)
	}
	expect.Lacks(t, "the log", said, "canary")
}

// Fault: The server's settings make locks unsafe, such as an eviction policy. The client warns of each once, and not of others.
func TestWarnsOfUnsafeSettings(t *testing.T) {
	for policy, want := range map[string][]string{
		"noeviction": nil, "volatile-lru": {`seen="maxmemory-policy volatile-lru with maxmemory 104857600"`},
	} {
		t.Run(policy, func(t *testing.T) {
			backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
				var said journal
				client := b.Client(t, said.config(), func(o *redis.Options) { o.Username, o.Password = "default", "canary" })
				use(t, client)
				surveyed(t, b)
				if want != nil { // the answer may still be on its way, and a client that closes does not wait for it
					backend.Eventually(t, "a warning", func() bool { return said.String() != "" })
				}
				noError(t, client.Close(t.Context()))
				expectWarnings(t, said.String(), want...)
				if want != nil && !strings.Contains(said.String(), "server="+b.Server.Addr()) {
					t.Errorf("the server is not named: %s", &said)
				}
			}, server.Conf("maxmemory", "100mb"), server.Conf("maxmemory-policy", policy), server.Conf("requirepass", "canary"))
		})
	}
}

// A client that was forgotten when others became Strict says so: it would break their promise. They say nothing.
func TestWarnsIfOthersAreStrict(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		for _, strict := range []bool{true, false} {
			var said journal
			cfg := said.config()
			cfg.Strict = strict
			client := b.Client(t, cfg)
			want := []string(nil)
			if strict {
				expect.OK(t, inspect.New(client).ForceAdmit(t.Context()))
			} else {
				expect.Of(b.Server.Do("DEL", "holdfast:incarnation")).OK(t)
				expect.Of(b.Server.Do("HSET", "holdfast:incarnation", "of", "another type")).OK(t)
				want = []string{`seen="the server has been admitted to Strict mode`}
			}
			use(t, client)
			surveyed(t, b)
			if want != nil {
				backend.Eventually(t, "a warning", func() bool { return said.String() != "" })
			}
			noError(t, client.Close(t.Context()))
			expectWarnings(t, said.String(), want...)
		}
	})
}

// A user without INFO gets locks, no warning and no error, and leaves no entry in the server's ACL LOG.
func TestWithoutPermissionForTheSettings(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		expect.OK(t, expect.ErrOf(b.Server.Do("ACL", "SETUSER", "u", "on", ">canary", "~*", "&*", "+@all", "-info")))
		var said journal
		client := b.Client(t, said.config(), func(o *redis.Options) { o.Username, o.Password = "u", "canary" })
		use(t, client)
		surveyed(t, b)
		noError(t, client.Close(t.Context()))
		expectWarnings(t, said.String())
		log, err := b.Server.Do("ACL", "LOG")
		if entries, ok := log.([]any); err != nil || !ok || len(entries) != 0 {
			t.Errorf("ACL LOG: %v, %v", log, err)
		}
	}, server.Conf("maxmemory", "100mb"), server.Conf("maxmemory-policy", "allkeys-lru"))
}

// A replica refuses the lock, and the error also says what to do about it.
func TestWarnsOfAReplica(t *testing.T) {
	t.Parallel()
	bin := server.One(t)
	replica := server.StartReplica(t, bin, server.Start(t, bin))
	var said journal
	cfg := said.config()
	cfg.CommandTimeout, cfg.RetryTimeout = 6*time.Second, 8*time.Second // a late answer would be another warning
	client := backend.Open(t, cfg, &redis.Options{Addr: replica.Addr()})
	expect.Fails(t, "TryAcquire on a replica", expect.ErrOf(client.Mutex("a").TryAcquire(t.Context())))
	backend.Eventually(t, "the warning", func() bool { return said.String() != "" })
	noError(t, client.Close(t.Context()))
	expectWarnings(t, said.String(), `seen="role slave"`)
}

// mustNotRun is a run that must not happen.
func mustNotRun(t testing.TB) func(context.Context, *holdfast.Lease) (string, error) {
	return func(context.Context, *holdfast.Lease) (string, error) {
		t.Error("it runs again")
		return "again", nil
	}
}
