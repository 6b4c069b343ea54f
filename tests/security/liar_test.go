package security

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
	"github.com/holdfast-go/holdfast/transfer"
)

// liar is a server that answers scripts with lies, and sends lies to subscribers.
type liar struct {
	replies, news tape
	evals, told   atomic.Int64
	down          context.Context // ends the notifications
	end           func()          // ends down, as the test's bubble does

	mu    sync.Mutex
	token string // the latest that it received
	key   string
}

// tape has a byte for every choice of a word or a number. It repeats.
type tape struct {
	bytes []byte
	at    atomic.Int64
}

func (d *tape) byte() byte {
	if len(d.bytes) == 0 {
		return 0
	}
	return d.bytes[int(d.at.Add(1)-1)%len(d.bytes)]
}

// number returns a number that programs may fail to expect.
func (d *tape) number() string {
	now := time.Now().UnixMicro()
	all := []int64{
		0, 1, -1, -2, 2, 1500, 15000, 60000, 1 << 31, 1 << 53, 9e15, 9e15 + 1, 9.2e18, math.MaxInt64, math.MinInt64, -9e15,
		now, now + 1, now - 1e6, now + 1e6, now + 3600e6, math.MaxInt64 / 1000, math.MaxInt64 / 1000000, math.MaxInt64/1000000 + 1,
	}
	b := int(d.byte())
	if b == 255 {
		return "9223372036854775808"
	}
	return fmt.Sprint(all[b%len(all)])
}

// reply returns a script's reply, which usually has a possible form.
func (d *tape) reply() (string, error) {
	word := []string{"granted", "held", "queued", "gone", "late", "renewed", "released", "left", "free", "taken", "freed", "kept", "error", "raw", "fail", "refuse", "slow", "adopted", "absent"}[int(d.byte())%19]
	switch word {
	case "error":
		return "error " + d.rubbish(), nil
	case "raw":
		return d.rubbish(), nil
	case "fail":
		return "", errors.New(d.rubbish())
	case "refuse":
		return "", driver.ReplyError(d.rubbish())
	case "slow":
		time.Sleep(3 * time.Second)
		return "gone " + d.number(), nil
	}
	now := fmt.Sprint(time.Now().UnixMicro())
	if d.byte()%4 == 0 {
		now = d.number()
	}
	fields := []string{word, now}
	for range d.byte() % 6 {
		fields = append(fields, d.number())
	}
	if d.byte()%2 == 0 {
		fields = append(fields, d.rubbish())
	}
	return strings.Join(fields, " "), nil
}

var (
	manyXs    = strings.Repeat("x", 100_000)
	deepValue = "hf2:t:1:1:0:" + strings.Repeat("[", 5000)
	longOwner = "hf2:t:1:1:0:{\"o\":\"" + strings.Repeat("o", 100_000) + "\"}+"
)

// rubbish returns text that terminals obey, people believe and programs cannot handle.
func (d *tape) rubbish() string {
	return []string{
		"", " ", "ours", "foreign", "\x1b[2J\x07", "\u202egnp.exe", "\xff\xfe", manyXs, "OOM \x00", "BUSY", "LOADING",
		"NOPERM", "TRYAGAIN \r\n", "WRONGTYPE \u009b31m", "READONLY", "hf2:" + d.number() + ":" + d.number() + ":" + d.number() + ":0:{\"o\":\"\\u001b[2J\"}",
		deepValue, longOwner, "MISCONF", "NOREPLICAS",
	}[int(d.byte())%20]
}

func (d *liar) Run(ctx context.Context, call driver.Call) (string, error) {
	d.evals.Add(1)
	d.mu.Lock()
	d.token, d.key = call.Args[min(1, len(call.Args)-1)], call.Keys[0]
	if strings.HasPrefix(call.Script.Name, "batch_") {
		_, d.token, _ = strings.Cut(strings.TrimSuffix(call.Args[len(call.Args)-1], ":"), ":")
	}
	d.mu.Unlock()
	time.Sleep(time.Millisecond)
	return d.replies.reply()
}

func (d *liar) Node(string) string { return d.news.rubbish() }

func (d *liar) RunDurably(ctx context.Context, call driver.Call, want driver.Durability) (string, driver.Confirmation, error) {
	text, err := d.Run(ctx, driver.Call{Script: call.Script, Keys: call.Keys, Args: call.Args, Urgent: true})
	return text, driver.Confirmation{Replicas: int(int8(d.news.byte())), Fsync: d.news.byte()%2 == 0}, err
}

func (d *liar) Probe(context.Context) (driver.ServerInfo, error) {
	info := driver.ServerInfo{Server: "redis", Version: "7.0.0", Cluster: d.news.byte()%4 == 0, Time: time.Now()}
	switch d.news.byte() % 8 {
	case 0:
		info.Time = time.UnixMicro(math.MaxInt64)
	case 1:
		info.Time = time.UnixMicro(math.MinInt64)
	case 2:
		info.Server, info.Version = "\x1b", "99999999999999999999.\u202e"
	case 3, 4:
		info.Server, info.Version = "valkey", "9.0.0" // with commands of its own
	}
	return info, nil
}

func (d *liar) Addr() string { return "liar" }
func (d *liar) Close() error { return nil }

// ears is a subscription to a liar.
func (d *liar) Subscribe(sink driver.Subscription) (cancel func()) {
	ctx, cancel := context.WithCancel(d.down)
	go func() {
		for ctx.Err() == nil {
			d.told.Add(1)
			switch d.news.byte() % 8 {
			case 0:
				sink.Down(errors.New(d.news.rubbish()))
			case 1:
				sink.Down(driver.ReplyError("NOPERM"))
			case 2, 3:
				sink.Message(d.message())
			default:
				sink.Up()
			}
			select {
			case <-time.After(time.Duration(1+int(d.news.byte())) * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	return cancel
}

// message returns a notification, for an existing waiter or not.
func (d *liar) message() string {
	d.mu.Lock()
	token, key := d.token, d.key
	d.mu.Unlock()
	switch d.news.byte() % 8 {
	case 0:
		token = "stray"
	case 1:
		key = d.news.rubbish()
	case 2:
		return d.news.rubbish()
	}
	if d.news.byte()%2 == 0 {
		return "hf2 standby " + token + " " + d.news.number() + " " + d.news.number()
	}
	return "hf2 grant " + token + " " + d.news.number() + " " + d.news.number() + " " + d.news.number() + " " + key
}

// bubble is synctest.Test on one processor, since the race detector of Go 1.26 crashes when two timers of a bubble fire
// in parallel. This package as a whole needs more: so many clients that renew keep each other waiting on one.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, f)
}

// begin returns a client of a server that is made of this liar, in virtual time.
func (d *liar) begin(t *testing.T, server drivertest.Driver, cfg *holdfast.Config) *holdfast.Client {
	t.Helper()
	t.Cleanup(clock.SetBoot(func() time.Duration { return 0 }))
	d.down, d.end = context.WithCancel(context.Background())
	t.Cleanup(d.end)
	return expect.Of(holdfast.New(server, cfg)).OK(t)
}

// lie makes a client work with a server that answers like this. It checks that the client does not panic, hang
// or flood the server, does not believe the impossible, and does not show secrets.
func lie(t *testing.T, replies, news []byte) {
	bubble(t, func(t *testing.T) {
		d := &liar{replies: tape{bytes: replies}, news: tape{bytes: news}}
		c := d.begin(t, d, &holdfast.Config{MaxTTL: time.Minute})
		ctx, begun := context.Background(), time.Now()
		// did does something, which must not take longer than limit.
		did := func(what string, limit time.Duration, do func() error) error {
			began := time.Now()
			err := do()
			expect.AtMost(t, "the time of "+what, time.Since(began), limit)
			if err != nil {
				presentable(t, what, err)
			}
			return err
		}
		believes := func(what string, lease *holdfast.Lease) {
			expect.AtMost(t, what+": the lease's time", time.Until(lease.Deadline()), time.Minute)
		}
		use := func(what string, lease *holdfast.Lease) {
			if lease == nil {
				return
			}
			believes(what, lease)
			_ = did("Extend", 8*time.Second, func() error { return lease.Extend(ctx, 30*time.Second) })
			believes("Extend", lease)
			time.Sleep(5 * time.Second)
			ticket, err := got(did, "Detach", 12*time.Second, func() (transfer.Ticket, error) { return transfer.Detach(ctx, lease, 30*time.Second) })
			if err == nil {
				_ = did("Extend", 8*time.Second, func() error { return transfer.Extend(ctx, c, ticket, 30*time.Second) })
				heir, err := got(did, "Adopt", 20*time.Second, func() (*holdfast.Lease, error) { return transfer.Adopt(ctx, c, ticket) })
				if err == nil {
					believes("Adopt", heir)
					_ = did("Release of what was adopted", 16*time.Second, func() error { return heir.Release(ctx) })
				}
			}
			_ = did("Release", 16*time.Second, func() error { return lease.Release(ctx) })
		}
		const patience = 20 * time.Second
		var wg sync.WaitGroup
		for i, l := range []*holdfast.Lock{c.Mutex("a"), c.Mutex("a"), c.Mutex("b", holdfast.NoRenew()), c.Mutex("c", holdfast.Poll(time.Second), holdfast.Wait(4*time.Second))} {
			wg.Go(func() {
				short, cancel := context.WithTimeout(ctx, patience)
				defer cancel()
				what := fmt.Sprint("Acquire ", i)
				lease, _ := got(did, what, patience+time.Second, func() (*holdfast.Lease, error) { return l.Acquire(short) })
				use(what, lease)
				lease, _ = got(did, "TryAcquire", patience, func() (*holdfast.Lease, error) { return l.TryAcquire(short) })
				use("TryAcquire", lease)
				h, err := got(did, "Holder", 8*time.Second, func() (holdfast.Holder, error) { return backend.HolderOf(ctx, l) })
				if err == nil && (len(h.Identity) > 1024 || h.Since.Year() > 9999) {
					t.Errorf("a holder since %s with a name of %d bytes", h.Since, len(h.Identity))
				}
			})
		}
		wg.Wait()
		expect.Err(t, "Close", did("Close", 3*time.Minute, func() error { return c.Close(ctx) }), nil)
		d.end()
		synctest.Wait()
		// A message on a subscription is a reason to look, or to give something back.
		took := time.Since(begun)
		if most := 1000 + int64(200*took.Seconds()) + 8*d.told.Load(); d.evals.Load() > most {
			t.Errorf("%d scripts within %s, after %d notifications", d.evals.Load(), took, d.told.Load())
		}
	})
}

// got is did for a call that returns something.
func got[T any](
	did func(string, time.Duration, func() error) error, what string, limit time.Duration, get func() (T, error),
) (value T, err error) {
	err = did(what, limit, func() error {
		value, err = get()
		return err
	})
	return value, err
}

// presentable checks the text of an error.
func presentable(t *testing.T, what string, err error) {
	t.Helper()
	text := err.Error()
	expect.AtMost(t, what+": bytes of the error", len(text), 2000)
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("%s: an error that does not print: %.300q", what, text)
	}
}

// FuzzLyingServer looks for replies and notifications that break a client.
func FuzzLyingServer(f *testing.F) {
	for _, word := range []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 17, 18} { // every word that is answered at once for ever, with the right number of fields
		for n := word % 8; n < 24; n += 8 {
			f.Add([]byte{word, 1, 4, n, n, n, n, 1}, []byte{4, 255})
		}
		f.Add([]byte{word, 1, 0, 1}, []byte{4, 4})
		f.Add([]byte{word, 1, 4, 5, 3, 1, 3, 0, 0}, []byte{3, 9, 1, 2, 6})
	}
	f.Add([]byte("2\xbb%\x1e\b+0"), []byte("g")) // slow to answer, so that a waiter's departure is waited for
	f.Fuzz(lie)
}

// Fault: The server answers at random. No panic, no hang, and no lease beyond MaxTTL.
func TestALyingServer(t *testing.T) {
	seeds := uint64(40)
	if soak.Long() {
		seeds = 10_000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			chance := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
			replies, news := make([]byte, 40+seed%50), make([]byte, 20+seed%30)
			_, _ = chance.Read(replies)
			_, _ = chance.Read(news)
			lie(t, replies, news)
		})
	}
}

// flood is a server that answers only one release: that of what a waiter has given up. It can send the client
// any number of grants.
type flood struct {
	liar
	sink       driver.Subscription
	token, key string // of the waiter
	releases   atomic.Int64
	busy, most atomic.Int64
}

func (d *flood) Probe(context.Context) (driver.ServerInfo, error) {
	return driver.ServerInfo{Server: "redis", Version: "7.0.0", Time: time.Now()}, nil
}

func (d *flood) Run(ctx context.Context, call driver.Call) (string, error) {
	now := time.Now().UnixMicro()
	switch call.Script.Name {
	case "release":
	case "status":
		return fmt.Sprintf("status %d nothing 0 0 -1 0 0 0", now), nil
	case "survey": // it runs beside the acquires
		return "", driver.ReplyError("ERR unknown")
	default:
		if strings.Contains(call.Args[0], "t") { // a caller that only tries is not queued
			return fmt.Sprintf("held %d 15000 1 ", now), nil
		}
		d.token, d.key = call.Args[1], call.Keys[0]
		return fmt.Sprintf("queued %d 15000 %d 1 1 ours", now, now), nil
	}
	if d.releases.Add(1) == 1 {
		return fmt.Sprintf("gone %d", now), nil
	}
	d.most.Store(max(d.most.Load(), d.busy.Add(1)))
	defer d.busy.Add(-1)
	<-ctx.Done()
	return "", ctx.Err()
}

func (d *flood) Subscribe(sink driver.Subscription) (cancel func()) {
	sub, cancel := context.WithCancel(d.down)
	d.sink = sink
	go func() {
		sink.Up()
		<-sub.Done()
	}()
	return cancel
}

// sends sends the client 20,000 messages that a lock was granted to a token.
func (d *flood) sends(token, key string) {
	for range 20_000 {
		d.sink.Message(fmt.Sprintf("hf2 grant %s %d 9223372036854775807 1 %s", token, time.Now().UnixMicro(), key))
	}
	synctest.Wait()
}

// Fault: A stranger publishes grants on a client's channel. The client releases what it waited for and gave up, a few
// at a time, but no other tokens or locks.
func TestAFloodOfStrayGrantsIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := &flood{}
		c := d.begin(t, d, nil)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		expect.Err(t, "Acquire", expect.ErrOf(c.Mutex("a").Acquire(ctx)), context.DeadlineExceeded)
		time.Sleep(time.Second)
		expect.Equal(t, "releases of what the waiter had", d.releases.Load(), 1)
		d.sends("stray", d.key)
		d.sends("AAAAAAAAAAAAAAAAAAAAAA", d.key)
		d.sends(d.token, "holdfast:{b}")
		expect.Equal(t, "releases", d.releases.Load(), 1)
		d.sends(d.token, d.key)
		expect.Between(t, "releases at once", d.most.Load(), 2, 64)
		expect.Err(t, "Close", c.Close(context.Background()), nil)
	})
}

// gossip is a server that never stops naming holders and waiters.
type gossip struct {
	flood
	tell  func(page int) string // what follows the server's time
	pages atomic.Int64
}

func (d *gossip) Run(_ context.Context, call driver.Call) (string, error) {
	if call.Script.Name != "status" {
		return "", driver.ReplyError("ERR not asked")
	}
	return fmt.Sprintf("status %d %s", time.Now().UnixMicro(), d.tell(int(d.pages.Add(1)))), nil
}

// Whatever a server says, a status is bounded, and so is the number of requests for it.
func TestAStatusIsBounded(t *testing.T) {
	for what, test := range map[string]struct {
		tell    func(page int) string
		refused bool
		holders int
		pages   int64
	}{
		"other holders for ever": {
			tell: func(page int) string {
				holders := ""
				for i := range 1000 {
					holders += fmt.Sprintf("\n1 1 hf2:%d-%d:1:1:0:{}", page, i)
				}
				return "rw 1 1000000000 -1 0 7 1000" + holders
			},
			holders: 100_000, pages: 100,
		},
		"the same holder for ever": {
			tell:    func(int) string { return "rw 1 1000000000 -1 0 7 1\n1 1 hf2:A:1:1:0:{}" },
			refused: true, pages: 10_000,
		},
		"nobody for ever": {tell: func(int) string { return "nothing 1 1 -1 0 7 0" }, refused: true, pages: 10_000},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := &gossip{tell: test.tell}
				c := d.begin(t, d, nil)
				s, err := c.RWMutex("a").Status(t.Context())
				if (err != nil) != test.refused || len(s.Holders) != test.holders || d.pages.Load() != test.pages {
					t.Errorf("%d holders after %d requests, %v; want %d after %d", len(s.Holders), d.pages.Load(), err, test.holders, test.pages)
				}
				if err != nil {
					presentable(t, "Status", err)
				}
				expect.Err(t, "Close", c.Close(t.Context()), nil)
			})
		})
	}
}
