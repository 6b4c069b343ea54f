package holdfastrueidis

import (
	"context"
	"fmt"
	"net"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
)

// evalAsked is EvalDurably on the node that a refusal with ASK names: the keys have gone there already, while
// their slot is on the move. WAIT has to follow the script on the same connection, and rueidis follows an
// ASK with one command only. So this client is for one call.
func (d *driver) evalAsked(ctx context.Context, addr string, s holdfast.Script, keys, args []string, want holdfast.Durability) (reply string, reached holdfast.Reached, err error) {
	if host, _, err := net.SplitHostPort(addr); err != nil || host == "" {
		return "", reached, holdfast.ReplyError("TRYAGAIN the slot is on the move to " + addr)
	}
	o := d.option
	o.InitAddress, o.ForceSingleClient, o.SendToReplicas = []string{addr}, true, nil
	node, err := rueidis.NewClient(o)
	if err != nil {
		return "", reached, fmt.Errorf("%w: %w", holdfast.ErrNotSent, err)
	}
	defer func() {
		if !d.behind(node.Close) {
			node.Close()
		}
	}()
	_ = node.Dedicated(func(one rueidis.DedicatedClient) error {
		reply, reached, err = evalDurably(ctx, node, one, true, words(node, "eval", s.Source, keys, args), want)
		return err
	})
	return reply, reached, err
}
