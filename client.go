package holdfast

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/schedule"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Client hands out locks on one server, or one Cluster. It is safe for use by many
// goroutines; a process needs one.
type Client struct {
	driver Driver
	cfg    Config
	space  keys.Space
	id     string // names the channel on which this client is notified
	host   string

	hub      hub
	schedule schedule.Scheduler

	closing   chan struct{}
	closeOnce sync.Once
	closeErr  error
	closed    chan struct{}
	tasks     tasks
	held      tasks
	renewing  chan struct{} // holds an item for each renewal under way

	mu     sync.Mutex
	lines  map[string]*line
	tokens map[string]*attempt    // that notifications may be about
	grants map[*grant]struct{}    // that are not over; counted by held
	clocks map[uint16]clockAnchor // of servers, by slot; slot 0 outside Cluster mode

	probing chan struct{} // holds one item while somebody probes
	info    atomic.Pointer[ServerInfo]
	rtt     roundTrip

	survey   sync.Once
	warnings warnings
}

// New returns a Client that reaches its server through an adapter, such as
// holdfastgoredis. It does no I/O: a server that cannot be reached, or is too old,
// shows at the first acquire. A nil cfg means the defaults.
func New(d Driver, cfg *Config) (*Client, error) {
	if d == nil {
		return nil, fmt.Errorf("%w: the driver is nil", ErrInvalid)
	}
	if d, ok := d.(unusable); ok {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, d.why)
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
		closing: make(chan struct{}),
		closed:  make(chan struct{}),
		probing: make(chan struct{}, 1),

		renewing: make(chan struct{}, maxRenewing),
		lines:    map[string]*line{},
		tokens:   map[string]*attempt{},
		grants:   map[*grant]struct{}{},
		clocks:   map[uint16]clockAnchor{},
	}
	client.hub.init(client)
	return client, nil
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
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, since Go 1.24
	return base64.RawURLEncoding.EncodeToString(b[:])
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
		for _, g := range c.liveGrants() {
			g.retire(ErrClosed)
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
	c.hub.close()
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

func (c *Client) liveGrants() []*grant {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*grant, 0, len(c.grants))
	for g := range c.grants {
		all = append(all, g)
	}
	return all
}

// connect finds out what the server is, once.
func (c *Client) connect(ctx context.Context, name string) error {
	if c.info.Load() != nil {
		return nil
	}
	select {
	case c.probing <- struct{}{}:
		defer func() { <-c.probing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.info.Load() != nil {
		return nil
	}
	server, _, err := persist(ctx, c, "reach", name, c.probe)
	if err != nil {
		return err
	}
	return c.use(server, name)
}

// found is what a server says of itself, and when it was asked.
type found struct {
	ServerInfo
	sent clock.Instant
}

func (c *Client) probe(ctx context.Context) (found, error) {
	sent := clock.Now()
	info, err := c.driver.Probe(ctx)
	if err == nil && (info.Time <= 0 || info.Time > wire.MaxTime) {
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
	c.setClock(0, server.sent, server.Time)
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

func supported(s ServerInfo) error {
	least, known := minimum[s.Server]
	if !known {
		return nil
	}
	major, rest, _ := strings.Cut(s.Version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, err1 := strconv.Atoi(major)
	y, err2 := strconv.Atoi(minor)
	if err1 != nil || err2 != nil {
		return nil
	}
	if x < least[0] || x == least[0] && y < least[1] {
		return fmt.Errorf("it is %s %s; %s %d.%d or later is needed", s.Server, s.Version, s.Server, least[0], least[1])
	}
	return nil
}

// clockAnchor ties a server's clock to ours.
type clockAnchor struct {
	sent   clock.Instant // of a request
	server int64         // the time in its reply, µs
}

// serverTime returns what a server's clock shows now, at most by a round trip too
// late; 0 if it never told.
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
	return anchor.server + clock.Since(anchor.sent).Microseconds()
}

func (c *Client) setClock(slot uint16, sent clock.Instant, server int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.clocks[slot]; !ok || sent.Mono.After(old.sent.Mono) {
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
