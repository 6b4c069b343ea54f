// Package holdfastgoredis lets Holdfast use the go-redis client that a program
// already has: for a single server, for a master found through Sentinel, or for a
// Cluster.
//
// Acquires go through that client. Renewals and releases go through connections of
// their own, made with the same options, so that they are not stuck behind the
// application's commands when its pool is exhausted; so do subscriptions. What waits for replicas or disks
// has up to 64 further connections to a server, and 256 for renewals. Each command
// is sent once: the client's own retries do not apply.
//
// In a Cluster, acquires and releases of many locks at once go out in pipelines, on the clients of
// its nodes: hooks that are to see all have to be added to those, too, with OnNewNode.
//
// Behind Sentinel use NewFailover: it asks all sentinels for the master, once a second, and
// follows the majority. A client of NewFailoverClient, with New, follows the one sentinel that go-redis has chosen,
// which can hang, or not have heard of a failover: then locks go on being granted by the old
// master, for as long as that takes writes, beside those of the new one.
package holdfastgoredis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/bounds"
	"github.com/holdfast-go/holdfast/internal/pubsub"
)

// New returns a holdfast.Client over the go-redis client that the program has. rdb is a *redis.Client or a
// *redis.ClusterClient; NewFailover is better than
// one made by NewFailoverClient, of which masters are told apart by the remote addresses of connections. It stays the caller's to close, after
// the holdfast.Client. Anything else is refused with an error that says why and matches holdfast.ErrInvalid.
func New(rdb redis.UniversalClient, cfg *holdfast.Config) (*holdfast.Client, error) {
	d, err := NewDriver(rdb)
	return newClient(d, err, cfg)
}

func newClient(d driver.Driver, err error, cfg *holdfast.Config) (*holdfast.Client, error) {
	if err != nil {
		return nil, fmt.Errorf("%w: %w", holdfast.ErrInvalid, err)
	}
	c, err := holdfast.New(d, cfg)
	if err != nil {
		_ = d.Close() // which has connected to nothing yet
	}
	return c, err
}

// NewDriver returns the driver of New's client, for programs that wrap a driver or do without a client.
func NewDriver(rdb redis.UniversalClient) (driver.Driver, error) {
	switch rdb := rdb.(type) {
	case *redis.Client:
		if rdb == nil {
			break
		}
		d := newAdapter(bounded(rdb), rdb.Options().Addr)
		d.width = widthOf(rdb.Options().PoolSize, rdb.Options().MaxActiveConns)
		o := ownOptions(rdb.Options())
		if follows(o) {
			d.follower = d.follow(o)
			d.astray = d.follower.look
		}
		d.connect(o)
		return d, nil
	case *redis.ClusterClient:
		if rdb == nil {
			break
		}
		d := newAdapter(rdb, strings.Join(rdb.Options().Addrs, ","))
		d.width = widthOf(rdb.Options().PoolSize, rdb.Options().MaxActiveConns)
		o := ownClusterOptions(rdb.Options())
		own := redis.NewClusterClient(o)
		d.own.client = own
		for i, size := range waitingPools {
			o := *o
			o.PoolSize, o.MaxIdleConns = size, idleWaiting
			d.waiting[i] = redis.NewClusterClient(&o)
		}
		// go-redis asks anew who has which slot after a redirection, and every ten
		// seconds; but not when it meets a dead master, nor for a subscription.
		d.astray = func() {
			rdb.ReloadState(d.ctx)
			own.ReloadState(d.ctx)
			for _, waiting := range d.waiting {
				waiting.(*redis.ClusterClient).ReloadState(d.ctx)
			}
		}
		return d, nil
	case *redis.Ring:
		return nil, errors.New("a redis.Ring cannot be used for locks: when a shard is down it moves that shard's keys to another, which grants them again; give the client of one server, or use a quorum")
	case nil:
	default:
		return nil, fmt.Errorf("a %T cannot be used for locks: give a *redis.Client or a *redis.ClusterClient", rdb)
	}
	return nil, errors.New("the go-redis client is nil")
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
	own.Dialer = guarded(o.Dialer)
	own.ContextTimeoutEnabled = true
	own.MaxActiveConns = 0
	own.MaxRetries = -1
	own.MinIdleConns = 0
	own.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &own
}

// guarded has the connections of a dialer closed on which the server sends what go-redis could not survive.
func guarded(dial dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if err := dials(ctx); err != nil {
			return nil, err
		}
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return bounds.Wrap(conn), nil
	}
}

// dialTimeout is go-redis' default.
const dialTimeout = 5 * time.Second

func ownClusterOptions(o *redis.ClusterOptions) *redis.ClusterOptions {
	own := *o
	if own.Dialer == nil {
		own.Dialer = redis.NewDialer(&redis.Options{DialTimeout: cmp.Or(o.DialTimeout, dialTimeout), TLSConfig: o.TLSConfig})
	}
	own.Dialer = guarded(own.Dialer)
	own.ContextTimeoutEnabled = true
	own.MaxActiveConns = 0
	own.MaxRetries = -1
	own.MinIdleConns = 0
	own.ReadOnly, own.RouteByLatency, own.RouteRandomly = false, false, false
	own.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &own
}

// connect makes clients of one server, with options for its own connections.
func (d *adapter) connect(o *redis.Options) {
	for i, size := range waitingPools {
		o := *o
		o.PoolSize, o.MaxIdleConns = size, idleWaiting
		d.waiting[i] = redis.NewClient(&o)
	}
	d.own.client, d.own.options = redis.NewClient(o), o
}

// waitingPools are how many connections at most wait for replicas or disks: of acquires, and of what is urgent. Those that
// wait occupy theirs, for a second by default, and renewals of other leases are not to be behind them. Of as many as
// idleWaiting the connections stay.
var waitingPools = [2]int{64, 256}

const idleWaiting = 16

// adapter is the driver.Driver over two go-redis clients for the same server.
type adapter struct {
	user    redis.UniversalClient
	own     ownClient
	made    bool // user is not the caller's
	waiting [len(waitingPools)]redis.UniversalClient
	addr    string
	width   int          // how many calls may be under way on user
	under   atomic.Int64 // how many are
	subs    *pubsub.Pool
	// astray is called when a server does not answer as one that has the locks does:
	// another may have them by now. nil if there can be no other.
	astray   func()
	follower *follower // behind Sentinel; else nil

	background sync.WaitGroup
	ctx        context.Context // of what is done in the background
	stop       context.CancelFunc
	stopping   sync.Mutex
}

func newAdapter(user redis.UniversalClient, addr string) *adapter {
	d := &adapter{user: user, addr: addr}
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.subs = pubsub.New(&ears{d: d, nodes: map[string]*redis.Client{}}, d.Run)
	return d
}

// Width is three quarters of the pool that acquires share with the application, less what the application uses
// now. In a Cluster it is small: when all connections to a master have died, each is given up only after a renewal has
// waited on it, and a lease has time for a few such waits.
func (d *adapter) Width() int {
	rdb, ok := d.user.(*redis.Client)
	if !ok {
		return min(d.width, maxClusterWidth)
	}
	stats := rdb.PoolStats()
	others := int64(stats.TotalConns) - int64(stats.IdleConns) - d.under.Load()
	return d.width - int(max(others, 0))
}

const maxClusterWidth = 4

// widthOf is the Width of a client with such a pool, of which active connections may be open if that is not 0.
func widthOf(pool, active int) int {
	if active > 0 {
		pool = min(pool, active)
	}
	return pool * 3 / 4
}

// once is a command that go-redis sends once: a repeated one could act twice.
type once struct{ *redis.Cmd }

// NoRetry switches the client's retries off for this command (go-redis 9.19).
func (once) NoRetry() bool { return true }

func (d *adapter) Run(ctx context.Context, c driver.Call) (string, error) {
	rdb, done := d.clientFor(c)
	reply, err := run(ctx, rdb, c)
	done(err)
	d.orient(err)
	return reply, convert(err)
}

// clientFor returns the client for a call. done is to be called with the call's outcome.
func (d *adapter) clientFor(c driver.Call) (rdb redis.UniversalClient, done func(error)) {
	if c.Urgent {
		rdb := d.own.get()
		return rdb, func(err error) {
			var overdue net.Error
			if errors.As(err, &overdue) && overdue.Timeout() || errors.Is(err, context.DeadlineExceeded) {
				d.replaceOwn(rdb)
			}
		}
	}
	d.under.Add(1)
	return d.user, func(error) { d.under.Add(-1) }
}

func run(ctx context.Context, rdb redis.UniversalClient, c driver.Call) (string, error) {
	if c.Script.Command != "" {
		return send(ctx, rdb, command(c.Script.Command, c.Keys, c.Args))
	}
	reply, err := send(ctx, rdb, words("evalsha", c.Script.SHA1, c.Keys, c.Args))
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = send(ctx, rdb, words("eval", c.Script.Source, c.Keys, c.Args))
	}
	return reply, err
}

// orient has the clients find out who has the locks now, if an error gives reason to
// doubt that it is who had them.
func (d *adapter) orient(err error) {
	if d.astray != nil && doubtful(err) {
		d.behind(d.astray)
	}
}

// doubtful reports whether an error gives reason to doubt that it came from who has the locks.
func doubtful(err error) bool {
	if err == nil {
		return false
	}
	var sent redis.Error
	return !errors.As(err, &sent) || begins(err, misled)
}

// behind calls f in the background; false if the driver closes.
func (d *adapter) behind(f func()) bool {
	d.stopping.Lock()
	defer d.stopping.Unlock()
	if d.ctx.Err() != nil {
		return false
	}
	d.background.Go(f)
	return true
}

// misled are the errors of servers that do not have the locks, or not now.
var misled = []string{"CLUSTERDOWN", "LOADING", "MASTERDOWN", "MOVED", "READONLY"}

// begins reports whether an error that a server sent begins with one of the words.
func begins(err error, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return redis.HasErrorPrefix(err, word) })
}

func send(ctx context.Context, rdb redis.UniversalClient, words []any) (string, error) {
	cmd := once{redis.NewCmd(ctx, words...)}
	if err := rdb.Process(ctx, cmd); err != nil {
		return "", err
	}
	return text(cmd)
}

// text is the reply to a script, or, of a command that stands in for one, a number.
func text(cmd once) (string, error) {
	if n, ok := cmd.Val().(int64); ok {
		return strconv.FormatInt(n, 10), nil
	}
	return cmd.Text()
}

// command is a command of the server's own, with its keys.
func command(name string, keys, args []string) []any {
	words := make([]any, 0, 1+len(keys)+len(args))
	words = append(words, name)
	for _, word := range slices.Concat(keys, args) {
		words = append(words, word)
	}
	return words
}

func words(command, script string, keys, args []string) []any {
	words := references(command, &script, keys, args)
	if len(keys) > 0 {
		words[3] = keys[0] // by which a Cluster's node is found
	}
	return words
}

// references are the words of the command that runs a script: as strings, each would be copied into a piece
// of memory of its own.
func references(command string, script *string, keys, args []string) []any {
	words := make([]any, 0, 3+len(keys)+len(args))
	words = append(words, command, script, len(keys))
	for i := range keys {
		words = append(words, &keys[i])
	}
	for i := range args {
		words = append(words, &args[i])
	}
	return words
}

// RunDurably sends the script and the command that waits for replicas over one connection; in
// a Cluster, one of the node that has the keys.
func (d *adapter) RunDurably(ctx context.Context, c driver.Call, want driver.Durability) (string, driver.Confirmation, error) {
	rdb := d.waiting[0]
	if c.Urgent {
		rdb = d.waiting[1]
	}
	node, err := nodeOf(ctx, rdb, c.Keys[0])
	if err != nil {
		return "", driver.Confirmation{}, convert(err)
	}
	reply, reached, err := evalDurably(ctx, node, false, "evalsha", c.Script.SHA1, c.Keys, c.Args, want)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, reached, err = evalDurably(ctx, node, false, "eval", c.Script.Source, c.Keys, c.Args, want)
	}
	if reply == "" && redis.HasErrorPrefix(err, "ASK ") {
		reply, reached, err = evalAsked(ctx, node, err, c, want)
	}
	if cluster, ok := rdb.(*redis.ClusterClient); ok && reply == "" && (redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK")) {
		// It was not carried out; by the next try the client knows the new node.
		cluster.ReloadState(ctx)
		return "", reached, driver.ReplyError("TRYAGAIN " + err.Error())
	}
	return reply, reached, convert(err)
}

// nodeOf returns a client of the server that has the key.
func nodeOf(ctx context.Context, rdb redis.UniversalClient, key string) (redis.UniversalClient, error) {
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, key)
	}
	return rdb, nil
}

func evalDurably(ctx context.Context, node redis.UniversalClient, asked bool, command, script string, keys, args []string, want driver.Durability) (text string, reached driver.Confirmation, err error) {
	eval := once{redis.NewCmd(ctx, words(command, script, keys, args)...)}
	wait := redis.NewCmd(ctx, "wait", want.Replicas, want.Timeout.Milliseconds())
	if want.Fsync {
		wait = redis.NewCmd(ctx, "waitaof", 1, want.Replicas, want.Timeout.Milliseconds())
	}
	one := node.(*redis.Client).Conn()
	defer func() { _ = one.Close() }()
	pipe := one.Pipeline()
	if asked {
		_ = pipe.Process(ctx, redis.NewCmd(ctx, "asking"))
	}
	_ = pipe.Process(ctx, eval)
	if want.Counts == nil {
		_ = pipe.Process(ctx, wait)
	}
	_, err = pipe.Exec(ctx)
	if eval.Err() != nil {
		return "", reached, eval.Err()
	}
	text, textErr := eval.Text()
	if textErr != nil || err != nil {
		return text, reached, cmp.Or(textErr, err)
	}
	if want.Counts != nil {
		if !want.Counts(text) {
			return text, reached, nil
		}
		if err := one.Process(ctx, wait); err != nil {
			return text, reached, err
		}
	}
	if !want.Fsync {
		reached.Replicas, err = wait.Int()
		return text, reached, err
	}
	counts, err := wait.Int64Slice()
	if err != nil || len(counts) != 2 {
		return "", reached, fmt.Errorf("the reply to WAITAOF is %v: %w", wait.Val(), err)
	}
	reached.Fsync, reached.Replicas = counts[0] > 0, int(counts[1])
	return text, reached, nil
}

// convert tells errors that the server sent from those of the way to it.
func convert(err error) error {
	if err == nil {
		return nil
	}
	var sent redis.Error
	if errors.As(err, &sent) && !errors.Is(err, redis.Nil) {
		return driver.ReplyError(sent.Error())
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrClosed) {
		return fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	return err
}

// Probe uses HELLO, which every user may send, and TIME, which every script sends.
func (d *adapter) Probe(ctx context.Context) (driver.ServerInfo, error) {
	reply, err := d.user.Do(ctx, "hello").Result()
	if err != nil {
		return driver.ServerInfo{}, convert(err)
	}
	now, err := d.user.Time(ctx).Result()
	if err != nil {
		return driver.ServerInfo{}, convert(err)
	}
	field := fields(reply)
	return driver.ServerInfo{
		Server:  field["server"],
		Version: field["version"],
		Cluster: field["mode"] == "cluster",
		Time:    now,

		Sentinel: d.follower != nil,
	}, nil
}

func (d *adapter) Addr() string {
	if d.follower != nil {
		return d.follower.addr()
	}
	return d.addr
}

func (d *adapter) Close() error {
	d.stopping.Lock()
	d.stop()
	d.stopping.Unlock()
	d.subs.Stop()
	err := d.own.get().Close()
	for _, waiting := range d.waiting {
		err = errors.Join(err, waiting.Close())
	}
	if d.made {
		err = errors.Join(err, d.user.Close())
	}
	if d.follower != nil {
		d.follower.close()
	}
	d.subs.Wait()
	d.background.Wait()
	return err
}
