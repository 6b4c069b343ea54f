package holdfastrueidis

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
)

// connector keeps a client. It makes one when one is needed, and again after the client was dropped.
type connector struct {
	d *adapter

	mu      sync.Mutex
	current rueidis.Client // nil if there is none
	made    time.Time
	master  string        // with Sentinel, the server that current leads to
	making  chan struct{} // closed when the attempt to make a client ends; nil if there is none
	err     error         // of the latest attempt
}

// client returns the current client, or dials to make one. Its errors are as Run returns them.
func (c *connector) client(ctx context.Context) (rueidis.Client, error) {
	for {
		c.mu.Lock()
		if c.current != nil {
			defer c.mu.Unlock()
			return c.current, nil
		}
		if c.making == nil {
			c.making = make(chan struct{})
			if !c.d.spawn(c.make) {
				defer c.mu.Unlock()
				close(c.making)
				c.making = nil
				return nil, fmt.Errorf("%w: %w", driver.ErrNotSent, rueidis.ErrClosing)
			}
		}
		making := c.making
		c.mu.Unlock()
		select {
		case <-making:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", driver.ErrNotSent, ctx.Err())
		}
		c.mu.Lock()
		err := c.err
		c.mu.Unlock()
		if _, ok := rueidis.IsRedisErr(err); ok { // the server refused the connection
			return nil, convert(err)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", driver.ErrNotSent, err)
		}
	}
}

func (c *connector) make() {
	var client rueidis.Client
	var master string
	var err error
	if c.d.follower != nil {
		client, master, err = c.d.follower.connect()
	} else {
		o := c.d.option
		o.InitAddress = slices.Clone(o.InitAddress) // with ShuffleInit, rueidis shuffles it in place
		client, err = rueidis.NewClient(o)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.making)
	c.making, c.err = nil, err
	if err == nil {
		c.current, c.made, c.master = client, time.Now(), master
	} else if client != nil {
		client.Close()
	}
}

// dropPeriod is the shortest time between two drops.
const dropPeriod = time.Second

// drop closes a client, so that the next one has new connections and resolves its addresses again. Calls in flight
// still get replies that arrive within a second. drop returns false if the client has been dropped already or is too
// new.
func (c *connector) drop(client rueidis.Client) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != client || time.Since(c.made) < dropPeriod || !c.d.spawn(client.Close) {
		return false
	}
	c.current = nil
	return true
}

// follow drops the client if it does not lead to the master, and reports whether it did.
func (c *connector) follow(master string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil || c.master == master || !c.d.spawn(c.current.Close) {
		return false
	}
	c.current = nil
	return true
}

func (c *connector) close() {
	c.mu.Lock()
	client := c.current
	c.mu.Unlock()
	if client != nil {
		client.Close()
	}
}
