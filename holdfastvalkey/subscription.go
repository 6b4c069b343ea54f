package holdfastvalkey

import (
	"context"
	"fmt"

	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/pubsub"
)

// Subscribe opens a subscription. All subscriptions on a server share a connection, which carries no calls.
func (a *adapter) Subscribe(s driver.Subscription) (cancel func()) { return a.subs.Subscribe(s) }

// subscriber is the driver's pubsub.Client. It subscribes to the nodes that the slot map names. valkey-go's own
// subscriptions stay on the node that had the slot until that node redirects them, which a replica does not do.
type subscriber struct{ a *adapter }

// Locate returns the address of the Cluster node that has the channel's slot. Outside Cluster mode it returns "".
func (s subscriber) Locate(c pubsub.Channel) (string, bool) {
	s.a.mu.Lock()
	client := s.a.client
	s.a.mu.Unlock()
	switch {
	case client == nil:
		return "", false
	case client.Mode() != valkey.ClientModeCluster:
		return "", true
	}
	addr := s.a.slots.Load().master(c.Name)
	return addr, addr != ""
}

// Refresh refreshes the slot map. Before that it runs a script with a key of the slot: if valkey-go is wrong about the
// slot, the node redirects the script, and valkey-go learns of the right one.
func (s subscriber) Refresh(ctx context.Context, c pubsub.Channel, _ error) error {
	client, err := s.a.connect(ctx)
	if err != nil || client.Mode() != valkey.ClientModeCluster {
		return err
	}
	reply, err := text(client.Do(ctx, evalCommand(client, driver.Call{Script: routed, Keys: []string{c.Name}})))
	if err == nil && reply != "master" {
		err = fmt.Errorf("the reply to a script is %q, not %q", reply, "master")
	}
	if err != nil {
		return err
	}
	return s.a.refreshSlots(ctx)
}

var routed = driver.Script{Name: "master", Source: "return 'master'"}

func (s subscriber) Connect(ctx context.Context, server string, l *pubsub.Link) (pubsub.Conn, error) {
	client, err := s.a.connect(ctx)
	if err != nil {
		return nil, err
	}
	if server != "" {
		node := client.Nodes()[server]
		if node == nil {
			return nil, notSent(fmt.Errorf("valkey-go does not know the Cluster node %s yet", server))
		}
		client = node
	}
	c := &subscriptionConn{link: l, cluster: server != ""}
	c.client, _ = client.Dedicate()
	broken := c.client.SetPubSubHooks(valkey.PubSubHooks{OnMessage: c.message, OnSubscription: c.subscription})
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

// subscriptionConn is a connection for subscriptions. valkey-go pings it to detect that it is broken.
type subscriptionConn struct {
	link    *pubsub.Link
	cluster bool
	client  valkey.DedicatedClient
}

func (c *subscriptionConn) message(m valkey.PubSubMessage) { c.link.Message(m.Channel, m.Message) }

func (c *subscriptionConn) subscription(s valkey.PubSubSubscription) {
	ch := pubsub.Channel{Name: s.Channel, Sharded: s.Kind == "ssubscribe" || s.Kind == "sunsubscribe"}
	switch s.Kind {
	case "subscribe", "ssubscribe":
		c.link.Confirmed(ch)
	case "unsubscribe", "sunsubscribe":
		c.link.Ended(ch)
	}
}

func (c *subscriptionConn) CheckMaster(ctx context.Context) error {
	if !c.cluster {
		return nil
	}
	fields, err := helloFields(c.client.Do(ctx, c.client.B().Arbitrary("HELLO").Build()))
	if err == nil && fields["role"] == "replica" {
		err = errReplica
	}
	return err
}

var errReplica = fmt.Errorf("%w: the server is a replica, no longer the master", driver.ErrNotSent)

func (c *subscriptionConn) Send(ctx context.Context, commands []pubsub.Command) error {
	cmds := make([]valkey.Completed, len(commands))
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
		switch err := convert(result.Error()); {
		case isReply(err, ""):
			c.link.Refused(commands[i], err)
		case err != nil:
			return err
		}
	}
	return nil
}

func (c *subscriptionConn) Close() { c.client.Close() }
