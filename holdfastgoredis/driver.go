// Package holdfastgoredis lets Holdfast use the go-redis client that a program
// already has: for a single server, for a master found through Sentinel, or for a
// Cluster.
//
// Acquires go through that client. Renewals and releases go through connections of
// their own, made with the same options, so that they are not stuck behind the
// application's commands when its pool is exhausted; so do subscriptions. Each command
// is sent once: the client's own retries do not apply.
package holdfastgoredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast"
)

// New returns a driver for holdfast.New. rdb is a *redis.Client, also one made by
// NewFailoverClient, or a *redis.ClusterClient. It stays the caller's to close, after
// the holdfast.Client. With anything else, holdfast.New returns an error that says why.
func New(rdb redis.UniversalClient) holdfast.Driver {
	switch rdb := rdb.(type) {
	case *redis.Client:
		if rdb == nil {
			break
		}
		own := redis.NewClient(ownOptions(rdb.Options()))
		return &driver{user: bounded(rdb), own: own, addr: rdb.Options().Addr, sharded: own.SSubscribe, plain: own.Subscribe}
	case *redis.ClusterClient:
		if rdb == nil {
			break
		}
		own := redis.NewClusterClient(ownClusterOptions(rdb.Options()))
		return &driver{user: rdb, own: own, addr: strings.Join(rdb.Options().Addrs, ","), sharded: own.SSubscribe, plain: own.Subscribe}
	case *redis.Ring:
		return refused{errors.New("a redis.Ring cannot be used for locks: when a shard is down it moves that shard's keys to another, which grants them again; give the client of one server, or use a quorum")}
	case nil:
	default:
		return refused{fmt.Errorf("a %T cannot be used for locks: give a *redis.Client or a *redis.ClusterClient", rdb)}
	}
	return refused{errors.New("the go-redis client is nil")}
}

// bounded returns the same client, with the same pool, that keeps to the deadlines of
// contexts: a command that nobody waits for any more would occupy a connection until
// the client's own timeout, and go-redis's Close can wait for such a one for ever.
func bounded(rdb *redis.Client) *redis.Client {
	same := rdb.WithTimeout(rdb.Options().ReadTimeout)
	same.Options().ContextTimeoutEnabled = true
	return same
}

// ownOptions are those of the user's client, for connections that lead to the same
// server.
func ownOptions(o *redis.Options) *redis.Options {
	own := *o
	own.ContextTimeoutEnabled = true
	own.MaxActiveConns = 0
	own.MaxRetries = -1
	own.MinIdleConns = 0
	own.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &own
}

func ownClusterOptions(o *redis.ClusterOptions) *redis.ClusterOptions {
	own := *o
	own.ContextTimeoutEnabled = true
	own.MaxActiveConns = 0
	own.MaxRetries = -1
	own.MinIdleConns = 0
	own.ReadOnly, own.RouteByLatency, own.RouteRandomly = false, false, false
	own.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &own
}

// driver is a holdfast.Driver over two go-redis clients for the same server.
type driver struct {
	user, own      redis.UniversalClient
	addr           string
	sharded, plain func(ctx context.Context, channels ...string) *redis.PubSub
	subscriptions  sync.WaitGroup
}

// once is a command that go-redis sends once: a repeated one could act twice.
type once struct{ *redis.Cmd }

// NoRetry switches the client's retries off for this command (go-redis 9.19).
func (once) NoRetry() bool { return true }

func (d *driver) Eval(ctx context.Context, s holdfast.Script, keys, args []string, urgent bool) (string, error) {
	rdb := d.user
	if urgent {
		rdb = d.own
	}
	reply, err := eval(ctx, rdb, "evalsha", s.SHA1, keys, args)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = eval(ctx, rdb, "eval", s.Source, keys, args)
	}
	return reply, convert(err)
}

func eval(ctx context.Context, rdb redis.UniversalClient, command, script string, keys, args []string) (string, error) {
	words := make([]any, 0, 3+len(keys)+len(args))
	words = append(words, command, script, len(keys))
	for _, k := range keys {
		words = append(words, k)
	}
	for _, a := range args {
		words = append(words, a)
	}
	cmd := once{redis.NewCmd(ctx, words...)}
	if err := rdb.Process(ctx, cmd); err != nil {
		return "", err
	}
	return cmd.Text()
}

// convert tells errors that the server sent from those of the way to it.
func convert(err error) error {
	if err == nil {
		return nil
	}
	var sent redis.Error
	if errors.As(err, &sent) && !errors.Is(err, redis.Nil) {
		return holdfast.ReplyError(sent.Error())
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrClosed) {
		return fmt.Errorf("%w: %w", holdfast.ErrNotSent, err)
	}
	return err
}

// Probe uses HELLO, which every user may send, and TIME, which every script sends.
func (d *driver) Probe(ctx context.Context) (holdfast.ServerInfo, error) {
	reply, err := d.user.Do(ctx, "hello").Result()
	if err != nil {
		return holdfast.ServerInfo{}, convert(err)
	}
	now, err := d.user.Time(ctx).Result()
	if err != nil {
		return holdfast.ServerInfo{}, convert(err)
	}
	field := map[string]string{}
	switch reply := reply.(type) {
	case map[any]any: // RESP3
		for k, v := range reply {
			field[fmt.Sprint(k)] = fmt.Sprint(v)
		}
	case []any: // RESP2
		for i := 0; i+1 < len(reply); i += 2 {
			field[fmt.Sprint(reply[i])] = fmt.Sprint(reply[i+1])
		}
	}
	return holdfast.ServerInfo{
		Server:  field["server"],
		Version: field["version"],
		Cluster: field["mode"] == "cluster",
		Time:    now.UnixMicro(),
	}, nil
}

func (d *driver) Addr() string { return d.addr }

func (d *driver) Close() error {
	err := d.own.Close()
	d.subscriptions.Wait()
	return err
}

// refused is a driver that cannot be used.
type refused struct{ err error }

// Unusable tells holdfast.New why.
func (r refused) Unusable() error { return r.err }

func (r refused) Eval(context.Context, holdfast.Script, []string, []string, bool) (string, error) {
	return "", r.err
}

func (r refused) Subscribe(string, bool, holdfast.Sink) holdfast.Subscription { return closed{} }

func (r refused) Probe(context.Context) (holdfast.ServerInfo, error) {
	return holdfast.ServerInfo{}, r.err
}

func (r refused) Addr() string { return "" }

func (r refused) Close() error { return nil }

// closed is a subscription that never was.
type closed struct{}

func (closed) Close() {}

// keepalive is how long a subscription may be silent before it is asked whether it is
// alive, and then until it is given up.
const keepalive = 5 * time.Second
