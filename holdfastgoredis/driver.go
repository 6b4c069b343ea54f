// Package holdfastgoredis makes a holdfast.Client from the go-redis client that a program already has: for a single
// server, for a master found through Sentinel, or for a Cluster.
//
// Almost all calls share one connection to each server, which go-redis makes with that client's options, and on which the library
// itself speaks to the server. Hooks of the program's client do not see these calls, nor does PoolStats. There is no such connection
// with holdfast.Config.ViaClient, or if the client has a Limiter or a StreamingCredentialsProvider.
//
// Without it, acquires use the program's client and its pool, so hooks, the Limiter and PoolStats see them. But process hooks do not if
// the client has no read timeout and ContextTimeoutEnabled is off. Renewals, releases and subscriptions use connections of their own, so
// that they are not stuck behind the application's commands when its pool is exhausted. These are made with the same options; the client's
// hooks, also those for dialing, do not apply. Calls that wait for replicas or disks use up to 64 further connections to a server, and up
// to 256 for renewals and releases. Each command is sent once: the client's own retries do not apply.
//
// In a Cluster, the driver's first question to the server, and renewals of many locks at once, are sent in
// pipelines, with the clients of its nodes. To see all commands, a hook must be added to those as well, with OnNewNode.
//
// With Sentinel, use NewFailover. It asks all sentinels for the master, once a second and whenever it connects, but no
// more than ten times a second, and follows the majority. New with a client made by redis.NewFailoverClient follows the
// one sentinel that go-redis has chosen. If that sentinel hangs or has missed a failover, the old master grants locks
// beside the new one for as long as it accepts writes.
package holdfastgoredis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/internal/pubsub"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/internal/sentinel"
)

// New returns a holdfast.Client over the program's go-redis client, a *redis.Client or a *redis.ClusterClient. The
// caller closes rdb, after the holdfast.Client. If rdb is closed earlier, acquires fail with holdfast.ErrClosed, and leases are not
// renewed, but can still be released. If rdb cannot be used for locks, the error says why and matches holdfast.ErrInvalid.
//
// With Sentinel, use NewFailover: with a client made by redis.NewFailoverClient, New tells masters apart only by the
// remote addresses of connections.
func New(rdb redis.UniversalClient, cfg *holdfast.Config) (*holdfast.Client, error) {
	d, err := NewDriver(rdb)
	return connect.Client(d, err, cfg)
}

// NewDriver returns the driver of New's client, for programs that wrap a driver or use one without a client.
func NewDriver(rdb redis.UniversalClient) (driver.Driver, error) {
	switch rdb := rdb.(type) {
	case *redis.Client:
		if rdb == nil {
			break
		}
		d := newAdapter(bounded(rdb), rdb.Options().Addr)
		o := ownOptions(rdb.Options())
		if o.Addr == "FailoverClient" { // made by redis.NewFailoverClient
			d.follower = newFollower(d, o.Dialer)
			d.follower.install(o)
			d.refresh = d.follower.look
		}
		d.makeClients(o)
		d.limited = rdb.Options().Limiter != nil // go-redis asks it about each command, and so about acquires
		return d, nil
	case *redis.ClusterClient:
		if rdb == nil {
			break
		}
		d := newAdapter(rdb, strings.Join(rdb.Options().Addrs, ","))
		o := ownClusterOptions(rdb.Options())
		noting := *o
		noting.NewClient = d.noting(o.NewClient)
		own := redis.NewClusterClient(&noting)
		d.urgent.client = own
		for i, size := range durablePools {
			o := *o
			o.PoolSize, o.MaxIdleConns = size, idleDurable
			d.durable[i] = redis.NewClusterClient(&o)
		}
		// go-redis asks again who has which slots every ten seconds and after a redirection, but not when a master is dead,
		// and not for subscriptions.
		d.refresh = func() {
			rdb.ReloadState(d.ctx)
			own.ReloadState(d.ctx)
			for _, durable := range d.durable {
				durable.(*redis.ClusterClient).ReloadState(d.ctx)
			}
		}
		return d, nil
	case *redis.Ring:
		return nil, errors.New("a redis.Ring cannot be used for locks: if a shard is down, the Ring moves its keys to another, which grants the same locks again; use the client of one server, or a quorum")
	case nil:
	default:
		return nil, fmt.Errorf("a %T cannot be used for locks; use a *redis.Client or a *redis.ClusterClient", rdb)
	}
	return nil, errors.New("the go-redis client is nil")
}

// makeClients makes the driver's own clients for a single server.
func (d *adapter) makeClients(o *redis.Options) {
	for i, size := range durablePools {
		o := *o
		o.PoolSize, o.MaxIdleConns = size, idleDurable
		d.durable[i] = redis.NewClient(&o)
	}
	d.urgent.client, d.urgent.options = redis.NewClient(o), o
}

// adapter is the driver.Driver over several go-redis clients for the same server.
type adapter struct {
	user     redis.UniversalClient // for acquires; shared with the application unless ownsUser
	ownsUser bool
	urgent   urgentClient
	durable  [len(durablePools)]redis.UniversalClient // for acquires, and for urgent calls
	limited  bool                                     // the user's client has a Limiter, so the library uses no connections of its own for calls
	nodes    sync.Map                                 // of a Cluster: the client of urgent for each node, by its address
	addr     string
	openAt   atomic.Int64 // when user was last seen open, by Ready, ns
	subs     *pubsub.Pool
	refresh  func()    // finds out which server has the locks now; nil if that cannot change
	follower *follower // nil without Sentinel

	background sync.WaitGroup
	ctx        context.Context // ends with Close
	stop       context.CancelFunc
	closing    sync.Mutex // held to call stop, and to add to background while ctx has not ended
}

func newAdapter(user redis.UniversalClient, addr string) *adapter {
	d := &adapter{user: user, addr: addr}
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.subs = pubsub.New(subscriber{d}, d.Run)
	return d
}

// once is a command that go-redis does not retry, since it could be carried out twice.
type once struct{ *redis.Cmd }

// NoRetry switches retries off (go-redis 9.19).
func (once) NoRetry() bool { return true }

func (d *adapter) Run(ctx context.Context, c driver.Call) (text string, err error) {
	if c.Renews && d.isClientClosed(firstKey(&c)) {
		return "", errClientClosed
	}
	rdb := d.clientFor(&c)
	resp.RunAll(ctx, sending(rdb), []driver.Call{c}, func(_ int, t string, e error) { text, err = t, e })
	d.judge(err, rdb)
	return text, d.orClosed(firstKey(&c), err)
}

// firstKey returns the call's first key, or "".
func firstKey(c *driver.Call) string {
	if len(c.Keys) == 0 {
		return ""
	}
	return c.Keys[0]
}

// clientFor returns the client for a call.
func (d *adapter) clientFor(c *driver.Call) redis.UniversalClient {
	if c.Urgent {
		return d.urgent.get()
	}
	return d.user
}

// judge draws the consequences of a call's error: if rdb is the urgent client and the call has timed out, it is replaced; if another server
// may have the locks now, the clients find out which.
func (d *adapter) judge(err error, rdb redis.UniversalClient) {
	var netErr net.Error
	if errors.As(err, &netErr) && netErr.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		d.replaceUrgent(rdb)
	}
	if d.refresh != nil && suspicious(err) {
		d.spawn(d.refresh)
	}
}

// suspicious reports whether err suggests that another server has the locks now.
func suspicious(err error) bool {
	return err != nil && (!resp.Is(err) || resp.Is(err, "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MOVED", "READONLY"))
}

// spawn calls f in a goroutine, or returns false if the driver is closing.
func (d *adapter) spawn(f func()) bool {
	d.closing.Lock()
	defer d.closing.Unlock()
	if d.ctx.Err() != nil {
		return false
	}
	d.background.Go(f)
	return true
}

// sending returns what sends commands, several of them in a pipeline, to a server. To a Cluster it can send one at a time.
func sending(rdb interface {
	Process(context.Context, redis.Cmder) error
	Pipeline() redis.Pipeliner
}) resp.Sender {
	return func(ctx context.Context, commands ...resp.Command) []resp.Reply {
		cmds, replies := make([]once, len(commands)), make([]resp.Reply, len(commands))
		for i, c := range commands {
			cmds[i] = command(ctx, c)
		}
		var err error
		if len(cmds) == 1 {
			_ = rdb.Process(ctx, cmds[0])
		} else {
			pipe := rdb.Pipeline()
			for _, cmd := range cmds {
				_ = pipe.Process(ctx, cmd)
			}
			_, err = pipe.Exec(ctx)
		}
		for i, cmd := range cmds {
			if replies[i] = replyTo(cmd); replies[i].Value == nil && replies[i].Err == nil {
				replies[i].Err = convert(err) // go-redis 9.20 does not set it on each command if the server refuses a connection
			}
		}
		return replies
	}
}

// command returns a command in the form of go-redis.
func command(ctx context.Context, c resp.Command) once {
	words := make([]any, len(c.Words))
	for i := range c.Words {
		words[i] = &c.Words[i] // saves an allocation
		if i <= c.Key {
			words[i] = c.Words[i] // go-redis reads these: it finds a Cluster's node by the key
		}
	}
	return once{redis.NewCmd(ctx, words...)}
}

// replyTo returns the reply to a command.
func replyTo(cmd interface {
	Val() any
	Err() error
}) resp.Reply {
	if errors.Is(cmd.Err(), redis.Nil) {
		return resp.Reply{}
	}
	return resp.Reply{Value: cmd.Val(), Err: convert(cmd.Err())}
}

// convert returns an error of go-redis as driver.Driver's Run returns it.
func convert(err error) error {
	var refused redis.Error
	var reply driver.ReplyError
	var op *net.OpError
	switch {
	case errors.As(err, &refused) && !errors.Is(err, redis.Nil):
		return driver.ReplyError(refused.Error())
	case errors.Is(err, driver.ErrNotSent): // as the follower's dialer reports
		return err
	case errors.As(err, &reply): // as the follower found while it connected
		return reply
	case errors.As(err, &op) && op.Op == "dial", errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrClosed):
		return fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	return err
}

// Probe uses HELLO, which every user may send, and TIME, which every script sends, in one round trip. In a Cluster it
// asks a master chosen at random, so that one that is down does not fail every attempt. It uses the driver's own
// connections: the program's client dials several times, and hides why it could not connect.
func (d *adapter) Probe(ctx context.Context) (driver.ServerInfo, error) {
	key := strconv.Itoa(rand.Int())
	if d.isClientClosed(key) {
		return driver.ServerInfo{}, errClientClosed
	}
	node, err := nodeOf(ctx, d.urgent.get(), key)
	if err != nil {
		return driver.ServerInfo{}, convert(err)
	}
	info, err := sentinel.Probe(ctx, sending(node))
	info.Sentinel, info.Mistakes = d.follower != nil, d.follower.mistakes()
	return info, err
}

func (d *adapter) Addr() string {
	if d.follower != nil {
		return d.follower.addr()
	}
	return d.addr
}

// String returns the type and the server. Without it, fmt would print the options, which contain the password.
func (d *adapter) String() string { return fmt.Sprintf("holdfastgoredis.Driver(%s)", d.Addr()) }

// Format prints String for every verb.
func (d *adapter) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, d.String()) }

func (d *adapter) Close() error {
	d.closing.Lock()
	d.stop()
	d.closing.Unlock()
	d.subs.Stop()
	err := d.urgent.get().Close()
	for _, durable := range d.durable {
		err = errors.Join(err, durable.Close())
	}
	if d.ownsUser {
		err = errors.Join(err, d.user.Close())
	}
	if d.follower != nil && d.follower.group != nil {
		d.follower.group.Close()
	}
	d.subs.Wait()
	d.background.Wait()
	return err
}
