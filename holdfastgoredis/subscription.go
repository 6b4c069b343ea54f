package holdfastgoredis

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/pubsub"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// Subscribe opens a subscription. All subscriptions on a server share a connection, which carries no calls.
func (d *adapter) Subscribe(s driver.Subscription) (cancel func()) { return d.subs.Subscribe(s) }

// subscriber is the driver's pubsub.Client.
type subscriber struct{ d *adapter }

// Locate returns the address of the Cluster node that has the channel's slot. Outside Cluster mode it returns "".
func (s subscriber) Locate(c pubsub.Channel) (string, bool) {
	if _, ok := s.d.urgent.get().(*redis.ClusterClient); !ok {
		return "", true
	}
	addr := s.d.Node(c.Name)
	return addr, addr != ""
}

func (s subscriber) Refresh(ctx context.Context, c pubsub.Channel, cause error) error {
	s.d.judge(cause, nil)
	cluster, ok := s.d.urgent.get().(*redis.ClusterClient)
	if !ok {
		return nil
	}
	cluster.ReloadState(ctx)
	_, err := cluster.MasterForKey(ctx, c.Name)
	return convert(err)
}

func (s subscriber) Connect(ctx context.Context, server string) (driver.Connection, error) {
	return s.d.greet(ctx, s.d.optionsFor(server))
}

func (s subscriber) CheckMaster(ctx context.Context, server string) error {
	if server == "" {
		return nil
	}
	node, is := s.d.nodes.Load(server)
	if !is {
		return errNoNode
	}
	return resp.CheckMaster(replyTo(node.(*redis.Client).Do(ctx, "hello")))
}

var errNoNode = errors.New("go-redis does not know the Cluster node")
