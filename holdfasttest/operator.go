package holdfasttest

import (
	"context"
	"net"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/bare"
)

// Break breaks the lock of that name, which this client holds, as an operator does with holdfast break. When it returns, the
// server has taken the lock away, and the next waiter may have it. The client's leases of the lock end, with
// holdfast.LossBroken, as soon as the client hears of the break; LostError.By is "operator". It hears at once if the lease is
// older than a second, and otherwise when the lease is. If it cannot hear, because of another fault or a TTL below three
// seconds, it learns of the break when it next renews.
//
// Break fails the test if the client has no lease of the lock.
func (c *Client) Break(name string) {
	c.t.Helper()
	c.operate("Break", name, func(ctx context.Context, in *inspect.Inspector, h holdfast.Holder) error {
		_, err := in.Break(ctx, h, "holdfasttest")
		return err
	})
}

// Revoke asks this client to let go of the lock of that name, as an operator does with holdfast revoke. Lease.Revoked is closed
// as soon as the client hears of the request, which is when Break would end the lease. Nothing else happens.
//
// Revoke fails the test if the client has no lease of the lock.
func (c *Client) Revoke(name string) {
	c.t.Helper()
	c.operate("Revoke", name, func(ctx context.Context, in *inspect.Inspector, h holdfast.Holder) error {
		return in.Revoke(ctx, h, "holdfasttest")
	})
}

// operate calls do with each of the client's holds of a lock. The operator's connection meets no faults.
func (c *Client) operate(what, name string, do func(ctx context.Context, in *inspect.Inspector, h holdfast.Holder) error) {
	c.t.Helper()
	grants := c.engine.GrantsOf(name)
	if grants == nil {
		c.t.Fatalf("holdfasttest: %s(%q): this client has no lease of that lock", what, name)
		return
	}
	dial := func(ctx context.Context) (net.Conn, error) { return c.Server.Dial(ctx, "", "") }
	driver := bare.New("holdfasttest", dial)
	defer driver.Close()
	operator, err := holdfast.New(driver, &holdfast.Config{Identity: "operator", Prefix: c.prefix})
	if err != nil {
		c.t.Fatalf("holdfasttest: %s(%q): %v", what, name, err)
		return
	}
	ctx := context.Background()
	defer operator.Close(ctx)
	in := inspect.New(operator)
	for _, grant := range grants {
		if err := do(ctx, in, holdfast.Holder{Name: name, Grant: grant}); err != nil {
			c.t.Fatalf("holdfasttest: %s(%q): %v", what, name, err)
			return
		}
	}
}
