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
	rdb, key := d.clientFor(&calls[0]), calls[0].Keys[0]
	node, err := nodeOf(ctx, rdb, key)
	switch err = convert(err); {
	case calls[0].Renews && d.isClientClosed(key):
		err = errClientClosed
	case err != nil:
		d.judge(err, rdb)
	}
	if err != nil {
		for i := range calls {
			tell(i, "", d.orClosed(key, err))
		}
		return
	}
	commands := make([]resp.Command, len(calls))
	for i, c := range calls {
		commands[i] = resp.First(c)
	}
	var single sync.WaitGroup
	var suspect error
	for i, reply := range sending(node)(ctx, commands...) {
		if resp.Is(reply.Err, "NOSCRIPT", "MOVED", "ASK") { // the server does not have the script or the keys
			single.Go(func() {
				text, err := d.Run(ctx, calls[i])
				tell(i, text, err)
			})
			continue
		}
		text, err := reply.Text()
		if suspicious(err) {
			suspect = err
		}
		tell(i, text, d.orClosed(key, err))
	}
	d.judge(suspect, rdb)
	single.Wait()
}

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
