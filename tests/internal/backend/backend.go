// Package backend runs a test on every available server: the embedded one and each real one that the machine
// has.
package backend

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfastrueidis"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/holdfastvalkey"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Backend is a server that begins empty.
type Backend struct {
	Name   string
	Server *server.Server // nil for the embedded one
	memory *holdfasttest.Server

	// ViaClient is what Client sets in a client's configuration.
	ViaClient bool
}

// Embedded returns the embedded server.
func Embedded(tb testing.TB) *Backend {
	tb.Helper()
	return &Backend{Name: "embedded", memory: holdfasttest.Run(tb)}
}

// Real starts a real server of that kind with the given options.
func Real(tb testing.TB, bin server.Binary, opts ...server.Option) *Backend {
	tb.Helper()
	machine.ReportFailure(tb)
	return &Backend{Name: bin.Name, Server: server.Start(tb, bin, opts...)}
}

// One starts a real server, for tests in which its kind does not matter.
func One(tb testing.TB, opts ...server.Option) *Backend {
	tb.Helper()
	return Real(tb, server.One(tb), opts...)
}

// Each runs f as a subtest on the embedded server, in virtual time, and on every real one, as EachReal does.
func Each(t *testing.T, f func(t *testing.T, b *Backend)) {
	EachReal(t, f)
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		embedded(t, f)
	})
}

// EachReal runs f as a subtest on every real server, all at once and in parallel with other tests. Each server is started with the
// given options. The subtests begin when the calling test function has returned.
func EachReal(t *testing.T, f func(t *testing.T, b *Backend), opts ...server.Option) {
	server.Each(t, func(t *testing.T, bin server.Binary) { f(t, Real(t, bin, opts...)) })
}

// EachLong is Each for tests that wait until leases expire or are renewed. With -short, real servers are skipped: there such
// a test takes seconds, and may fail if the machine stands still for longer than a lease lasts.
func EachLong(t *testing.T, f func(t *testing.T, b *Backend)) {
	if !testing.Short() {
		Each(t, f)
		return
	}
	t.Parallel()
	t.Run("embedded", func(t *testing.T) { embedded(t, f) })
}

// EachInTurn is Each, but tests one server at a time, for tests that look at the whole process.
func EachInTurn(t *testing.T, f func(t *testing.T, b *Backend)) {
	t.Run("embedded", func(t *testing.T) { embedded(t, f) })
	EachRealInTurn(t, f)
}

// EachRealInTurn is EachReal, but tests one server at a time, for tests that load or measure the machine.
func EachRealInTurn(t *testing.T, f func(t *testing.T, b *Backend), opts ...server.Option) {
	for _, bin := range server.Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) { f(t, Real(t, bin, opts...)) })
	}
}

// Seed returns the nth seed of a test: with -short the same in every run, otherwise another. The test logs it when it fails.
func Seed(n int) uint64 {
	if testing.Short() {
		return uint64(n)
	}
	return rand.Uint64()
}

// AtOnce lets up to n tests run at once, unless -parallel says otherwise. It is for packages whose tests mostly
// wait for clocks, restarts and deadlines. TestMain calls it before anything looks at the flags.
func AtOnce(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}

// long is how long claims and leases last with LongLeases.
const long = time.Minute

// LongLeases lets leases without a TTL last for a minute, and also the claim of a waiter that is handed a lock, which is
// otherwise over when a machine stands still for 1.5 s. TestMain calls it.
func LongLeases() { engine.MinClaim = long }

// options returns the options of a go-redis client of the server.
func (b *Backend) options(change ...func(*redis.Options)) *redis.Options {
	o := &redis.Options{Addr: "127.0.0.1:0"} // a name would be looked up, in real time
	if b.Server != nil {
		o.Addr = b.Server.Addr()
	} else {
		o.Dialer = b.memory.Dial
		// go-redis has one set of timers for all goroutines that wait for a connection, across bubbles. With a
		// pool this large nobody waits.
		o.PoolSize = 4096
		// With these notifications go-redis would ask the resolver for the address.
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	}
	for _, f := range change {
		f(o)
	}
	return o
}

// Redis returns a new client of the server, closed with the test.
func (b *Backend) Redis(tb testing.TB, change ...func(*redis.Options)) *redis.Client {
	tb.Helper()
	patient := func(o *redis.Options) { o.ReadTimeout, o.WriteTimeout = 30*time.Second, 30*time.Second } // for a busy machine
	rdb := redis.NewClient(b.options(append([]func(*redis.Options){patient}, change...)...))
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Dial connects to the server.
func (b *Backend) Dial(ctx context.Context) (net.Conn, error) { return dial(ctx, b.options()) }

func dial(ctx context.Context, o *redis.Options) (net.Conn, error) {
	if o.Dialer != nil {
		return o.Dialer(ctx, "tcp", o.Addr)
	}
	return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", o.Addr)
}

// Client returns a new holdfast client with connections of its own, like one in another process. It is closed
// with the test.
func (b *Backend) Client(tb testing.TB, cfg *holdfast.Config, change ...func(*redis.Options)) *holdfast.Client {
	tb.Helper()
	if b.ViaClient {
		own := holdfast.Config{}
		if cfg != nil {
			own = *cfg
		}
		own.ViaClient, cfg = true, &own
	}
	return Open(tb, cfg, b.options(change...))
}

// envAdapter names the adapter that the tests' clients use: "go-redis", the default, "rueidis" or "valkey".
// Tests of one adapter ignore it.
const envAdapter = "HOLDFAST_TEST_ADAPTER"

// Adapter returns the name of the adapter that the tests' clients use: "go-redis", "rueidis" or "valkey".
func Adapter(tb testing.TB) string {
	tb.Helper()
	switch adapter := os.Getenv(envAdapter); adapter {
	case "":
		return "go-redis"
	case "go-redis", "rueidis", "valkey":
		return adapter
	default:
		tb.Fatalf("%s=%q: want go-redis, rueidis or valkey", envAdapter, adapter)
		return ""
	}
}

// Pipelines reports whether commands of the tests' clients share a connection, as with rueidis and with
// valkey-go, which is derived from it.
func Pipelines(tb testing.TB) bool {
	tb.Helper()
	return Adapter(tb) != "go-redis"
}

// NeedsSentinel skips a test about Sentinel if the adapter does not support it.
func NeedsSentinel(tb testing.TB) {
	tb.Helper()
	if Adapter(tb) == "valkey" {
		tb.Skip("SKIPPED: holdfastvalkey does not support Sentinel")
	}
}

// Open returns a new holdfast client of a server, closed with the test. With rueidis or valkey-go, only the
// options for the server's address and the credentials have an effect.
func Open(tb testing.TB, cfg *holdfast.Config, o *redis.Options) *holdfast.Client {
	tb.Helper()
	return New(tb, cfg, Connect(tb, o))
}

// New returns a new holdfast client with a driver, closed with the test.
func New(tb testing.TB, cfg *holdfast.Config, d driver.Driver) *holdfast.Client {
	tb.Helper()
	c := expect.Of(holdfast.New(d, patient(cfg))).OK(tb)
	CloseWith(tb, c)
	return c
}

// Connect returns the driver of a client that Open returns.
func Connect(tb testing.TB, o *redis.Options) drivertest.Driver {
	tb.Helper()
	dial := func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return dial(ctx, o)
	}
	switch Adapter(tb) {
	case "rueidis":
		return drivertest.Of(holdfastrueidis.NewDriver(rueidis.ClientOption{
			InitAddress: []string{o.Addr}, Username: o.Username, Password: o.Password, SelectDB: o.DB, DialCtxFn: dial,
		}))
	case "valkey":
		return drivertest.Of(holdfastvalkey.NewDriver(valkey.ClientOption{
			InitAddress: []string{o.Addr}, Username: o.Username, Password: o.Password, SelectDB: o.DB, DialCtxFn: dial,
		}))
	}
	rdb := redis.NewClient(o)
	tb.Cleanup(func() { _ = rdb.Close() })
	return drivertest.Of(holdfastgoredis.NewDriver(rdb))
}

// patient returns cfg with timeouts, where it sets none, that a busy machine does not reach if it stands still
// for seconds. With them, tombstones last for 51 s.
func patient(cfg *holdfast.Config) *holdfast.Config {
	var own holdfast.Config
	if cfg != nil {
		own = *cfg
	}
	if own.TTL == 0 && engine.MinClaim == long {
		own.TTL = min(long, cmp.Or(own.MaxTTL, long))
	}
	if own.CommandTimeout == 0 && own.RetryTimeout == 0 {
		own.CommandTimeout, own.RetryTimeout = 20*time.Second, 30*time.Second
	}
	return &own
}

// CloseWith closes a client when the test ends. CloseWith waits a second for the client's leases. In virtual
// time it waits until they have expired, since a bubble ends only when all its goroutines have ended.
func CloseWith(tb testing.TB, c *holdfast.Client) {
	tb.Cleanup(func() {
		limit := time.Second
		if clock.InBubble() {
			limit = 48 * time.Hour // longer than any lease
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		_ = c.Close(ctx)
	})
}

// Keys returns the server's keys, sorted, without the fence counter.
func (b *Backend) Keys(tb testing.TB) []string {
	tb.Helper()
	return keys(tb, b.Redis(tb))
}

func keys(tb testing.TB, rdb *redis.Client) []string {
	tb.Helper()
	all, err := rdb.Keys(context.Background(), "*").Result()
	if err != nil && !errors.Is(err, context.Canceled) {
		tb.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(k string) bool { return k == "holdfast:fences" })
	slices.Sort(all)
	return all
}

// Cleaned waits until no key of any lock is left on the server.
func (b *Backend) Cleaned(tb testing.TB) {
	tb.Helper()
	rdb := b.Redis(tb)
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("left: %q", keys(tb, rdb))
		}
	})
	Eventually(tb, "the keys are gone", func() bool { return len(keys(tb, rdb)) == 0 })
}

// Eventually waits until f returns true, for effects that happen in the background and cannot be waited for
// otherwise. It fails the test after five minutes, far longer than any run takes.
func Eventually(tb testing.TB, what string, f func() bool) {
	tb.Helper()
	for began := time.Now(); !f(); {
		took := time.Since(began)
		if took > 5*time.Minute {
			tb.Fatalf("not within %s: %s\n%s", took.Truncate(time.Second), what, machine.Report(began))
		}
		// Effects that take seconds need not be checked all the time.
		time.Sleep(min(max(took/50, 2*time.Millisecond), 50*time.Millisecond))
	}
}

// Channels returns the channels that clients hear. It leaves out the one on which holders hear what operators do: a client
// goes on hearing that for some time after its last lease.
func Channels(tb testing.TB, rdb *redis.Client) []string {
	tb.Helper()
	all := expect.Of(rdb.PubSubChannels(tb.Context(), "*").Result()).OK(tb)
	return slices.DeleteFunc(all, func(name string) bool { return name == "holdfast:c:h" })
}

// Told waits until a channel is closed: a lease's Done, or Revoked.
func Told(tb testing.TB, what string, closed <-chan struct{}) {
	tb.Helper()
	Eventually(tb, what, func() bool {
		select {
		case <-closed:
			return true
		default:
			return false
		}
	})
}

// Waiters waits until n processes are queued for the lock.
func Waiters(tb testing.TB, l *holdfast.Lock, n int) {
	tb.Helper()
	Eventually(tb, "the queue has the waiters", func() bool {
		waiting, err := Waiting(tb.Context(), l)
		return err == nil && waiting == n
	})
}

// Seen returns, as an operator sees it, the holder of a lock that has that fence, or whose fence the server does not show yet. It fails
// the test if there is none.
func Seen(tb testing.TB, in *inspect.Inspector, name string, fence uint64) holdfast.Holder {
	tb.Helper()
	s, err := in.Get(tb.Context(), name)
	i := slices.IndexFunc(s.Holders, func(h holdfast.Holder) bool { return IsShown(h.Fence, fence) })
	if err != nil || i < 0 {
		tb.Fatalf("nobody holds %q with fence %d: %+v, %v", name, fence, s, err)
	}
	return s.Holders[i]
}

// IsShown reports whether what the server shows of a grant can be this fence: it shows 0 before it has been told.
func IsShown(shown, fence uint64) bool { return shown == 0 || shown == fence }

// Acquire acquires the lock, or fails the test.
func Acquire(tb testing.TB, l *holdfast.Lock) *holdfast.Lease {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 20*time.Second)
	defer cancel()
	began := time.Now()
	lease, err := l.Acquire(ctx)
	if err != nil {
		tb.Fatalf("Acquire(%q): %v\n%s", l.Name(), err, machine.Report(began))
	}
	return lease
}

// Claim is how long a waiter is handed a lock for, before it has renewed it.
const Claim = 1500 * time.Millisecond

// Release releases the lease, or fails the test. The lease may have been handed over just before.
func Release(tb testing.TB, l *holdfast.Lease) {
	tb.Helper()
	ReleaseSince(tb, time.Now().Add(-Claim), l)
}

// ReleaseSince is Release for a lease that began after began. If the process has stood still since, the claim
// of a lock that was handed over may have ended before it was renewed.
func ReleaseSince(tb testing.TB, began time.Time, l *holdfast.Lease) {
	tb.Helper()
	if err := ReleasedSince(began, l); err != nil {
		tb.Fatalf("Release(%q): %v\n%s", l.Name(), err, machine.Report(began))
	}
}

// ReleasedSince is Released for a lease that began after began. The lease may have ended while it was being
// released, or because the process has stood still since.
func ReleasedSince(began time.Time, l *holdfast.Lease) error {
	held, deadline := l.Err() == nil, l.Deadline()
	err := Released(l)
	if errors.Is(err, holdfast.ErrLost) && (held && time.Now().After(deadline) || machine.Stalled(began)) {
		return nil
	}
	return err
}

// Released releases the lease. A missing answer is no error if the process stood still meanwhile.
func Released(l *holdfast.Lease) error {
	began := time.Now()
	err := l.Release(context.Background())
	if errors.Is(err, holdfast.ErrAmbiguous) && machine.Stalled(began) {
		return nil
	}
	return err
}

// Start acquires the lock in a goroutine.
func Start(tb testing.TB, l *holdfast.Lock) <-chan *holdfast.Lease {
	tb.Helper()
	leases := make(chan *holdfast.Lease, 1)
	go func() {
		lease, err := l.Acquire(tb.Context())
		if err != nil && tb.Context().Err() == nil {
			tb.Errorf("Acquire(%q): %v", l.Name(), err)
		}
		leases <- lease
	}()
	return leases
}

// Receive waits for the lease from Start.
func Receive(tb testing.TB, leases <-chan *holdfast.Lease) *holdfast.Lease {
	tb.Helper()
	began := time.Now()
	for limit := 20 * time.Second; ; limit = 4 * machine.HeldUp(began) {
		select {
		case l := <-leases:
			if l == nil {
				tb.Fatal("no lease")
			}
			return l
		case <-time.After(limit):
		}
		// A waiter that misses its notification gets the lock when it looks by itself, after 30 s. If the
		// machine held the process up meanwhile, a late lease proves nothing.
		if took := time.Since(began); took > time.Minute || machine.HeldUp(began) < time.Second {
			tb.Fatalf("a waiter was not served within %v\n%s", took.Truncate(time.Second), machine.Report(began))
		}
	}
}

// quiet is a logger for go-redis, which logs every dial that fails. Errors that matter are returned anyway, and
// a test's own log would be lost among these lines.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(quiet{}) }
