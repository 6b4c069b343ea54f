package holdfasttest

import (
	"context"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
)

// Break breaks the lock of that name, which this client holds, as an operator does with holdfast break. When it returns, the
// server has taken the lock away, and the next waiter may have it. The client's leases of the lock end, with
// holdfast.LossBroken, as soon as the client hears of the break; LostError.By is "operator". It hears at once if the lease is
// older than a second, and otherwise when the lease is. If it cannot hear, because of another fault or a TTL below three
// seconds, it learns of the break when it next renews. The client's faults do not affect the operator.
//
// Break fails the test if the client has no lease of the lock.
func (c *Client) Break(name string) {
	c.t.Helper()
	grants := c.engine.GrantsOf(name)
	if grants == nil {
		c.t.Fatalf("holdfasttest: Break(%q): this client has no lease of that lock", name)
		return
	}
	operator := c.Server.NewClient(c.t, &holdfast.Config{Identity: "operator", Prefix: c.prefix})
	for _, grant := range grants {
		_, err := inspect.New(operator.Client).Break(context.Background(), holdfast.Holder{Name: name, Grant: grant}, "holdfasttest")
		if err != nil {
			c.t.Fatalf("holdfasttest: Break(%q): %v", name, err)
			return
		}
	}
}
