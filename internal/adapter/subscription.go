package adapter

import (
	"context"
	"fmt"

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
	client := s.d.current()
	if client == nil || !client.IsCluster {
		return "", client != nil
	}
	addr := s.d.Node(c.Name)
	return addr, addr != ""
}

// Refresh refreshes the slot map, after the library has learned who has the slot.
func (s subscriber) Refresh(ctx context.Context, c pubsub.Channel) error {
	client, err := s.d.connect(ctx)
	if err != nil {
		return err
	}
	defer client.calls.Done()
	switch {
	case !client.IsCluster:
		return nil
	case client.Refresh != nil:
		return client.Refresh(ctx, c.Name)
	}
	if err := client.route(ctx, c.Name); err != nil {
		return err
	}
	return s.d.refreshSlots(ctx)
}

func (s subscriber) Connect(ctx context.Context, server string) (driver.Connection, error) {
	conn, err := s.d.open(ctx, server)
	s.d.Failed(err)
	return conn, err
}

func (s subscriber) CheckMaster(ctx context.Context, server string) error {
	if server == "" {
		return nil
	}
	client, err := s.d.connect(ctx)
	if err != nil {
		return err
	}
	defer client.calls.Done()
	node := client.Nodes()[server]
	if node == nil {
		return notSent(fmt.Errorf("%s does not know the Cluster node %s yet", s.d.lib.Name, server))
	}
	return resp.CheckMaster(node.Send(ctx, resp.New("hello"))[0])
}
