package holdfastvalkey

import (
	"context"
	"fmt"

	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast/driver"
)

// RunDurably uses a connection of its own, since WAIT delays the commands behind it.
func (a *adapter) RunDurably(ctx context.Context, c driver.Call, want driver.Durability) (string, driver.Confirmation, error) {
	client, err := a.connect(ctx)
	if err != nil {
		return "", driver.Confirmation{}, err
	}
	reply, reached, err := runOn(ctx, client, false, c, want)
	// On a dedicated connection valkey-go does not follow redirections, but it learns of the node.
	if addr, asking := redirection(err); reply == "" && addr != "" {
		if node := client.Nodes()[addr]; node != nil {
			reply, reached, err = runOn(ctx, node, asking, c, want)
		}
		if addr, _ := redirection(err); reply == "" && addr != "" {
			err = driver.ReplyError("TRYAGAIN " + err.Error()) // the script did not run
		}
	}
	a.handleError(client, err)
	return reply, reached, err
}

// redirection returns the address that a MOVED or ASK error names, and whether it is an ASK. It returns "" for other
// errors.
func redirection(err error) (addr string, asking bool) {
	var code string
	var slot int
	if isReply(err, "MOVED") || isReply(err, "ASK") {
		if _, err := fmt.Sscan(err.Error(), &code, &slot, &addr); err != nil {
			return "", false
		}
	}
	return addr, code == "ASK"
}

// runOn runs a call and waits on one connection to the server that the client uses for the call's key.
func runOn(ctx context.Context, client valkey.Client, asking bool, c driver.Call, want driver.Durability) (reply string, reached driver.Confirmation, err error) {
	_ = client.Dedicated(func(one valkey.DedicatedClient) error {
		reply, reached, err = evalDurably(ctx, client, one, asking, callCommand(client, c), want)
		if isReply(err, "NOSCRIPT") && reply == "" {
			reply, reached, err = evalDurably(ctx, client, one, asking, evalCommand(client, c), want)
		}
		return nil
	})
	return reply, reached, err
}

func evalDurably(ctx context.Context, client valkey.Client, one valkey.DedicatedClient, asking bool, eval valkey.Completed, want driver.Durability) (reply string, reached driver.Confirmation, err error) {
	timeout := max(want.Timeout.Milliseconds(), 1) // 0 means forever
	wait := client.B().Wait().Numreplicas(int64(want.Replicas)).Timeout(timeout).Build()
	if want.Fsync {
		wait = client.B().Waitaof().Numlocal(1).Numreplicas(int64(want.Replicas)).Timeout(timeout).Build()
	}
	commands, first := []valkey.Completed{eval}, 0
	if asking {
		commands, first = []valkey.Completed{client.B().Asking().Build(), eval}, 1
	}
	if want.Counts == nil {
		commands = append(commands, wait)
	}
	results := one.DoMulti(ctx, commands...)
	if reply, err = text(results[first]); err != nil {
		return "", reached, err
	}
	switch {
	case want.Counts == nil:
	case want.Counts(reply):
		results = append(results, one.Do(ctx, wait))
	default:
		return reply, reached, nil
	}
	waited := results[first+1]
	if !want.Fsync {
		n, err := waited.AsInt64()
		return reply, driver.Confirmation{Replicas: int(n)}, convert(err)
	}
	n, err := waited.AsIntSlice()
	if err == nil && len(n) != 2 {
		err = fmt.Errorf("the reply to WAITAOF has %d numbers, not 2", len(n))
	}
	if err != nil {
		return reply, reached, convert(err)
	}
	return reply, driver.Confirmation{Fsync: n[0] > 0, Replicas: int(n[1])}, nil
}
