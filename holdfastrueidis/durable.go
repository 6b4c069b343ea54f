package holdfastrueidis

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
)

// RunDurably uses a connection of its own, since WAIT delays the commands behind it.
func (d *adapter) RunDurably(ctx context.Context, c driver.Call, want driver.Durability) (string, driver.Confirmation, error) {
	client, err := d.scripts.client(ctx)
	if err != nil {
		return "", driver.Confirmation{}, err
	}
	var reply string
	var reached driver.Confirmation
	_ = client.Dedicated(func(one rueidis.DedicatedClient) error {
		if reply, reached, err = evalDurably(ctx, client, one, false, evalCommand(client, "evalsha", c.Script.SHA1, c.Keys, c.Args), want); isReply(err, "NOSCRIPT") {
			reply, reached, err = evalDurably(ctx, client, one, false, evalCommand(client, "eval", c.Script.Source, c.Keys, c.Args), want)
		}
		return err
	})
	if refusal, ok := rueidis.IsRedisErr(err); ok && reply == "" {
		if addr, asks := refusal.IsAsk(); asks {
			reply, reached, err = d.evalAsking(ctx, addr, c, want)
		}
	}
	if reply == "" && (isReply(err, "MOVED") || isReply(err, "ASK")) {
		// The script did not run, and the client will know the right node when the library tries again.
		return "", reached, driver.ReplyError("TRYAGAIN " + err.Error())
	}
	d.reconnectAfter(client, err)
	return reply, reached, convert(err)
}

func evalDurably(ctx context.Context, client rueidis.Client, one rueidis.DedicatedClient, asking bool, eval rueidis.Completed, want driver.Durability) (text string, reached driver.Confirmation, err error) {
	replicas, timeout := strconv.Itoa(want.Replicas), strconv.FormatInt(want.Timeout.Milliseconds(), 10)
	wait := client.B().Arbitrary("WAIT", replicas, timeout).Build()
	if want.Fsync {
		wait = client.B().Arbitrary("WAITAOF", "1", replicas, timeout).Build()
	}
	commands, first := []rueidis.Completed{eval}, 0
	if asking {
		commands, first = slices.Insert(commands, 0, client.B().Asking().Build()), 1
	}
	if want.Counts == nil {
		commands = append(commands, wait)
	}
	results := one.DoMulti(ctx, commands...)
	if text, err = results[first].ToString(); err != nil {
		return "", reached, err
	}
	switch {
	case want.Counts == nil:
	case want.Counts(text):
		results = append(results, one.Do(ctx, wait))
	default:
		return text, reached, nil
	}
	waited := results[first+1]
	if !want.Fsync {
		n, err := waited.AsInt64()
		reached.Replicas = int(n)
		return text, reached, err
	}
	counts, err := waited.AsIntSlice()
	if err == nil && len(counts) != 2 {
		err = fmt.Errorf("the reply to WAITAOF has %d numbers, not 2", len(counts))
	}
	if err != nil {
		return text, reached, err
	}
	reached.Fsync, reached.Replicas = counts[0] > 0, int(counts[1])
	return text, reached, nil
}

// evalAsking is RunDurably on the node that an ASK redirection names. The slot is being moved, and the keys are on that
// node already. WAIT must follow the script on the same connection, but rueidis follows an ASK with one command only,
// so evalAsking makes a client for the one call.
func (d *adapter) evalAsking(ctx context.Context, addr string, c driver.Call, want driver.Durability) (reply string, reached driver.Confirmation, err error) {
	if host, _, err := net.SplitHostPort(addr); err != nil || host == "" {
		return "", reached, driver.ReplyError("TRYAGAIN the slot is being moved to " + addr)
	}
	o := d.option
	o.InitAddress, o.ForceSingleClient, o.SendToReplicas = []string{addr}, true, nil
	node, err := rueidis.NewClient(o)
	if err != nil {
		return "", reached, fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	defer func() {
		if !d.spawn(node.Close) {
			node.Close()
		}
	}()
	_ = node.Dedicated(func(one rueidis.DedicatedClient) error {
		reply, reached, err = evalDurably(ctx, node, one, true, evalCommand(node, "eval", c.Script.Source, c.Keys, c.Args), want)
		return err
	})
	return reply, reached, err
}
