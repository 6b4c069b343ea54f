// Package holdfastrueidis lets Holdfast use rueidis: for a single server, for a master found
// through Sentinel, or for a Cluster.
//
// Behind Sentinel it asks all sentinels for the master, once a second, each for half a second at most, and follows the majority
// of them; where there is none, the one with the latest configuration. If fewer than three are named, it asks those for others.
//
// A rueidis.Client does not tell with which options it was made, and commands of all its users
// share its connections. So the driver is given the options, and makes clients of its own: one
// for locks, so that a renewal is not stuck behind a reply of a hundred megabytes, and one for
// subscriptions. Each command is sent once: rueidis's own retries do not apply.
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
)

// New returns a holdfast.Client, from the options with which the program makes its own
// rueidis.Client. It connects when it is first used. The options are kept, but for these:
//
//   - retries, client-side caching, reading from replicas and ConnLifetime are switched off;
//   - where Dialer.KeepAlive and ConnWriteTimeout are zero, they are a second and two, so that
//     a connection whose other end is gone is given up before leases end (rueidis takes 10 s);
//   - where PipelineMultiplex is zero, there is one connection to each server for locks.
//
// Options that cannot be used for locks are refused with an error that says why and matches holdfast.ErrInvalid.
func New(o rueidis.ClientOption, cfg *holdfast.Config) (*holdfast.Client, error) {
	d, err := NewDriver(o)
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
func NewDriver(o rueidis.ClientOption) (driver.Driver, error) {
	switch {
	case len(o.InitAddress) == 0:
		return nil, errors.New("rueidis.ClientOption has no InitAddress")
	case o.ReplicaOnly:
		return nil, errors.New("rueidis.ClientOption.ReplicaOnly cannot be used for locks: replicas do not grant them")
	}
	o.InitAddress = slices.Clone(o.InitAddress)
	o.DisableRetry, o.DisableCache = true, true
	if o.SendToReplicas != nil { // without it other options would be refused
		o.SendToReplicas = func(rueidis.Completed) bool { return false }
	}
	o.ConnLifetime = 0
	o.DialFn, o.DialCtxFn = nil, guarded(o)
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
	d.hands, d.ears = &connector{d: d}, &connector{d: d}
	if o.Sentinel.MasterSet != "" {
		d.follower = follow(d)
	}
	d.subs = pubsub.New(ears{d}, d.Run)
	return d, nil
}

// guarded dials as rueidis does. Connections are closed on which the server sends what rueidis could not survive.
func guarded(o rueidis.ClientOption) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
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
		if tcp, ok := conn.(*net.TCPConn); ok && o.DisableTCPNoDelay { // rueidis does not see that it is one
			_ = tcp.SetNoDelay(false)
		}
		return bounds.Wrap(conn), nil
	}
}

// adapter is the driver.Driver over two rueidis clients for the same server.
type adapter struct {
	option      rueidis.ClientOption
	hands, ears *connector // for scripts, and for subscriptions
	follower    *follower  // behind Sentinel; else nil
	subs        *pubsub.Pool

	plan     atomic.Pointer[plan] // of a Cluster; nil until it is asked for
	planning atomic.Bool          // it is being asked for

	background sync.WaitGroup
	ctx        context.Context // of what is done in the background
	stop       context.CancelFunc
	stopping   sync.Mutex
}

// connector makes a client when one is needed, and another when that one led astray.
type connector struct {
	d *adapter

	mu      sync.Mutex
	present rueidis.Client
	made    time.Time
	master  string        // to which present leads, behind Sentinel
	making  chan struct{} // closed when it was tried
	failure error         // of the latest try
}

// client returns the present client. Making one dials. Its errors are as Run returns them.
func (c *connector) client(ctx context.Context) (rueidis.Client, error) {
	for {
		c.mu.Lock()
		if c.present != nil {
			defer c.mu.Unlock()
			return c.present, nil
		}
		if c.making == nil {
			c.making = make(chan struct{})
			if !c.d.behind(c.make) {
				defer c.mu.Unlock()
				close(c.making)
				c.making = nil
				return nil, fmt.Errorf("%w: %w", driver.ErrNotSent, rueidis.ErrClosing)
			}
		}
		making := c.making
		c.mu.Unlock()
		select {
		case <-making:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", driver.ErrNotSent, ctx.Err())
		}
		c.mu.Lock()
		failure := c.failure
		c.mu.Unlock()
		if _, sent := rueidis.IsRedisErr(failure); sent { // it refuses to let us in
			return nil, convert(failure)
		}
		if failure != nil {
			return nil, fmt.Errorf("%w: %w", driver.ErrNotSent, failure)
		}
	}
}

func (c *connector) make() {
	var client rueidis.Client
	var master string
	var err error
	if c.d.follower != nil {
		client, master, err = c.d.follower.connect()
	} else {
		o := c.d.option
		o.InitAddress = slices.Clone(o.InitAddress) // which is shuffled in place with ShuffleInit, while the other client reads it
		client, err = rueidis.NewClient(o)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.making)
	c.making, c.failure = nil, err
	if err == nil {
		c.present, c.made, c.master = client, time.Now(), master
	} else if client != nil {
		client.Close()
	}
}

// remakePeriod is how often at most a client is given up.
const remakePeriod = time.Second

// forget gives a client up: the next one has new connections, and finds out anew where its
// addresses lead to. What is under way still gets its reply, if that comes within a second.
// It is false if that has been done, or the client is too new.
func (c *connector) forget(client rueidis.Client) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.present != client || time.Since(c.made) < remakePeriod || !c.d.behind(client.Close) {
		return false
	}
	c.present = nil
	return true
}

// keepTo gives a client up that does not lead to the master.
func (c *connector) keepTo(master string) (left bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.present == nil || c.master == master || !c.d.behind(c.present.Close) {
		return false
	}
	c.present = nil
	return true
}

func (c *connector) close() {
	c.mu.Lock()
	client := c.present
	c.mu.Unlock()
	if client != nil {
		client.Close()
	}
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

// Width is large: calls share a connection, and follow each other on it. More than that would be no faster.
func (d *adapter) Width() int { return 64 }

func (d *adapter) Run(ctx context.Context, c driver.Call) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	client, err := d.hands.client(ctx)
	if err != nil {
		return "", err
	}
	s := c.Script
	if s.Command != "" {
		reply, err := text(client.Do(ctx, command(client, s.Command, c.Keys, c.Args)), s)
		d.orient(client, err)
		return reply, convert(err)
	}
	reply, err := client.Do(ctx, words(client, "evalsha", s.SHA1, c.Keys, c.Args)).ToString()
	if isReply(err, "NOSCRIPT") {
		reply, err = client.Do(ctx, words(client, "eval", s.Source, c.Keys, c.Args)).ToString()
	}
	d.orient(client, err)
	return reply, convert(err)
}

// orient gives a client up that gets no replies: its connection may have no other end any more,
// of which rueidis finds out with a ping, seconds later. It gives both up if a server answers that
// is no master any more. In a Cluster rueidis hears of another; behind Sentinel, and where a name
// or a proxy leads to the master, only a new connection does.
func (d *adapter) orient(client rueidis.Client, err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		d.hands.forget(client)
		return
	}
	if client.Mode() != rueidis.ClientModeStandalone || !slices.ContainsFunc(demoted, func(word string) bool { return isReply(err, word) }) {
		return
	}
	if !d.hands.forget(client) {
		return
	}
	d.ears.mu.Lock()
	ears := d.ears.present
	d.ears.mu.Unlock()
	if ears != nil {
		d.ears.forget(ears)
	}
	d.subs.Interrupt(convert(err))
}

// demoted are the errors of servers that do not have the locks any more.
var demoted = []string{"READONLY", "MASTERDOWN"}

// text is the reply to a script, or, of a command that stands in for one, a number.
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

// command is a command of the server's own, with its keys.
func command(client rueidis.Client, name string, keys, args []string) rueidis.Completed {
	return client.B().Arbitrary(name).Keys(keys...).Args(args...).Build()
}

// words is the command that runs a script. Its slot is that of the first key: the server
// refuses keys of several, and rueidis would panic.
func words(client rueidis.Client, command, script string, keys, args []string) rueidis.Completed {
	head := client.B().Arbitrary(command, script, strconv.Itoa(len(keys)))
	if len(keys) > 0 {
		head = head.Keys(keys[0]).Args(keys[1:]...)
	}
	return head.Args(args...).Build()
}

// RunDurably has a connection to itself: WAIT holds up what comes after it.
func (d *adapter) RunDurably(ctx context.Context, c driver.Call, want driver.Durability) (string, driver.Confirmation, error) {
	client, err := d.hands.client(ctx)
	if err != nil {
		return "", driver.Confirmation{}, err
	}
	var reply string
	var reached driver.Confirmation
	_ = client.Dedicated(func(one rueidis.DedicatedClient) error {
		if reply, reached, err = evalDurably(ctx, client, one, false, words(client, "evalsha", c.Script.SHA1, c.Keys, c.Args), want); isReply(err, "NOSCRIPT") {
			reply, reached, err = evalDurably(ctx, client, one, false, words(client, "eval", c.Script.Source, c.Keys, c.Args), want)
		}
		return err
	})
	if refusal, ok := rueidis.IsRedisErr(err); ok && reply == "" {
		if addr, asks := refusal.IsAsk(); asks {
			reply, reached, err = d.evalAsked(ctx, addr, c, want)
		}
	}
	if reply == "" && (isReply(err, "MOVED") || isReply(err, "ASK")) {
		// It was not carried out; by the next try the client knows the new node.
		return "", reached, driver.ReplyError("TRYAGAIN " + err.Error())
	}
	d.orient(client, err)
	return reply, reached, convert(err)
}

func evalDurably(ctx context.Context, client rueidis.Client, one rueidis.DedicatedClient, asked bool, eval rueidis.Completed, want driver.Durability) (text string, reached driver.Confirmation, err error) {
	replicas, timeout := strconv.Itoa(want.Replicas), strconv.FormatInt(want.Timeout.Milliseconds(), 10)
	wait := client.B().Arbitrary("WAIT", replicas, timeout).Build()
	if want.Fsync {
		wait = client.B().Arbitrary("WAITAOF", "1", replicas, timeout).Build()
	}
	commands, first := []rueidis.Completed{eval}, 0
	if asked {
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
		err = fmt.Errorf("the reply to WAITAOF has %d numbers", len(counts))
	}
	if err != nil {
		return text, reached, err
	}
	reached.Fsync, reached.Replicas = counts[0] > 0, int(counts[1])
	return text, reached, nil
}

// isReply reports whether an error is one that the server sent, with that first word.
func isReply(err error, word string) bool {
	sent, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasPrefix(sent.Error(), word)
}

// convert tells errors that the server sent from those of the way to it.
func convert(err error) error {
	if err == nil {
		return nil
	}
	if sent, ok := rueidis.IsRedisErr(err); ok && !sent.IsNil() {
		return driver.ReplyError(restored(sent.Error()))
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, rueidis.ErrNoSlot) {
		return fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	return err
}

// restored is an error as the server sent it: rueidis takes the word ERR away, which those have that begin
// with no other such word.
func restored(text string) string {
	if first, _, _ := strings.Cut(text, " "); first != strings.ToUpper(first) {
		return "ERR " + text
	}
	return text
}

// Probe uses HELLO, which every user may send, and TIME, which every script sends.
func (d *adapter) Probe(ctx context.Context) (driver.ServerInfo, error) {
	client, err := d.hands.client(ctx)
	if err != nil {
		return driver.ServerInfo{}, err
	}
	field, err := hello(ctx, client)
	if err != nil {
		return driver.ServerInfo{}, convert(err)
	}
	now, err := client.Do(ctx, client.B().Time().Build()).AsIntSlice()
	if err == nil && len(now) != 2 {
		err = fmt.Errorf("the reply to TIME has %d numbers", len(now))
	}
	if err != nil {
		return driver.ServerInfo{}, convert(err)
	}
	return driver.ServerInfo{
		Server:  field["server"],
		Version: field["version"],
		Cluster: field["mode"] == "cluster",
		Time:    time.UnixMicro(now[0]*1e6 + now[1]),

		Sentinel: d.option.Sentinel.MasterSet != "",
	}, nil
}

// hello asks a server what it is.
func hello(ctx context.Context, client rueidis.CoreClient) (map[string]string, error) {
	reply, err := client.Do(ctx, client.B().Arbitrary("HELLO").Build()).ToAny()
	if err != nil {
		return nil, err
	}
	field := map[string]string{}
	switch reply := reply.(type) {
	case map[string]any: // RESP3
		for k, v := range reply {
			field[k] = fmt.Sprint(v)
		}
	case []any: // RESP2
		for i := 0; i+1 < len(reply); i += 2 {
			field[fmt.Sprint(reply[i])] = fmt.Sprint(reply[i+1])
		}
	}
	return field, nil
}

func (d *adapter) Addr() string {
	if d.follower == nil {
		return strings.Join(d.option.InitAddress, ",")
	}
	d.hands.mu.Lock()
	defer d.hands.mu.Unlock()
	return cmp.Or(d.hands.master, "the master that Sentinel names")
}

func (d *adapter) Close() error {
	d.stopping.Lock()
	d.stop()
	d.stopping.Unlock()
	d.subs.Stop()
	d.background.Wait()
	d.subs.Wait()
	if d.follower != nil {
		d.follower.close()
	}
	d.hands.close()
	d.ears.close()
	return nil
}
