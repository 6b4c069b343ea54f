package engine

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/compact"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/schedule"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Client hands out locks on one server, or one Cluster. It is safe for use by many
// goroutines; a process needs one.
type Client struct {
	driver   driver.Driver
	cfg      Config
	space    keys.Space
	id       string // names the channel on which this client is notified
	made     tokens
	host     string
	defaults settings // of locks

	notifier   *notify.Notifier
	ownChannel string        // on which the client is notified outside Cluster mode
	strays     chan struct{} // holds an item for each stray grant that is being given back
	schedule   schedule.Scheduler
	epoch      clock.Reading // from which the slots of renewals are counted

	closing   chan struct{}
	closeOnce sync.Once
	closeErr  error
	closed    chan struct{}
	tasks     tasks
	held      tasks // one for each grant that is not over
	batches   batches
	singles   crew // of renewals to servers of a Cluster that are not known
	takers    takers
	leftovers crew // of what the server may have of lost leases
	choices   choices
	departing departures

	mu     sync.Mutex
	lines  compact.Map[string, *line]
	tried  compact.Map[string, *grant]   // taken past all lines, by the keys of those
	tokens compact.Map[string, *attempt] // that notifications may be about
	clocks map[uint16]clockAnchor        // of servers, by slot; slot 0 outside Cluster mode

	contact *contact // under way; guarded by mu
	info    atomic.Pointer[driver.ServerInfo]
	native  atomic.Bool // the server has DELIFEQ, as far as is known
	written atomic.Bool // the server has taken a write
	rtt     roundTrip

	survey   sync.Once
	warnings warnings
}

// New returns a Client that reaches its server through an adapter, such as
// holdfastgoredis. It does no I/O: a server that cannot be reached, or is too old,
// shows at the first acquire. A nil cfg means the defaults.
func New(d driver.Driver, cfg *Config) (*Client, error) {
	if d == nil {
		return nil, fmt.Errorf("%w: the driver is nil", ErrInvalid)
	}
	var c Config
	if cfg != nil {
		c = *cfg
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	if err := c.fill(host); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	space, err := keys.NewSpace(c.Prefix)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	client := &Client{
		driver:  d,
		cfg:     c,
		space:   space,
		id:      randomText(),
		host:    host,
		epoch:   clock.Mono(),
		closing: make(chan struct{}),
		closed:  make(chan struct{}),

		clocks: map[uint16]clockAnchor{},
	}
	client.defaults = settings{
		ttl:         c.TTL,
		kind:        &mutex,
		renew:       true,
		maxRenewals: -1,
		owner:       c.Owner,
	}
	if client.defaults.info, err = client.holderInfo(c.Owner).Encode(); err != nil {
		return nil, fmt.Errorf("%w: Config.Owner: %w", ErrInvalid, err)
	}
	client.made.init()
	client.ownChannel = space.Channel(client.id)
	client.strays = make(chan struct{}, maxStrays)
	client.notifier = newNotifier(client)
	client.batches.init(client)
	client.singles = crew{tasks: &client.tasks, most: maxRenewing}
	client.takers.init(client)
	client.leftovers = crew{tasks: &client.tasks, most: maxLeftovers}
	return client, nil
}

// holderInfo says of a holder who it is.
func (c *Client) holderInfo(owner string) wire.Info {
	return wire.Info{Owner: owner, Host: c.host, PID: os.Getpid()}
}

// fill puts in the defaults and refuses what makes no sense.
func (c *Config) fill(host string) error {
	maxTTL := 24 * time.Hour
	if c.Strict {
		maxTTL = time.Minute
	}
	for _, d := range []struct {
		name     string
		value    *time.Duration
		fallback time.Duration
	}{
		{"CommandTimeout", &c.CommandTimeout, 2 * time.Second},
		{"MaxTTL", &c.MaxTTL, maxTTL},
		{"RetryTimeout", &c.RetryTimeout, 3 * time.Second},
		{"TTL", &c.TTL, 15 * time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
		if *d.value < minTTL {
			return fmt.Errorf("a Config.%s of %s is not possible; at least %s is needed", d.name, *d.value, minTTL)
		}
		if *d.value > maxMaxTTL {
			return fmt.Errorf("a Config.%s of %s is not possible; at most %s is", d.name, *d.value, maxMaxTTL)
		}
	}
	if c.TTL > c.MaxTTL {
		return fmt.Errorf("a Config.TTL of %s is above MaxTTL, %s", c.TTL, c.MaxTTL)
	}
	switch {
	case c.Quarantine != 0 && !c.Strict:
		return errors.New("Config.Quarantine has a meaning in Strict mode only")
	case c.Quarantine != 0 && c.Quarantine < c.MaxTTL:
		return fmt.Errorf("a Config.Quarantine of %s is shorter than MaxTTL, %s: leases could outlive it", c.Quarantine, c.MaxTTL)
	case c.Quarantine > 2*maxMaxTTL:
		return fmt.Errorf("a Config.Quarantine of %s is not possible; at most %s is", c.Quarantine, 2*maxMaxTTL)
	}
	if c.Batch == 0 || c.Batch > maxBatch {
		c.Batch = maxBatch
	}
	if c.LocalHandovers == 0 {
		c.LocalHandovers = 64
	}
	if c.Prefix == "" {
		c.Prefix = "holdfast:"
	}
	if c.Owner == "" {
		c.Owner = host + ":" + strconv.Itoa(os.Getpid()) + ":" + randomText()[:4]
	}
	return nil
}

// minTTL leaves something of a lease after drift has taken its 2 ms.
const minTTL = 5 * time.Millisecond

// maxMaxTTL keeps TTLs, and sums of timeouts, within what clocks, and milliseconds in Lua,
// can count.
const maxMaxTTL = 10 * 365 * 24 * time.Hour

// randomText returns 128 random bits in 22 characters.
func randomText() string {
	var bits [16]byte
	_, _ = rand.Read(bits[:]) // never fails, since Go 1.24
	return base64.RawURLEncoding.EncodeToString(bits[:])
}

// Close ends the client: waiters return ErrClosed and leave their queues; the
// contexts of leases end with the cause ErrClosed, and their Err says so; nothing is
// renewed any more. It then waits until every lease was released, or has expired, or
// ctx ends: a lock is not given away under a holder that may still be working. What
// is not released then expires with its TTL; the client's connections are closed after
// that. A second Close waits for the first.
func (c *Client) Close(ctx context.Context) error {
	c.closeOnce.Do(func() {
		close(c.closing)
		for _, live := range c.schedule.Callers() {
			if g, ok := live.(*grant); ok {
				g.retire(ErrClosed)
			}
		}
		go c.shutDown()
	})
	select {
	case <-c.closed:
		return c.closeErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Client) shutDown() {
	defer close(c.closed)
	for {
		c.held.wait()
		c.tasks.wait()
		if c.held.none() { // an acquire was under way
			break
		}
	}
	c.notifier.Close()
	c.tasks.wait() // a grant that nobody wants any more may have come last
	// mutants: close-schedule
	c.schedule.Close()
	c.closeErr = c.driver.Close()
}

func (c *Client) isClosing() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

// contact is an attempt to find out what the server is, shared by all who need to know meanwhile.
type contact struct {
	met  error         // by the latest try; guarded by Client.mu
	over chan struct{} // closed when it has ended
	err  error         // of it; read after over
}

// connect finds out what the server is, once. Who comes while another tries waits for that outcome, and
// does not begin anew when it has failed: a server that is down would keep one after the other waiting.
func (c *Client) connect(ctx context.Context, name string) error {
	if c.info.Load() != nil {
		return nil
	}
	began := time.Now()
	if ctx.Err() != nil {
		return c.unheard(ctx, opReach, name, began)
	}
	c.mu.Lock()
	trying := c.contact
	if trying == nil {
		trying = &contact{over: make(chan struct{})}
		c.contact = trying
		c.tasks.run(func() { c.reach(trying, name) })
	}
	c.mu.Unlock()
	select {
	case <-trying.over:
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		if trying.met == nil || ctx.Err() != context.DeadlineExceeded {
			return c.unheard(ctx, opReach, name, began)
		}
		return endedBy(ctx, c.nodeError(opReach, name, trying.met))
	case <-c.closing:
		return ErrClosed
	}
	var se *ServerError
	if errors.As(trying.err, &se) && se.Name != name {
		e := *se
		e.Name = name
		return &e
	}
	return trying.err
}

// reach probes the server until it answers, for RetryTimeout at most.
func (c *Client) reach(trying *contact, name string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.tasks.run(func() {
		select {
		case <-c.closing:
			cancel()
		case <-ctx.Done():
		}
	})
	server, _, err := persist(ctx, c, opReach, name, func(one context.Context) (found, error) {
		// A probe holds nothing: when the client closes, its connection need not be spared.
		one, end := context.WithCancel(one)
		defer end()
		defer context.AfterFunc(ctx, end)()
		server, err := c.probe(one)
		if err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			trying.met = err
		}
		return server, err
	})
	switch {
	case err == nil:
		err = c.use(server, name)
	case c.isClosing():
		err = ErrClosed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	trying.err = err
	c.contact = nil
	close(trying.over)
}

// found is what a server says of itself, and when it was asked.
type found struct {
	driver.ServerInfo
	sent clock.Instant
}

func (c *Client) probe(ctx context.Context) (found, error) {
	sent := clock.Now()
	info, err := c.driver.Probe(ctx)
	if err == nil && (info.Time.UnixMicro() <= 0 || info.Time.UnixMicro() > wire.MaxTime) {
		err = wire.ErrMalformed
	}
	return found{info, sent}, err
}

// use takes the server for what it says it is, or refuses it.
func (c *Client) use(server found, name string) error {
	err := supported(server.ServerInfo)
	if err == nil && c.cfg.Strict && server.Cluster {
		err = errors.New("it runs in Cluster mode, where Strict is not possible: a slot can move between servers")
	}
	if err != nil {
		return &ServerError{Op: "use", Name: name, Server: c.driver.Addr(), Kind: ErrUnsupported, Err: err}
	}
	c.native.Store(has(server.ServerInfo, delifeq))
	c.setClock(0, server.sent, server.Time.UnixMicro())
	c.info.Store(&server.ServerInfo)
	return nil
}

// inCluster reports whether the server runs in Cluster mode. Only after connect.
func (c *Client) inCluster() bool { return c.info.Load().Cluster }

// slot returns the Cluster slot of a lock; 0 outside Cluster mode.
func (c *Client) slot(l *Lock) uint16 {
	if c.inCluster() {
		return keys.Slot(l.keys.Lock)
	}
	return 0
}

// minimum holds the oldest supported version of each server.
var minimum = map[string][2]int{"redis": {7, 0}, "valkey": {7, 2}}

func supported(s driver.ServerInfo) error {
	least, known := minimum[s.Server]
	if v, tells := number(s); known && tells && slices.Compare(v[:], least[:]) < 0 {
		return fmt.Errorf("it is %s %s; %s %d.%d or later is needed", s.Server, s.Version, s.Server, least[0], least[1])
	}
	return nil
}

// delifeq holds the oldest version of each server that has DELIFEQ.
var delifeq = map[string][2]int{"valkey": {9, 0}}

// has reports whether the server is one of those, or later.
func has(s driver.ServerInfo, since map[string][2]int) bool {
	least, known := since[s.Server]
	v, tells := number(s)
	return known && tells && slices.Compare(v[:], least[:]) >= 0
}

// number is the major and the minor number of the version, if it has them.
func number(s driver.ServerInfo) (v [2]int, tells bool) {
	major, rest, _ := strings.Cut(s.Version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, err1 := strconv.Atoi(major)
	y, err2 := strconv.Atoi(minor)
	return [2]int{x, y}, err1 == nil && err2 == nil
}

// clockAnchor ties a server's clock to ours.
type clockAnchor struct {
	sent   clock.Instant // of a request
	server int64         // the time in its reply, µs
}

// serverTime returns what a server's clock shows now, at most by a round trip too
// late, and too early by as long as the machine was suspended since; 0 if it never told.
func (c *Client) serverTime(slot uint16) int64 {
	c.mu.Lock()
	anchor, ok := c.clocks[slot]
	if !ok {
		anchor, ok = c.clocks[0]
	}
	c.mu.Unlock()
	if !ok {
		return 0
	}
	return anchor.server + clock.Mono().Sub(anchor.sent.Mono).Microseconds()
}

func (c *Client) setClock(slot uint16, sent clock.Instant, server int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.clocks[slot]; !ok || sent.Mono > old.sent.Mono {
		c.clocks[slot] = clockAnchor{sent, server}
	}
}

// tasks counts what is to be waited for.
type tasks struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when n falls to 0; nil while nobody waits
}

// run calls f in a goroutine, as a task.
func (t *tasks) run(f func()) {
	t.begin()
	go func() {
		defer t.end()
		f()
	}()
}

func (t *tasks) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
}

func (t *tasks) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n--
	if t.n == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

func (t *tasks) none() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n == 0
}

// wait returns when none is left. Tasks may start others until then.
func (t *tasks) wait() {
	for {
		t.mu.Lock()
		if t.n == 0 {
			t.mu.Unlock()
			return
		}
		if t.idle == nil {
			t.idle = make(chan struct{})
		}
		idle := t.idle
		t.mu.Unlock()
		<-idle
	}
}

// crew runs so many tasks at once, and others after them.
type crew struct {
	tasks *tasks
	most  int

	mu      sync.Mutex
	busy    int
	backlog []func()
}

func (c *crew) run(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy == c.most {
		c.backlog = append(c.backlog, f)
		return
	}
	c.busy++
	c.tasks.run(func() {
		for f != nil {
			f()
			f = c.next()
		}
	})
}

// next is what to do next; nil if there is nothing, and one less is busy.
func (c *crew) next() func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.backlog) == 0 {
		c.busy--
		return nil
	}
	f := c.backlog[0]
	c.backlog = c.backlog[1:]
	return f
}
