package holdfastrueidis

import (
	"context"
	"fmt"
	"net"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/redis/rueidis"
)

// evalAsked is RunDurably on the node that a refusal with ASK names: the keys have gone there already, while
// their slot is on the move. WAIT has to follow the script on the same connection, and rueidis follows an
// ASK with one command only. So this client is for one call.
func (d *adapter) evalAsked(ctx context.Context, addr string, c driver.Call, want driver.Durability) (reply string, reached driver.Confirmation, err error) {
	if host, _, err := net.SplitHostPort(addr); err != nil || host == "" {
		return "", reached, driver.ReplyError("TRYAGAIN the slot is on the move to " + addr)
	}
	o := d.option
	o.InitAddress, o.ForceSingleClient, o.SendToReplicas = []string{addr}, true, nil
	node, err := rueidis.NewClient(o)
	if err != nil {
		return "", reached, fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	defer func() {
		if !d.behind(node.Close) {
			node.Close()
		}
	}()
	_ = node.Dedicated(func(one rueidis.DedicatedClient) error {
		reply, reached, err = evalDurably(ctx, node, one, true, words(node, "eval", c.Script.Source, c.Keys, c.Args), want)
		return err
	})
	return reply, reached, err
}
