package holdfastgoredis

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// RunAll sends the calls in one pipeline to the node that has the first one's keys. Calls that the node does not run,
// because it does not have the script or the keys, are then sent one by one with Run.
func (d *adapter) RunAll(ctx context.Context, calls []driver.Call, tell func(i int, reply string, err error)) {
	refuse := func(err error) {
		for i := range calls {
			tell(i, "", err)
		}
	}
	key := calls[0].Keys[0]
	if calls[0].Renews && d.isClientClosed(key) {
		refuse(errClientClosed)
		return
	}
	rdb := d.clientFor(&calls[0])
	node, err := nodeOf(ctx, rdb, key)
	if err != nil {
		d.judge(err, rdb)
		refuse(d.convertFor(key, err))
		return
	}
	cmds := make([]once, len(calls))
	pipe := node.Pipeline()
	for i := range calls {
		cmds[i] = command(ctx, resp.First(calls[i]))
		_ = pipe.Process(ctx, cmds[i])
	}
	_, pipeErr := pipe.Exec(ctx)
	var single sync.WaitGroup
	var suspect error
	for i, cmd := range cmds {
		answer := replyTo(cmd)
		if answer.Value == nil && answer.Err == nil {
			answer.Err = pipeErr // go-redis 9.20 does not set it on each command if the server refuses a connection
		}
		if answer.Err != nil && hasCode(answer.Err, notRun) {
			single.Go(func() {
				reply, err := d.Run(ctx, calls[i])
				tell(i, reply, err)
			})
			continue
		}
		reply, err := answer.Text()
		if suspicious(err) {
			suspect = err
		}
		tell(i, reply, d.convertFor(key, err))
	}
	d.judge(suspect, rdb)
	single.Wait()
}

// notRun has the codes of errors of a server that does not have the script or the keys.
var notRun = []string{"NOSCRIPT", "MOVED", "ASK"}

// ended is a context that has ended, so that go-redis answers from memory or not at all.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Node asks the client that Probe used: the program's own client may not know the Cluster's nodes yet.
func (d *adapter) Node(key string) string {
	cluster, ok := d.urgent.get().(*redis.ClusterClient)
	if !ok {
		return ""
	}
	node, err := cluster.MasterForKey(ended, key)
	if err != nil {
		return ""
	}
	return node.Options().Addr
}
