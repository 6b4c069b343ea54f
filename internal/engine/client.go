package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/compact"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/schedule"
)

// Client hands out locks on one server, or one Cluster. It is safe for concurrent use; a process
// needs only one.
type Client struct {
	server    *exec.Server
	cfg       Config
	space     keys.Space
	strict    codec.Flags // of incarnation.lua
	nodeFlags codec.Flags // of locks on a node of a quorum
	id        string      // names the channel on which this client is notified
	mint      tokenMint
	host      string
	defaults  kind.Settings // of locks without options

	notifier   *notify.Notifier
	ownChannel string        // where the client is notified outside Cluster mode
	strays     chan struct{} // holds an item for each unwanted grant that is being given back
	schedule   schedule.Scheduler
	epoch      clock.Reading // when the first slot of renewals begins

	closing    chan struct{}
	closeOnce  sync.Once
	closeErr   error
	closed     chan struct{}
	tasks      exec.Tasks
	late       exec.Tasks // of callers that came after Close, which does not wait for them
	holds      exec.Tasks // one for each hold that is not over
	servers    servers
	calls      sync.Pool // of calls on pipes; each client has its own, since calls must not leave a test's virtual time
	contended  contended
	waiters    sync.Pool    // each client has its own, since waiters must not leave a test's virtual time
	renewers   exec.Limiter // of renewals in a Cluster, if it is not known which server has the lock
	reclaimers reclaimers   // likewise
	cleanups   exec.Limiter // of releases of lost leases
	cache      kind.Cache
	departing  departures
	detached   detachments
	notices    notices
	grantingAt atomic.Int64 // in Strict mode, the clock.Reading when a server was last known not to be in quarantine; or 0
	waited     atomic.Int64 // how long the last attempt waited that was handed a lock, in ns
	// scriptedUntil is the clock.Reading until which votes are asked for by script; or 0.
	scriptedUntil atomic.Int64

	transactions transactions

	mu       sync.Mutex
	queues   compact.Map[string, *waitQueue]
	unqueued compact.Map[string, *hold]    // acquired past the wait queue, by the queue's key
	attempts compact.Map[string, *attempt] // that can be notified, by token

	checkOnce sync.Once
	warnings  warnings
}

// New returns a Client that reaches its server through a driver, such as the one of
// holdfastgoredis. New does no I/O: a server that cannot be reached, or is too old, is reported by
// the first acquire. A nil cfg means the defaults.
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
		cfg:     c,
		space:   space,
		id:      randomText(),
		host:    host,
		epoch:   clock.Mono(),
		closing: make(chan struct{}),
		closed:  make(chan struct{}),
	}
	client.server = exec.New(d, exec.Config{
		CommandTimeout: c.CommandTimeout, RetryTimeout: c.RetryTimeout,
		Tasks: &client.tasks, Closing: client.closing, Accept: client.accept, ViaClient: c.ViaClient,
		Lost: client.serverLost, Found: client.serverFound, ClientClosed: client.redisClientClosed,
	})
	client.defaults = kind.Settings{
		Terms: &kind.Terms{TTL: c.TTL, Kind: &kind.Mutex, Renew: true, MaxRenewals: -1},
		Owner: c.Owner,
	}
	if client.defaults.Info, err = client.defaults.Describe(host); err != nil {
		return nil, fmt.Errorf("%w: Config.Identity: %w", ErrInvalid, err)
	}
	client.strict = c.strictFlags()
	client.nodeFlags = codec.Node + client.strict
	client.mint.init()
	client.ownChannel = space.Channel(client.id)
	client.strays = make(chan struct{}, maxStrays)
	client.notifier = newNotifier(client)
	client.servers.one.init(client)
	client.renewers = exec.Limiter{Tasks: &client.tasks, Most: maxRenewing}
	client.reclaimers.init(client)
	client.cleanups = exec.Limiter{Tasks: &client.tasks, Most: maxCleanups}
	return client, nil
}

// fill sets the defaults and refuses values that make no sense.
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
		{"CommandTimeout", &c.CommandTimeout, DefaultCommandTimeout},
		{"MaxTTL", &c.MaxTTL, maxTTL},
		{"RetryTimeout", &c.RetryTimeout, 3 * time.Second},
		{"TTL", &c.TTL, min(15*time.Second, cmp.Or(c.MaxTTL, maxTTL))},
	} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
		if *d.value < kind.MinTTL {
			return fmt.Errorf("the value of Config.%s is %s; it must be at least %s", d.name, *d.value, kind.MinTTL)
		}
		if *d.value > maxMaxTTL {
			return fmt.Errorf("the value of Config.%s is %s; it must be at most %s", d.name, *d.value, maxMaxTTL)
		}
	}
	if c.TTL > c.MaxTTL {
		return fmt.Errorf("Config.TTL is %s, which is more than MaxTTL, %s", c.TTL, c.MaxTTL)
	}
	switch {
	case c.Quarantine != 0 && !c.Strict:
		return errors.New("Config.Quarantine is for Strict mode only")
	case c.Quarantine != 0 && c.Quarantine < c.MaxTTL:
		return fmt.Errorf("Config.Quarantine is %s, which is less than MaxTTL, %s: leases could outlive it", c.Quarantine, c.MaxTTL)
	case c.Quarantine > 2*maxMaxTTL:
		return fmt.Errorf("Config.Quarantine is %s; it must be at most %s", c.Quarantine, 2*maxMaxTTL)
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

// maxMaxTTL keeps TTLs, and sums of timeouts, within what clocks, and Lua's milliseconds, can
// count.
const maxMaxTTL = 10 * 365 * 24 * time.Hour

// randomText returns 128 random bits in 22 characters.
func randomText() string {
	var bits [16]byte
	_, _ = rand.Read(bits[:]) // never fails, since Go 1.24
	var text [22]byte
	base64.RawURLEncoding.Encode(text[:], bits[:])
	return string(text[:])
}

// Close is holdfast.Client.Close. Even if ctx ends first, the client's connections are closed only after the last lease has
// ended.
func (c *Client) Close(ctx context.Context) error {
	c.closeOnce.Do(func() {
		close(c.closing)
		for _, h := range c.scheduledHolds() {
			h.retire(exec.ErrClosed)
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

// enter begins a task for a caller, who must call End on the result. Close waits for the task unless Close began first: callers that
// are refused may retry at once, and must not hold up Close.
func (c *Client) enter() *exec.Tasks {
	t := &c.tasks
	if c.isClosing() {
		t = &c.late
		runtime.Gosched()
	}
	t.Begin()
	return t
}

// Ping is holdfast.Client.Ping.
func (c *Client) Ping(ctx context.Context) error {
	defer c.enter().End()
	if c.isClosing() {
		return exec.ErrClosed
	}
	known := c.server.Info() != nil
	err := c.server.Connect(ctx, "")
	if err == nil && known {
		_, _, err = exec.Persist(ctx, c.server, exec.OpReach, "", c.server.Probe)
	}
	return exec.InTask("reach the server", err)
}

// scheduledHolds returns the client's holds that have begun and are not over.
func (c *Client) scheduledHolds() (holds []*hold) {
	for _, caller := range c.schedule.Callers() {
		if h, is := caller.(*hold); is {
			holds = append(holds, h)
		}
	}
	return holds
}

func (c *Client) shutDown() {
	defer close(c.closed)
	for {
		c.holds.Wait()
		c.tasks.Wait()
		if c.holds.None() { // otherwise an acquire under way has brought another hold
			break
		}
	}
	c.notifier.Close()
	c.tasks.Wait() // the last message may have been an unwanted grant, which is being given back
	// mutants: close-schedule
	c.schedule.Close()
	c.closeErr = c.server.Close()
}

func (c *Client) isClosing() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

// accept refuses a server that is unfit for Strict mode.
func (c *Client) accept(server driver.ServerInfo) error {
	if c.cfg.Strict && server.Cluster {
		return unadvised("it runs in Cluster mode, where Strict is not possible, because slots can move between servers")
	}
	return nil
}

// Config is what a Client needs of holdfast.Config, which says more. Zero fields mean the defaults.
type Config struct {
	CommandTimeout time.Duration
	LocalHandovers int // MaxLocalHandovers
	Logger         *slog.Logger
	MaxTTL         time.Duration
	Observer       *Observer // nil: nobody is told
	Owner          string
	Prefix         string
	Quarantine     time.Duration
	RetryTimeout   time.Duration
	Strict         bool
	TTL            time.Duration
	ViaClient      bool
}

// DefaultCommandTimeout is that of a Config which says nothing of it.
const DefaultCommandTimeout = 2 * time.Second

// String names the client and its server. Package holdfast prints all handles by their String methods, whatever the verb: fmt
// would walk into tokens, with which a lock can be released, or into the channels on which clients are notified.
func (c *Client) String() string {
	return fmt.Sprintf("holdfast.Client(%s on %s)", c.cfg.Prefix, c.server.Addr())
}
