package holdfastgoredis

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/redis/go-redis/v9"
)

// RunAll sends the scripts in one pipeline, to the node that has the first one's keys. What that does
// not run, because it has not the script or not the keys, goes by itself, as every script does
// without a pipeline.
func (d *adapter) RunAll(ctx context.Context, calls []driver.Call, tell func(i int, reply string, err error)) {
	rdb, done := d.clientFor(calls[0])
	node, err := nodeOf(ctx, rdb, calls[0].Keys[0])
	if err != nil {
		done(err)
		d.orient(err)
		for i := range calls {
			tell(i, "", convert(err))
		}
		return
	}
	cmds := make([]once, len(calls))
	pipe := node.Pipeline()
	for i := range calls {
		c := &calls[i]
		words := references("evalsha", &c.Script.SHA1, c.Keys, c.Args)
		if c.Script.Command != "" {
			words = command(c.Script.Command, c.Keys, c.Args)
		}
		cmds[i] = once{redis.NewCmd(ctx, words...)}
		_ = pipe.Process(ctx, cmds[i])
	}
	_, sent := pipe.Exec(ctx)
	var apart sync.WaitGroup
	var doubt error
	for i, cmd := range cmds {
		err := cmd.Err()
		if err == nil && cmd.Val() == nil {
			err = sent // go-redis 9.20 does not tell it to each command when a connection is refused by the server
		}
		if err != nil && begins(err, unheeded) {
			apart.Go(func() {
				reply, err := d.Run(ctx, calls[i])
				tell(i, reply, err)
			})
			continue
		}
		reply := ""
		if err == nil {
			reply, err = text(cmd)
		}
		if doubtful(err) {
			doubt = err
		}
		tell(i, reply, convert(err))
	}
	done(doubt)
	d.orient(doubt)
	apart.Wait()
}

// unheeded are the errors of servers that have not the script, or not the keys.
var unheeded = []string{"NOSCRIPT", "MOVED", "ASK"}

// ended is a context with which go-redis answers from memory, or not at all.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func (d *adapter) Node(key string) string {
	cluster, ok := d.user.(*redis.ClusterClient)
	if !ok {
		return ""
	}
	node, err := cluster.MasterForKey(ended, key)
	if err != nil {
		return ""
	}
	return node.Options().Addr
}
