// Package holdfastvalkey lets Holdfast use valkey-go: for a single server, or for a Cluster. It does not support
// Sentinel; holdfastgoredis.NewFailover and holdfastrueidis do.
//
// A valkey.Client does not tell with which options it was made, and commands of all its users share its
// connections. So the driver is given the options, and makes a client of its own. Each command is sent once:
// valkey-go's own retries do not apply.
package holdfastvalkey

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/pubsub"
)

// New returns a holdfast.Client, from the options with which the program makes its own valkey.Client. It connects
// when it is first used. The options are kept, except these:
//
//   - retries, client-side caching, reading from replicas and ConnLifetime are switched off;
//   - if Dialer.KeepAlive or ConnWriteTimeout is zero, it is 1 s or 2 s, so that a connection whose other end is gone
//     is given up before leases end (valkey-go takes 10 s);
//   - if PipelineMultiplex is zero, there is one connection to each server for locks.
//
// Options that cannot be used for locks are refused with an error that says why and matches holdfast.ErrInvalid.
func New(option valkey.ClientOption, cfg *holdfast.Config) (*holdfast.Client, error) {
	d, err := NewDriver(option)
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
func NewDriver(option valkey.ClientOption) (driver.Driver, error) {
	switch {
	case len(option.InitAddress) == 0:
		return nil, errors.New("valkey.ClientOption has no InitAddress")
	case option.ReplicaOnly:
		return nil, errors.New("valkey.ClientOption.ReplicaOnly cannot be used for locks: replicas do not grant them")
	case option.Sentinel.MasterSet != "":
		return nil, errors.New("holdfastvalkey does not support Sentinel (valkey.ClientOption.Sentinel.MasterSet): use holdfastgoredis.NewFailover or holdfastrueidis")
	case option.Standalone.EnableRedirect:
		return nil, errors.New("holdfastvalkey does not support valkey.ClientOption.Standalone.EnableRedirect: give it the address of the primary")
	}
	option.InitAddress = slices.Clone(option.InitAddress)
	option.DisableRetry, option.DisableCache = true, true
	if option.SendToReplicas != nil { // without it valkey-go would refuse other options
		option.SendToReplicas = func(valkey.Completed) bool { return false }
	}
	option.Standalone = valkey.StandaloneOption{}
	option.ConnLifetime = 0 // valkey-go repeats what is under way on a connection that has reached it
	if option.Dialer.KeepAlive == 0 {
		option.Dialer.KeepAlive = time.Second
	}
	if option.ConnWriteTimeout == 0 {
		option.ConnWriteTimeout = 2 * time.Second
	}
	if option.PipelineMultiplex == 0 {
		option.PipelineMultiplex = -1
	}
	a := &adapter{}
	a.ctx, a.stop = context.WithCancel(context.Background())
	option.DialFn, option.DialCtxFn = nil, a.conns.dialer(a.ctx, option)
	a.option = option
	a.subs = pubsub.New(subscriber{a}, a.Run)
	return a, nil
}

// adapter is the driver.Driver. Its client is made at the first call, and again when its server turns out to be a
// replica.
type adapter struct {
	option valkey.ClientOption
	conns  conns
	subs   *pubsub.Pool

	plan     atomic.Pointer[plan] // of a Cluster; nil until it is known
	planning atomic.Bool          // it is being asked for

	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu         sync.Mutex
	background sync.WaitGroup // added to under mu, while ctx has not ended
	client     valkey.Client
	made       time.Time
	making     *making
}

// making is an attempt to make a client, shared by all calls that need one.
type making struct {
	over   chan struct{} // closed when it has ended
	client valkey.Client
	err    error // as Run returns it
}

// connect returns the client, and makes it if there is none. Its errors are as Run returns them.
func (a *adapter) connect(ctx context.Context) (valkey.Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, notSent(err)
	}
	a.mu.Lock()
	if a.ctx.Err() != nil {
		a.mu.Unlock()
		return nil, notSent(valkey.ErrClosing)
	}
	if c := a.client; c != nil {
		a.mu.Unlock()
		return c, nil
	}
	m := a.making
	if m == nil {
		m = &making{over: make(chan struct{})}
		a.making = m
		a.background.Go(func() { a.make(m) })
	}
	a.mu.Unlock()
	select {
	case <-m.over:
		return m.client, m.err
	case <-ctx.Done():
		return nil, notSent(ctx.Err())
	}
}

func (a *adapter) make(m *making) {
	option := a.option
	option.InitAddress = slices.Clone(option.InitAddress) // ShuffleInit shuffles it in place
	client, err := valkey.NewClient(option)
	if err != nil {
		if client != nil {
			client.Close()
		}
		client = nil
		if m.err = convert(err); !isReply(m.err, "") && !errors.Is(m.err, driver.ErrNotSent) {
			m.err = notSent(err) // no call was on the way yet
		}
	}
	a.mu.Lock()
	m.client = client
	a.client, a.made, a.making = client, time.Now(), nil
	a.mu.Unlock()
	close(m.over)
}

// leavePeriod is how often at most a client is left.
const leavePeriod = time.Second

// leave gives up a client whose server is not the master any more, and its subscriptions. The next client finds out
// anew where its address leads.
func (a *adapter) leave(client valkey.Client) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.client != client || time.Since(a.made) < leavePeriod || a.ctx.Err() != nil {
		return
	}
	a.client = nil
	a.conns.closeAll()
	a.background.Go(client.Close)
}

// behind calls f in the background; it is false if the driver closes.
func (a *adapter) behind(f func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx.Err() != nil {
		return false
	}
	a.background.Go(f)
	return true
}

// Run sends a call. The context that valkey-go is given ends calls, but not dialing, which Dialer.Timeout bounds.
func (a *adapter) Run(ctx context.Context, c driver.Call) (string, error) {
	client, err := a.connect(ctx)
	if err != nil {
		return "", err
	}
	reply, err := text(client.Do(ctx, command(client, c)))
	if isReply(err, "NOSCRIPT") {
		reply, err = text(client.Do(ctx, whole(client, c)))
	}
	a.heed(client, err)
	return reply, err
}

// RunAll sends the calls at once. valkey-go sorts them by master, and follows redirections.
func (a *adapter) RunAll(ctx context.Context, calls []driver.Call, tell func(i int, reply string, err error)) {
	client, err := a.connect(ctx)
	if err != nil {
		for i := range calls {
			tell(i, "", err)
		}
		return
	}
	commands := make([]valkey.Completed, len(calls))
	for i, c := range calls {
		commands[i] = command(client, c)
	}
	var again []int
	for i, result := range client.DoMulti(ctx, commands...) {
		reply, err := text(result)
		if isReply(err, "NOSCRIPT") {
			again = append(again, i)
			continue
		}
		a.heed(client, err)
		tell(i, reply, err)
	}
	commands = nil // valkey-go still reads those of a connection that hangs
	for _, i := range again {
		commands = append(commands, whole(client, calls[i]))
	}
	for n, result := range client.DoMulti(ctx, commands...) {
		reply, err := text(result)
		a.heed(client, err)
		tell(again[n], reply, err)
	}
}

// heed does what the error of a call asks for. After a timeout it closes connections that hang: valkey-go's own ping
// takes seconds to find them. It leaves a server that is not the master any more; in a Cluster valkey-go does that.
func (a *adapter) heed(client valkey.Client, err error) {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		a.conns.closeSilent()
	case client.Mode() != valkey.ClientModeCluster && (isReply(err, "READONLY") || isReply(err, "MASTERDOWN")):
		a.leave(client)
	}
}

// command is a call as it is sent first: the server's own command, or a script by its hash.
func command(client valkey.Client, c driver.Call) valkey.Completed {
	if c.Script.Command != "" {
		return words(client, c, c.Script.Command)
	}
	return words(client, c, "evalsha", c.Script.SHA1, strconv.Itoa(len(c.Keys)))
}

// whole is a call with its whole script.
func whole(client valkey.Client, c driver.Call) valkey.Completed {
	return words(client, c, "eval", c.Script.Source, strconv.Itoa(len(c.Keys)))
}

// words is a command with the keys and arguments of a call. Its slot is that of the first key: a server refuses keys
// in several slots, and valkey-go would panic.
func words(client valkey.Client, c driver.Call, head ...string) valkey.Completed {
	b := client.B().Arbitrary(head...)
	if len(c.Keys) > 0 {
		b = b.Keys(c.Keys[0]).Args(c.Keys[1:]...)
	}
	return b.Args(c.Args...).Build()
}

// text is the result of a call as Run returns it.
func text(result valkey.ValkeyResult) (string, error) {
	m, err := result.ToMessage()
	if err == nil && m.IsInt64() {
		n, err := m.AsInt64()
		return strconv.FormatInt(n, 10), err
	}
	if err != nil {
		return "", convert(err)
	}
	return m.ToString()
}

// convert returns an error of valkey-go as Run returns it.
func convert(err error) error {
	var undialled *dialError
	sent, ok := valkey.IsValkeyErr(err)
	switch {
	case ok:
		return driver.ReplyError(restored(sent.Error()))
	case errors.As(err, &undialled), errors.Is(err, valkey.ErrNoSlot):
		return notSent(err)
	}
	return err
}

// restored is an error as the server sent it: valkey-go takes the word ERR away, which is in front of errors that
// begin with no other code.
func restored(text string) string {
	if first, _, _ := strings.Cut(text, " "); first != strings.ToUpper(first) {
		return "ERR " + text
	}
	return text
}

// isReply reports whether an error is one that the server sent, with that code.
func isReply(err error, code string) bool {
	sent, ok := err.(driver.ReplyError)
	return ok && strings.HasPrefix(string(sent), code)
}

func notSent(err error) error { return fmt.Errorf("%w: %w", driver.ErrNotSent, err) }

// Width is large: calls share a connection, and follow each other on it. More than that would be no faster.
func (a *adapter) Width() int { return 64 }

// Probe uses HELLO, which every user may send, and TIME, which every script sends.
func (a *adapter) Probe(ctx context.Context) (driver.ServerInfo, error) {
	client, err := a.connect(ctx)
	if err != nil {
		return driver.ServerInfo{}, err
	}
	field, err := hello(ctx, client)
	if err != nil {
		a.heed(client, err)
		return driver.ServerInfo{}, err
	}
	now, err := client.Do(ctx, client.B().Time().Build()).AsIntSlice()
	if err == nil && len(now) != 2 {
		err = fmt.Errorf("the reply to TIME has %d numbers", len(now))
	}
	if err != nil {
		err = convert(err)
		a.heed(client, err)
		return driver.ServerInfo{}, err
	}
	return driver.ServerInfo{
		Server:  field["server"],
		Version: field["version"],
		Cluster: field["mode"] == "cluster",
		Time:    time.UnixMicro(now[0]*1e6 + now[1]),
	}, nil
}

// hello asks a server what it is.
func hello(ctx context.Context, client valkey.CoreClient) (map[string]string, error) {
	all, err := client.Do(ctx, client.B().Arbitrary("HELLO").Build()).AsMap()
	if err != nil {
		return nil, convert(err)
	}
	field := map[string]string{}
	for name, value := range all { // some are numbers, or lists
		if value.IsString() {
			field[name], _ = value.ToString()
		}
	}
	return field, nil
}

func (a *adapter) Addr() string { return strings.Join(a.option.InitAddress, ",") }

// String names the server. The options, which fmt would walk into, have the password.
func (a *adapter) String() string { return fmt.Sprintf("holdfastvalkey.Driver(%s)", a.Addr()) }

// Format prints String, by whatever verb.
func (a *adapter) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, a.String()) }

func (a *adapter) Close() error {
	a.mu.Lock()
	a.stop()
	client := a.client
	a.mu.Unlock()
	a.subs.Stop()
	if client != nil {
		client.Close()
	}
	a.conns.closeAll()
	a.background.Wait()
	a.subs.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.client != nil && a.client != client { // it was being made
		a.client.Close()
		a.conns.closeAll()
	}
	return nil
}
