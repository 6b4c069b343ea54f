package adapter

import (
	"context"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/pubsub"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// Subscribe opens a subscription. All subscriptions on a server share a connection, which carries no calls.
func (d *Driver) Subscribe(s driver.Subscription) (cancel func()) { return d.subs.Subscribe(s) }

// subscriber is the driver's pubsub.Client. The libraries' own subscriptions stay on the node that had the slot until that node redirects
// them, which a replica does not do, and they end in another order than they began.
type subscriber struct{ d *Driver }

// Locate returns the address of the Cluster node that has the channel's slot. Outside Cluster mode it returns "".
func (s subscriber) Locate(c pubsub.Channel) (string, bool) {
	addr := s.d.Node(c.Name)
	return addr, addr != "" || !s.d.isCluster.Load()
}

// Refresh asks again who has which slots.
func (s subscriber) Refresh(ctx context.Context, _ pubsub.Channel) error {
	if !s.d.isCluster.Load() {
		return nil
	}
	return s.d.refreshSlots(ctx)
}

func (s subscriber) Connect(ctx context.Context, server string) (driver.Connection, error) {
	conn, err := s.d.connect(ctx, server)
	s.d.Failed(err)
	return conn, err
}

func (s subscriber) CheckMaster(ctx context.Context, server string) error {
	if server == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 4*nodeTimeout)
	defer cancel()
	return resp.CheckMaster(s.d.servers.sender(server, use{urgent: true})(ctx, resp.New("hello"))[0])
}
