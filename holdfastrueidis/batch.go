package holdfastrueidis

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/redis/rueidis"
)

// RunAll sends the calls at once. rueidis routes each to its node and follows redirections.
func (d *adapter) RunAll(ctx context.Context, calls []driver.Call, tell func(i int, reply string, err error)) {
	client, err := rueidis.Client(nil), ctx.Err()
	if err != nil {
		err = fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	} else {
		client, err = d.scripts.client(ctx)
	}
	if err != nil {
		for i := range calls {
			tell(i, "", err)
		}
		return
	}
	cmds := make([]rueidis.Completed, len(calls))
	for i, c := range calls {
		if c.Script.Command != "" {
			cmds[i] = serverCommand(client, c.Script.Command, c.Keys, c.Args)
		} else {
			cmds[i] = evalCommand(client, "evalsha", c.Script.SHA1, c.Keys, c.Args)
		}
	}
	var again []int
	for i, result := range client.DoMulti(ctx, cmds...) {
		reply, err := text(result, calls[i].Script)
		if isReply(err, "NOSCRIPT") {
			again = append(again, i)
			continue
		}
		d.reconnectAfter(client, err)
		tell(i, reply, convert(err))
	}
	cmds = nil // not reused: rueidis may still read the commands for a connection that hangs
	for _, i := range again {
		cmds = append(cmds, evalCommand(client, "eval", calls[i].Script.Source, calls[i].Keys, calls[i].Args))
	}
	for n, result := range client.DoMulti(ctx, cmds...) {
		reply, err := result.ToString()
		d.reconnectAfter(client, err)
		tell(again[n], reply, convert(err))
	}
}
