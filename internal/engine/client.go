package engine

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/compact"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/schedule"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Client hands out locks on one server, or one Cluster. It is safe for use by many
// goroutines; a process needs one.
type Client struct {
	server   *exec.Server
	cfg      Config
	space    keys.Space
	id       string // names the channel on which this client is notified
	mint     tokenMint
	host     string
	defaults settings // of locks

	notifier   *notify.Notifier
	ownChannel string        // on which the client is notified outside Cluster mode
	strays     chan struct{} // holds an item for each stray grant that is being given back
	schedule   schedule.Scheduler
	epoch      clock.Reading // from which the slots of renewals are counted

	closing    chan struct{}
	closeOnce  sync.Once
	closeErr   error
	closed     chan struct{}
	tasks      exec.Tasks
	holds      exec.Tasks // one for each grant that is not over
	batches    batches
	renewers   exec.Limiter // of renewals to servers of a Cluster that are not known
	reclaimers reclaimers
	cleanups   exec.Limiter // of what the server may have of lost leases
	cache      settingsCache
	departing  departures

	mu       sync.Mutex
	queues   compact.Map[string, *waitQueue]
	unqueued compact.Map[string, *hold]    // taken past all lines, by the keys of those
	attempts compact.Map[string, *attempt] // that notifications may be about

	checkOnce sync.Once
	warnings  warnings
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
		Tasks: &client.tasks, Closing: client.closing, Accept: client.accept,
	})
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
	client.mint.init()
	client.ownChannel = space.Channel(client.id)
	client.strays = make(chan struct{}, maxStrays)
	client.notifier = newNotifier(client)
	client.batches.init(client)
	client.renewers = exec.Limiter{Tasks: &client.tasks, Most: maxRenewing}
	client.reclaimers.init(client)
	client.cleanups = exec.Limiter{Tasks: &client.tasks, Most: maxCleanups}
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
			if h, ok := live.(*hold); ok {
				h.retire(exec.ErrClosed)
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
		c.holds.Wait()
		c.tasks.Wait()
		if c.holds.None() { // an acquire was under way
			break
		}
	}
	c.notifier.Close()
	c.tasks.Wait() // a grant that nobody wants any more may have come last
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
		return errors.New("it runs in Cluster mode, where Strict is not possible: a slot can move between servers")
	}
	return nil
}

// slot returns the Cluster slot of a lock; 0 outside Cluster mode.
func (c *Client) slot(l *Lock) uint16 {
	if c.server.InCluster() {
		return keys.Slot(l.keys.Lock)
	}
	return 0
}
