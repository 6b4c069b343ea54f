package holdfastvalkey

import (
	"context"
	"fmt"

	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/pubsub"
)

// Subscribe opens a subscription. All of one server share a connection, apart from that of the scripts.
func (a *adapter) Subscribe(s driver.Subscription) (cancel func()) { return a.subs.Subscribe(s) }

// subscriber is the pubsub.Client of a driver. It subscribes at the nodes that the plan names: valkey-go's own way
// leads to the node that had the slot until it is told otherwise, which a replica does not do.
type subscriber struct{ a *adapter }

// Locate names the node of a Cluster that has the channel's slot. Other servers have one name, "".
func (s subscriber) Locate(p pubsub.Place) (string, bool) {
	s.a.mu.Lock()
	client := s.a.client
	s.a.mu.Unlock()
	switch {
	case client == nil:
		return "", false
	case client.Mode() != valkey.ClientModeCluster:
		return "", true
	}
	addr := s.a.plan.Load().master(p.Channel)
	return addr, addr != ""
}

// Learn asks for a new plan. A node that does not have the slot redirects a script with a key of it, by which valkey-go
// gets to know the node that does.
func (s subscriber) Learn(ctx context.Context, p pubsub.Place, _ error) error {
	client, err := s.a.connect(ctx)
	if err != nil || client.Mode() != valkey.ClientModeCluster {
		return err
	}
	reply, err := text(client.Do(ctx, whole(client, driver.Call{Script: master, Keys: []string{p.Channel}})))
	if err == nil && reply != "master" {
		err = fmt.Errorf("the reply to a script is %q", reply)
	}
	if err != nil {
		return err
	}
	return s.a.renewPlan(ctx)
}

var master = driver.Script{Name: "master", Source: "return 'master'"}

func (s subscriber) Connect(ctx context.Context, server string, l *pubsub.Link) (pubsub.Conn, error) {
	client, err := s.a.connect(ctx)
	if err != nil {
		return nil, err
	}
	if server != "" {
		node := client.Nodes()[server]
		if node == nil {
			return nil, notSent(fmt.Errorf("valkey-go does not know the node %s of the Cluster yet", server))
		}
		client = node
	}
	c := &subscribing{link: l, sharding: server != ""}
	c.one, _ = client.Dedicate()
	broken := c.one.SetPubSubHooks(valkey.PubSubHooks{OnMessage: c.message, OnSubscription: c.subscription})
	if err := c.Leads(ctx); err != nil {
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

// subscribing is a connection for subscriptions. valkey-go pings it.
type subscribing struct {
	link     *pubsub.Link
	sharding bool
	one      valkey.DedicatedClient
}

func (c *subscribing) message(m valkey.PubSubMessage) { c.link.Message(m.Channel, m.Message) }

func (c *subscribing) subscription(s valkey.PubSubSubscription) {
	p := pubsub.Place{Channel: s.Channel, Sharded: s.Kind == "ssubscribe" || s.Kind == "sunsubscribe"}
	switch s.Kind {
	case "subscribe", "ssubscribe":
		c.link.Confirmed(p)
	case "unsubscribe", "sunsubscribe":
		c.link.Ended(p)
	}
}

func (c *subscribing) Leads(ctx context.Context) error {
	if !c.sharding {
		return nil
	}
	field, err := hello(ctx, c.one)
	if err == nil && field["role"] == "replica" {
		err = errReplica
	}
	return err
}

var errReplica = fmt.Errorf("%w: the server was the master, and is a replica by now", driver.ErrNotSent)

func (c *subscribing) Send(ctx context.Context, commands []pubsub.Command) error {
	words := make([]valkey.Completed, len(commands))
	for i, command := range commands {
		b := c.one.B()
		switch {
		case command.Sharded && command.Off:
			words[i] = b.Sunsubscribe().Channel(command.Channel).Build()
		case command.Sharded:
			words[i] = b.Ssubscribe().Channel(command.Channel).Build()
		case command.Off:
			words[i] = b.Unsubscribe().Channel(command.Channel).Build()
		default:
			words[i] = b.Subscribe().Channel(command.Channel).Build()
		}
	}
	for i, result := range c.one.DoMulti(ctx, words...) {
		switch err := convert(result.Error()); {
		case isReply(err, ""):
			c.link.Refused(commands[i], err)
		case err != nil:
			return err
		}
	}
	return nil
}

func (c *subscribing) Close() { c.one.Close() }
