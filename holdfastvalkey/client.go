package holdfastvalkey

import (
	"cmp"
	"context"

	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast/internal/pipelined"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// open makes a client.
func open(o valkey.ClientOption) (pipelined.Client, error) {
	c, err := valkey.NewClient(o)
	if err != nil {
		return nil, err
	}
	return client{c}, nil
}

// client is a pipelined.Client.
type client struct{ valkey.Client }

func (c client) Send(ctx context.Context, commands ...resp.Command) []resp.Reply {
	return pipelined.Send(ctx, c.Client, build(c.B()), commands)
}

func (c client) Dedicate() (pipelined.Sender, func()) {
	one, release := c.Client.Dedicate()
	return conn{one}, release
}

func (c client) Nodes() map[string]pipelined.Client {
	nodes := map[string]pipelined.Client{}
	for addr, node := range c.Client.Nodes() {
		nodes[addr] = client{node}
	}
	return nodes
}

func (c client) IsCluster() bool { return c.Mode() == valkey.ClientModeCluster }

// conn is a connection that only one caller uses.
type conn struct{ valkey.DedicatedClient }

func (c conn) Send(ctx context.Context, commands ...resp.Command) []resp.Reply {
	return pipelined.Send(ctx, c.DedicatedClient, build(c.B()), commands)
}

// build returns a function that makes valkey-go's commands. It marks only the first key as one, because valkey-go panics if keys are in
// different slots. The server refuses such a call.
func build(b valkey.Builder) func(resp.Command) valkey.Completed {
	return func(c resp.Command) valkey.Completed {
		head := cmp.Or(c.Key, len(c.Words))
		command := b.Arbitrary(c.Words[:head]...)
		if c.Key > 0 {
			command = command.Keys(c.Words[head]).Args(c.Words[head+1:]...)
		}
		if c.Blocks {
			return command.Blocking()
		}
		return command.Build()
	}
}
