// Package engine implements the locks behind package holdfast, which is a facade for it: waiting, granting, renewal, loss and release, for
// all kinds of locks. docs/ARCHITECTURE.md says what is in which file, and tells the story of one acquire.
package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/compact"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/schedule"
)

// Client hands out locks on one server, or one Cluster. It is safe for concurrent use; a process needs only one.
type Client struct {
	lock.Keyspace

	id   string // names the channel on which this client is notified
	mint tokenMint

	notifier   *notify.Notifier
	ownChannel string        // where the client is notified outside Cluster mode
	strays     chan struct{} // holds an item for each unwanted grant that is being given back
	schedule   schedule.Scheduler
	epoch      clock.Reading // when the first slot of renewals begins

	closeOnce sync.Once
	closeErr  error
	closed    chan struct{}
	holds     exec.Tasks     // one for each hold that is not over
	calls     sync.Pool      // calls on pipes; each client has its own pool, since calls must not leave a test's virtual time
	contended recent[string] // keys of locks that others held or were waiting for when last seen
	waiters   sync.Pool      // each client has its own pool, since waiters must not leave a test's virtual time
	cleanups  exec.Limiter   // for releases of lost leases
	givenUp   recent[uint64] // hashes of waiters' tokens that were given up, released or lost, but not detached
	notices   notices
	// grantingFrom is, in Strict mode, the clock.Reading when the quarantine ends; without one, when the client last learned that there is none.
	grantingFrom atomic.Int64
	waited       atomic.Int64 // how long the last attempt to be handed a lock had waited, in ns
	// scriptedUntil is the clock.Reading until which scripts ask for votes; or 0.
	scriptedUntil atomic.Int64

	transactions transactions

	mu       sync.Mutex
	queues   compact.Map[string, *waitQueue]
	attempts compact.Map[string, *attempt] // attempts that can be notified, by token
	servers  map[string]*server            // by the driver's names for masters; "" for the only server, or for masters that are not known
}

// New returns a Client that reaches its server through a driver, such as the one of holdfastgoredis. New does no I/O: the first acquire
// reports a server that is too old or cannot be reached. A nil cfg means the defaults.
func New(d driver.Driver, cfg *lock.Config) (*Client, error) {
	client := &Client{id: lock.RandomText(), epoch: clock.Mono(), closed: make(chan struct{})}
	if err := client.Open(d, cfg); err != nil {
		return nil, err
	}
	client.mint.init()
	client.contended.most, client.givenUp.most, client.notices.unmatched.most = maxContended, maxGivenUp, maxUnmatched
	client.ownChannel = client.Space.Channel(client.id)
	client.strays = make(chan struct{}, maxStrays)
	client.notifier = newNotifier(client)
	client.cleanups = exec.Limiter{Tasks: &client.Tasks, Most: maxCleanups}
	return client, nil
}

// These bound what a client remembers.
const (
	maxContended = 10_000  // locks
	maxGivenUp   = 100_000 // tokens: 2 MB. The latest half is always remembered
	maxUnmatched = 256     // notices: anyone who may publish can send any number
)

// Close is holdfast.Client.Close. Even if ctx ends first, the client's connections are closed only after the last lease has ended.
func (c *Client) Close(ctx context.Context) error {
	c.closeOnce.Do(func() {
		close(c.Closing)
		holds := c.scheduledHolds()
		for _, h := range holds {
			h.retire(exec.ErrClosed)
		}
		asks := time.AfterFunc(closePatience, func() { c.logUnreleased(holds) })
		go func() {
			defer asks.Stop()
			c.shutDown()
		}()
	})
	select {
	case <-c.closed:
		return c.closeErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

// closePatience is how long Close waits for leases without a word.
const closePatience = time.Second

// logUnreleased says for which of the holds Close waits: a lease that was forgotten would make it look as if it hung.
func (c *Client) logUnreleased(holds []*hold) {
	var names []string
	longest := time.Duration(0)
	for _, h := range holds {
		h.mu.Lock()
		if h.counted {
			names = append(names, h.l.Name())
			longest = max(longest, h.remainingAt(clock.Now()))
		}
		h.mu.Unlock()
	}
	if names != nil {
		c.Logger().Warn("holdfast: Close waits until leases are released or have expired",
			"leases", len(names), "lock", names[0], "for", longest.Round(time.Millisecond), "server", c.Server.Addr())
	}
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
		c.Tasks.Wait()
		if c.holds.None() { // otherwise an acquire that was under way has made another hold
			break
		}
	}
	c.notifier.Close()
	c.Tasks.Wait() // the last message may have been an unwanted grant, which is being given back
	// mutants: close-schedule
	c.schedule.Close()
	c.closeErr = c.Server.Close()
}

// String names the client and its server. Package holdfast prints all handles by their String methods, whatever the verb: otherwise fmt
// would print tokens, with which a lock can be released, and the channels on which clients are notified.
func (c *Client) String() string {
	return fmt.Sprintf("holdfast.Client(%s on %s)", c.Config.Prefix, c.Server.Addr())
}
