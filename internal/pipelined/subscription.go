package pipelined

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/pubsub"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// Subscribe opens a subscription. All subscriptions on a server share a connection, which carries no calls.
func (d *Driver) Subscribe(s driver.Subscription) (cancel func()) { return d.subs.Subscribe(s) }

// subscriber is the driver's pubsub.Client. It subscribes on dedicated connections, to the nodes that the slot map names. The libraries'
// own subscriptions stay on the node that had the slot until that node redirects them, which a replica does not do, and they end in
// another order than they began.
type subscriber struct{ d *Driver }

// Locate returns the address of the Cluster node that has the channel's slot. Outside Cluster mode it returns "".
func (s subscriber) Locate(c pubsub.Channel) (string, bool) {
	s.d.mu.Lock()
	client := s.d.client
	s.d.mu.Unlock()
	switch {
	case client == nil:
		return "", false
	case !client.IsCluster():
		return "", true
	}
	addr := s.d.slots.Load().master(c.Name)
	return addr, addr != ""
}

// Refresh refreshes the slot map. Before that it runs a script with a key of the slot: if the library is wrong about the
// slot, the node redirects the script, and the library learns of the right one.
func (s subscriber) Refresh(ctx context.Context, c pubsub.Channel, _ error) error {
	client, err := s.d.connect(ctx)
	if err != nil || !client.IsCluster() {
		return err
	}
	if text, err := client.Send(ctx, resp.Whole(driver.Call{Script: routed, Keys: []string{c.Name}}))[0].Text(); err != nil || text != "master" {
		return fmt.Errorf("a script that returns %q returned %q, %w", "master", text, err)
	}
	return s.d.refreshSlots(ctx)
}

var routed = driver.Script{Name: "master", Source: "return 'master'"}

func (s subscriber) Connect(ctx context.Context, server string, l *pubsub.Link) (pubsub.Conn, error) {
	client, err := s.d.connect(ctx)
	if err != nil {
		return nil, err
	}
	if server != "" {
		node := client.Nodes()[server]
		if node == nil {
			return nil, notSent(fmt.Errorf("%s does not know the Cluster node %s yet", s.d.lib.Name, server))
		}
		client = node
	}
	one, _ := client.Dedicate()
	broken := one.Hear(l.Message, func(kind, channel string) {
		ch := pubsub.Channel{Name: channel, Sharded: kind == "ssubscribe" || kind == "sunsubscribe"}
		switch kind {
		case "subscribe", "ssubscribe":
			l.Confirmed(ch)
		case "unsubscribe", "sunsubscribe":
			l.Ended(ch)
		}
	})
	c := &subscriptionConn{Conn: one, link: l, inCluster: server != ""}
	if err := c.CheckMaster(ctx); err != nil {
		c.Close()
		return nil, err
	}
	go func() { // ends with the connection
		if err := <-broken; err != nil {
			l.Failed(err)
		}
	}()
	return c, nil
}

// subscriptionConn is a connection for subscriptions. The library pings it to detect that it is broken.
type subscriptionConn struct {
	Conn
	link      *pubsub.Link
	inCluster bool
}

func (c *subscriptionConn) CheckMaster(ctx context.Context) error {
	if !c.inCluster {
		return nil
	}
	return resp.CheckMaster(c.Conn.Send(ctx, resp.New("hello"))[0])
}

func (c *subscriptionConn) Send(ctx context.Context, commands []pubsub.Command) error {
	all := make([]resp.Command, len(commands))
	for i, command := range commands {
		all[i] = resp.New(command.Words()...)
	}
	for i, reply := range c.Conn.Send(ctx, all...) {
		switch {
		case resp.Is(reply.Err):
			c.link.Refused(commands[i], reply.Err)
		case reply.Err != nil:
			return reply.Err
		}
	}
	return nil
}
