package holdfastrueidis

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/pubsub"
)

// Subscribe opens a subscription. All of one server share a connection, apart from that
// of the scripts.
func (d *adapter) Subscribe(s driver.Subscription) (cancel func()) { return d.subs.Subscribe(s) }

// ears is the pubsub.Client of a driver. It subscribes on connections of its own, to the nodes that the
// plan names: what rueidis itself does about subscriptions leads to the node that had the slot
// until it is told otherwise, which a replica does not, and ends them in another order than they began.
type ears struct{ d *adapter }

// Locate names the node of a Cluster that has the channel's slot. Other servers have one name, "".
func (e ears) Locate(p pubsub.Place) (string, bool) {
	e.d.ears.mu.Lock()
	client := e.d.ears.present
	e.d.ears.mu.Unlock()
	switch {
	case client == nil:
		return "", false
	case client.Mode() != rueidis.ClientModeCluster:
		return "", true
	}
	plan := e.d.plan.Load()
	if plan == nil {
		return "", false
	}
	addr := plan.span(keys.Slot(p.Channel)).addr
	return addr, addr != ""
}

// Learn asks for a new plan. A script with a key of the slot is redirected by a node that does not have it, by which
// rueidis gets to know the one that has.
func (e ears) Learn(ctx context.Context, p pubsub.Place, _ error) error {
	client, err := e.d.ears.client(ctx)
	if err != nil || client.Mode() != rueidis.ClientModeCluster {
		return err
	}
	reply, err := client.Do(ctx, words(client, "eval", "return 'master'", []string{p.Channel}, nil)).ToString()
	if err == nil && reply != "master" {
		err = fmt.Errorf("the reply to a script is %q", reply)
	}
	if err == nil {
		err = e.d.renewPlan(ctx)
	}
	return convert(err)
}

func (e ears) Connect(ctx context.Context, server string, l *pubsub.Link) (pubsub.Conn, error) {
	client, err := e.d.ears.client(ctx)
	if err != nil {
		return nil, err
	}
	node := client
	if server != "" {
		known := false
		if node, known = client.Nodes()[server]; !known {
			return nil, fmt.Errorf("%w: rueidis does not know the node %s of the Cluster yet", driver.ErrNotSent, server)
		}
	}
	c := &conn{link: l, sharding: server != ""}
	c.one, _ = node.Dedicate()
	broken := c.one.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: c.message, OnSubscription: c.subscription})
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

// conn is a connection for subscriptions. rueidis pings it.
type conn struct {
	link     *pubsub.Link
	sharding bool
	one      rueidis.DedicatedClient
}

func (c *conn) message(m rueidis.PubSubMessage) { c.link.Message(m.Channel, m.Message) }

func (c *conn) subscription(s rueidis.PubSubSubscription) {
	p := pubsub.Place{Channel: s.Channel, Sharded: s.Kind == "ssubscribe" || s.Kind == "sunsubscribe"}
	switch s.Kind {
	case "subscribe", "ssubscribe":
		c.link.Confirmed(p)
	case "unsubscribe", "sunsubscribe":
		c.link.Ended(p)
	}
}

func (c *conn) Leads(ctx context.Context) error {
	if !c.sharding {
		return nil
	}
	field, err := hello(ctx, c.one)
	if err == nil && field["role"] == "replica" {
		err = errReplica
	}
	return convert(err)
}

var errReplica = fmt.Errorf("%w: the server was the master, and is a replica by now", driver.ErrNotSent)

func (c *conn) Send(ctx context.Context, commands []pubsub.Command) error {
	words := make([]rueidis.Completed, len(commands))
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
		err := result.Error()
		if _, sent := rueidis.IsRedisErr(err); sent {
			c.link.Refused(commands[i], convert(err))
		} else if err != nil {
			return convert(err)
		}
	}
	return nil
}

func (c *conn) Close() { c.one.Close() }
