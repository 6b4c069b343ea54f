package holdfastrueidis

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/pubsub"
)

// Subscribe opens a subscription. All subscriptions on a server share a connection, which carries no calls.
func (d *adapter) Subscribe(s driver.Subscription) (cancel func()) { return d.subs.Subscribe(s) }

// subscriber is the driver's pubsub.Client. It subscribes on dedicated connections, to the nodes that the slot map
// names. rueidis's own subscriptions stay on the node that had the slot until that node redirects them, which a replica
// does not do, and they end in another order than they began.
type subscriber struct{ d *adapter }

// Locate returns the address of the Cluster node that has the channel's slot. Outside Cluster mode it returns "".
func (s subscriber) Locate(c pubsub.Channel) (string, bool) {
	s.d.subscriptions.mu.Lock()
	client := s.d.subscriptions.current
	s.d.subscriptions.mu.Unlock()
	switch {
	case client == nil:
		return "", false
	case client.Mode() != rueidis.ClientModeCluster:
		return "", true
	}
	slots := s.d.slots.Load()
	if slots == nil {
		return "", false
	}
	addr := slots.find(keys.Slot(c.Name)).addr
	return addr, addr != ""
}

// Refresh refreshes the slot map. Before that it runs a script with a key of the slot: if rueidis is wrong about the
// slot, the node redirects the script, and rueidis learns of the right one.
func (s subscriber) Refresh(ctx context.Context, c pubsub.Channel, _ error) error {
	client, err := s.d.subscriptions.client(ctx)
	if err != nil || client.Mode() != rueidis.ClientModeCluster {
		return err
	}
	reply, err := client.Do(ctx, evalCommand(client, "eval", "return 'master'", []string{c.Name}, nil)).ToString()
	if err == nil && reply != "master" {
		err = fmt.Errorf("the reply to a script is %q, not %q", reply, "master")
	}
	if err == nil {
		err = s.d.refreshSlots(ctx)
	}
	return convert(err)
}

func (s subscriber) Connect(ctx context.Context, server string, l *pubsub.Link) (pubsub.Conn, error) {
	client, err := s.d.subscriptions.client(ctx)
	if err != nil {
		return nil, err
	}
	node := client
	if server != "" {
		ok := false
		if node, ok = client.Nodes()[server]; !ok {
			return nil, fmt.Errorf("%w: rueidis does not know the Cluster node %s yet", driver.ErrNotSent, server)
		}
	}
	c := &conn{link: l, cluster: server != ""}
	c.client, _ = node.Dedicate()
	broken := c.client.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: c.message, OnSubscription: c.subscription})
	if err := c.CheckMaster(ctx); err != nil {
		c.Close()
		return nil, err
	}
	go func() { // ends with the connection
		if err := <-broken; err != nil {
			l.Failed(convert(err))
		}
	}()
	return c, nil
}

// conn is a connection for subscriptions. rueidis pings it to detect that it is broken.
type conn struct {
	link    *pubsub.Link
	cluster bool
	client  rueidis.DedicatedClient
}

func (c *conn) message(m rueidis.PubSubMessage) { c.link.Message(m.Channel, m.Message) }

func (c *conn) subscription(s rueidis.PubSubSubscription) {
	ch := pubsub.Channel{Name: s.Channel, Sharded: s.Kind == "ssubscribe" || s.Kind == "sunsubscribe"}
	switch s.Kind {
	case "subscribe", "ssubscribe":
		c.link.Confirmed(ch)
	case "unsubscribe", "sunsubscribe":
		c.link.Ended(ch)
	}
}

func (c *conn) CheckMaster(ctx context.Context) error {
	if !c.cluster {
		return nil
	}
	return convert(checkMaster(ctx, c.client))
}

func (c *conn) Send(ctx context.Context, commands []pubsub.Command) error {
	cmds := make([]rueidis.Completed, len(commands))
	for i, command := range commands {
		b := c.client.B()
		switch {
		case command.Sharded && command.Unsubscribe:
			cmds[i] = b.Sunsubscribe().Channel(command.Name).Build()
		case command.Sharded:
			cmds[i] = b.Ssubscribe().Channel(command.Name).Build()
		case command.Unsubscribe:
			cmds[i] = b.Unsubscribe().Channel(command.Name).Build()
		default:
			cmds[i] = b.Subscribe().Channel(command.Name).Build()
		}
	}
	for i, result := range c.client.DoMulti(ctx, cmds...) {
		err := result.Error()
		if _, ok := rueidis.IsRedisErr(err); ok {
			c.link.Refused(commands[i], convert(err))
		} else if err != nil {
			return convert(err)
		}
	}
	return nil
}

func (c *conn) Close() { c.client.Close() }
