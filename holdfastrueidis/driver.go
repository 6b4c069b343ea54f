// Package holdfastrueidis makes a holdfast.Client that talks to the server through rueidis: a single server, a master
// found through Sentinel, or a Cluster.
//
// With Sentinel it asks all sentinels for the master, once a second and whenever it connects, but no more than ten times
// a second. It waits for them for at most half a second, and follows the majority.
// If there is no majority, the sentinel with the latest configuration decides. If fewer than three sentinels are given,
// it asks them for others.
//
// A rueidis.Client does not reveal its options, and all its users share its connections. So the driver takes the options
// and makes clients of its own: one for locks, so that a renewal is not stuck behind a reply of a hundred megabytes, and
// one for subscriptions. Almost all calls share one more connection to each server, which rueidis makes, and on which the library
// itself speaks to the server; holdfast.Config.ViaClient says when not. There is none with Sentinel, with AuthCredentialsFn, with
// Standalone.EnableRedirect, and for several addresses of one server. Each command is sent once: rueidis's own retries do not apply.
package holdfastrueidis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/bounds"
	"github.com/holdfast-go/holdfast/internal/pubsub"
	"github.com/holdfast-go/holdfast/internal/sentinel"
)

// New returns a holdfast.Client that uses the options with which the program makes its own rueidis.Client. It connects on
// first use. These options are changed:
//
//   - Retries, client-side caching, reads from replicas and ConnLifetime are switched off.
//   - If Dialer.KeepAlive or ConnWriteTimeout is zero, it becomes 1 s or 2 s, so that a dead connection is dropped before
//     leases end (rueidis's default takes 10 s).
//   - If PipelineMultiplex is zero, there is one connection to each server for locks.
//
// If the options cannot be used for locks, the error says why and matches holdfast.ErrInvalid.
func New(o rueidis.ClientOption, cfg *holdfast.Config) (*holdfast.Client, error) {
	d, err := NewDriver(o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", holdfast.ErrInvalid, err)
	}
	c, err := holdfast.New(d, cfg)
	if err != nil {
		_ = d.Close() // it has no connections yet
	}
	return c, err
}

// NewDriver returns the driver of New's client, for programs that wrap a driver or use one without a client.
func NewDriver(o rueidis.ClientOption) (driver.Driver, error) {
	switch {
	case len(o.InitAddress) == 0:
		return nil, errors.New("rueidis.ClientOption has no InitAddress")
	case o.ReplicaOnly:
		return nil, errors.New("rueidis.ClientOption.ReplicaOnly cannot be used for locks: replicas do not grant them")
	}
	o.InitAddress = slices.Clone(o.InitAddress)
	o.DisableRetry, o.DisableCache = true, true
	if o.SendToReplicas != nil { // kept, since rueidis refuses some other options without it
		o.SendToReplicas = func(rueidis.Completed) bool { return false }
	}
	o.ConnLifetime = 0
	o.DialFn, o.DialCtxFn = nil, boundingDialer(o)
	if o.Dialer.KeepAlive == 0 {
		o.Dialer.KeepAlive = time.Second
	}
	if o.ConnWriteTimeout == 0 {
		o.ConnWriteTimeout = 2 * time.Second
	}
	if o.PipelineMultiplex == 0 {
		o.PipelineMultiplex = -1
	}
	d := &adapter{option: o}
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.scripts, d.subscriptions = &connector{d: d}, &connector{d: d}
	if o.Sentinel.MasterSet != "" {
		d.follower = newFollower(d)
	}
	d.subs = pubsub.New(subscriber{d}, d.Run)
	return d, nil
}

// boundingDialer returns a function that dials as rueidis does with these options. Connections close when the server
// sends what rueidis could not survive.
func boundingDialer(o rueidis.ClientOption) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (conn net.Conn, err error) {
		switch {
		case o.DialCtxFn != nil:
			conn, err = o.DialCtxFn(ctx, addr, d, config)
		case o.DialFn != nil:
			conn, err = o.DialFn(addr, d, config)
		case config != nil:
			conn, err = (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, "tcp", addr)
		default:
			conn, err = d.DialContext(ctx, "tcp", addr)
		}
		if err != nil {
			return nil, err
		}
		if tcp, ok := conn.(*net.TCPConn); ok && o.DisableTCPNoDelay { // rueidis does not recognize a wrapped one
			_ = tcp.SetNoDelay(false)
		}
		return bounds.Wrap(conn), nil
	}
}

// adapter is the driver.Driver over two rueidis clients for the same server.
type adapter struct {
	option        rueidis.ClientOption
	scripts       *connector // for calls
	subscriptions *connector
	follower      *follower // nil without Sentinel
	subs          *pubsub.Pool

	slots      atomic.Pointer[slotMap] // of a Cluster; nil until first asked for
	refreshing atomic.Bool             // slots is being refreshed in the background

	background sync.WaitGroup
	ctx        context.Context // ends with Close
	stop       context.CancelFunc
	closing    sync.Mutex // held to call stop, and to add to background while ctx has not ended
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

func (d *adapter) Run(ctx context.Context, c driver.Call) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	client, err := d.scripts.client(ctx)
	if err != nil {
		return "", err
	}
	s := c.Script
	if s.Command != "" {
		reply, err := text(client.Do(ctx, serverCommand(client, s.Command, c.Keys, c.Args)), s)
		d.reconnectAfter(client, err)
		return reply, convert(err)
	}
	reply, err := client.Do(ctx, evalCommand(client, "evalsha", s.SHA1, c.Keys, c.Args)).ToString()
	if isReply(err, "NOSCRIPT") {
		reply, err = client.Do(ctx, evalCommand(client, "eval", s.Source, c.Keys, c.Args)).ToString()
	}
	d.reconnectAfter(client, err)
	return reply, convert(err)
}

// reconnectAfter drops the client for calls if one has timed out, because its connection may be dead, which rueidis
// would find out with a ping only seconds later. If the server is no longer the master, it drops both clients. That is
// not needed in a Cluster, where rueidis learns of the new master, but with Sentinel, a DNS name or a proxy only a new
// connection leads to it.
func (d *adapter) reconnectAfter(client rueidis.Client, err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		d.scripts.drop(client)
		return
	}
	if client.Mode() != rueidis.ClientModeStandalone || !slices.ContainsFunc(demoted, func(code string) bool { return isReply(err, code) }) {
		return
	}
	if !d.scripts.drop(client) {
		return
	}
	d.subscriptions.mu.Lock()
	subscribed := d.subscriptions.current
	d.subscriptions.mu.Unlock()
	if subscribed != nil {
		d.subscriptions.drop(subscribed)
	}
	d.subs.Reconnect(convert(err))
}

// demoted has the codes of errors of a server that is no longer the master.
var demoted = []string{"READONLY", "MASTERDOWN"}

// text returns a script's reply, or a command's numeric reply, as text.
func text(result rueidis.RedisResult, s driver.Script) (string, error) {
	if s.Command == "" {
		return result.ToString()
	}
	n, err := result.AsInt64()
	if err != nil {
		return "", err
	}
	return strconv.FormatInt(n, 10), nil
}

// serverCommand returns one of the server's own commands.
func serverCommand(client rueidis.Client, name string, keys, args []string) rueidis.Completed {
	return client.B().Arbitrary(name).Keys(keys...).Args(args...).Build()
}

// evalCommand returns the command that runs a script. Only the first key is marked as one, because rueidis panics if keys
// are in different slots. The server refuses such a call.
func evalCommand(client rueidis.Client, command, script string, keys, args []string) rueidis.Completed {
	head := client.B().Arbitrary(command, script, strconv.Itoa(len(keys)))
	if len(keys) > 0 {
		head = head.Keys(keys[0]).Args(keys[1:]...)
	}
	return head.Args(args...).Build()
}

// isReply reports whether err is a server's error with that code.
func isReply(err error, code string) bool {
	reply, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasPrefix(reply.Error(), code)
}

// convert returns an error of rueidis as driver.Driver's Run returns it.
func convert(err error) error {
	if err == nil {
		return nil
	}
	if reply, ok := rueidis.IsRedisErr(err); ok && !reply.IsNil() {
		return driver.ReplyError(restoreCode(reply.Error()))
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, rueidis.ErrNoSlot) {
		return fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	return err
}

// restoreCode returns an error as the server sent it. rueidis removes the code ERR, which stands before errors that have
// no other code.
func restoreCode(text string) string {
	if first, _, _ := strings.Cut(text, " "); first != strings.ToUpper(first) {
		return "ERR " + text
	}
	return text
}

// Probe uses HELLO, which every user may send, and TIME, which every script sends, in one round trip.
func (d *adapter) Probe(ctx context.Context) (driver.ServerInfo, error) {
	client, err := d.scripts.client(ctx)
	if err != nil {
		return driver.ServerInfo{}, err
	}
	replies := anyNode(client).DoMulti(ctx, client.B().Arbitrary("HELLO").Build(), client.B().Time().Build())
	fields, err := helloFields(replies[0])
	switch {
	case err != nil:
		return driver.ServerInfo{}, convert(err)
	case fields["mode"] == "sentinel":
		return driver.ServerInfo{}, sentinel.ErrSentinel
	}
	now, err := replies[1].AsIntSlice()
	if err == nil && len(now) != 2 {
		err = fmt.Errorf("the reply to TIME has %d numbers, not 2", len(now))
	}
	if err != nil {
		return driver.ServerInfo{}, convert(err)
	}
	info := driver.ServerInfo{
		Server:  fields["server"],
		Version: fields["version"],
		Cluster: fields["mode"] == "cluster",
		Time:    time.UnixMicro(now[0]*1e6 + now[1]),
	}
	if d.follower != nil {
		info.Sentinel, info.Mistakes = true, d.follower.group.Mistakes()
	}
	return info, nil
}

// anyNode returns a client for a node of a Cluster, chosen at random: for commands without keys, DoMulti would choose the
// same master each time, even if it is down.
func anyNode(client rueidis.Client) rueidis.Client {
	if client.Mode() == rueidis.ClientModeCluster {
		for _, node := range client.Nodes() {
			return node
		}
	}
	return client
}

// helloFields returns the fields of a reply to HELLO.
func helloFields(hello rueidis.RedisResult) (map[string]string, error) {
	reply, err := hello.ToAny()
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	switch reply := reply.(type) {
	case map[string]any: // RESP3
		for k, v := range reply {
			fields[k] = fmt.Sprint(v)
		}
	case []any: // RESP2
		for i := 0; i+1 < len(reply); i += 2 {
			fields[fmt.Sprint(reply[i])] = fmt.Sprint(reply[i+1])
		}
	}
	return fields, nil
}

// checkMaster returns an error if the server is a replica.
func checkMaster(ctx context.Context, client rueidis.CoreClient) error {
	fields, err := helloFields(client.Do(ctx, client.B().Arbitrary("HELLO").Build()))
	if err == nil && fields["role"] == "replica" {
		err = errReplica
	}
	return err
}

var errReplica = fmt.Errorf("%w: the server is a replica, no longer the master", driver.ErrNotSent)

func (d *adapter) Addr() string {
	if d.follower == nil {
		return strings.Join(d.option.InitAddress, ",")
	}
	d.scripts.mu.Lock()
	defer d.scripts.mu.Unlock()
	return cmp.Or(d.scripts.master, "the master that Sentinel names")
}

func (d *adapter) Close() error {
	d.closing.Lock()
	d.stop()
	d.closing.Unlock()
	d.subs.Stop()
	d.background.Wait()
	d.subs.Wait()
	if d.follower != nil {
		d.follower.close()
	}
	d.scripts.close()
	d.subscriptions.close()
	return nil
}
