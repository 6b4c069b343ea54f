package engine

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
)

// runAll runs calls that go to one server: together, if the driver can do that.
func (c *Client) runAll(ctx context.Context, calls []driver.Call, tell func(i int, reply string, err error)) {
	if d, ok := c.driver.(driver.Batcher); ok {
		d.RunAll(ctx, calls, tell)
		return
	}
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() {
			reply, err := c.driver.Run(ctx, call)
			tell(i, reply, err)
		})
	}
	all.Wait()
}

// node names the server of a Cluster that has a key; "" if that is not known.
func (c *Client) node(key string) string {
	if d, ok := c.driver.(driver.Cluster); ok {
		return d.Node(key)
	}
	return ""
}

// width is how many calls the driver can have under way at once without one waiting for another.
func (c *Client) width() int {
	if d, ok := c.driver.(driver.Wide); ok {
		return d.Width()
	}
	return 0
}
