// Package holdfastvalkey makes a holdfast.Client that talks to the server through valkey-go: a single server or a
// Cluster. It does not support Sentinel; holdfastgoredis.NewFailover and holdfastrueidis do.
//
// A valkey.Client does not reveal its options, and all its users share its connections. So the driver takes the options
// and makes a client of its own. Almost all calls share one more connection to each server, which valkey-go makes, and on which the
// library itself speaks to the server; holdfast.Config.ViaClient says when not. There is none with AuthCredentialsFn, and for
// several addresses of one server. Each command is sent once: valkey-go's own retries do not apply.
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
	"github.com/holdfast-go/holdfast/internal/sentinel"
)

// New returns a holdfast.Client that uses the options with which the program makes its own valkey.Client. It connects on
// first use. These options are changed:
//
//   - Retries, client-side caching, reads from replicas and ConnLifetime are switched off.
//   - If Dialer.KeepAlive or ConnWriteTimeout is zero, it becomes 1 s or 2 s, so that a dead connection is dropped before
//     leases end (valkey-go's default takes 10 s).
//   - If PipelineMultiplex is zero, there is one connection to each server for locks.
//
// If the options cannot be used for locks, the error says why and matches holdfast.ErrInvalid.
func New(option valkey.ClientOption, cfg *holdfast.Config) (*holdfast.Client, error) {
	d, err := NewDriver(option)
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
func NewDriver(option valkey.ClientOption) (driver.Driver, error) {
	switch {
	case len(option.InitAddress) == 0:
		return nil, errors.New("valkey.ClientOption has no InitAddress")
	case option.ReplicaOnly:
		return nil, errors.New("valkey.ClientOption.ReplicaOnly cannot be used for locks: replicas do not grant them")
	case option.Sentinel.MasterSet != "":
		return nil, errors.New("holdfastvalkey does not support Sentinel (valkey.ClientOption.Sentinel.MasterSet); use holdfastgoredis.NewFailover or holdfastrueidis")
	case option.Standalone.EnableRedirect:
		return nil, errors.New("holdfastvalkey does not support valkey.ClientOption.Standalone.EnableRedirect; use the address of the primary")
	}
	option.InitAddress = slices.Clone(option.InitAddress)
	option.DisableRetry, option.DisableCache = true, true
	if option.SendToReplicas != nil { // kept, since valkey-go refuses some other options without it
		option.SendToReplicas = func(valkey.Completed) bool { return false }
	}
	option.Standalone = valkey.StandaloneOption{}
	option.ConnLifetime = 0 // valkey-go repeats calls in flight on a connection that reaches it
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

// adapter is the driver.Driver. It makes its client at the first call, and again after its server turned out to be a
// replica.
type adapter struct {
	option valkey.ClientOption
	conns  conns
	subs   *pubsub.Pool

	slots      atomic.Pointer[slotMap] // of a Cluster; nil until first asked for
	refreshing atomic.Bool             // slots is being refreshed in the background

	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu         sync.Mutex
	background sync.WaitGroup // added to with mu held, while ctx has not ended
	client     valkey.Client
	made       time.Time
	attempt    *attempt // nil if there is none
}

// attempt is an attempt to make a client, shared by all calls that need one.
type attempt struct {
	done   chan struct{} // closed when client or err is set
	client valkey.Client
	err    error // as Run returns it
}

// connect returns the client, or makes it if there is none. Its errors are as Run returns them.
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
	t := a.attempt
	if t == nil {
		t = &attempt{done: make(chan struct{})}
		a.attempt = t
		a.background.Go(func() { a.make(t) })
	}
	a.mu.Unlock()
	select {
	case <-t.done:
		return t.client, t.err
	case <-ctx.Done():
		return nil, notSent(ctx.Err())
	}
}

func (a *adapter) make(t *attempt) {
	option := a.option
	option.InitAddress = slices.Clone(option.InitAddress) // ShuffleInit shuffles it in place
	client, err := valkey.NewClient(option)
	if err != nil {
		if client != nil {
			client.Close()
		}
		client = nil
		if t.err = convert(err); !isReply(t.err, "") && !errors.Is(t.err, driver.ErrNotSent) {
			t.err = notSent(err) // calls are sent only after that
		}
	}
	a.mu.Lock()
	t.client = client
	a.client, a.made, a.attempt = client, time.Now(), nil
	a.mu.Unlock()
	close(t.done)
}

// dropPeriod is the shortest time between two drops.
const dropPeriod = time.Second

// drop closes a client whose server is no longer the master, with all its connections. The next client resolves its
// address again.
func (a *adapter) drop(client valkey.Client) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.client != client || time.Since(a.made) < dropPeriod || a.ctx.Err() != nil {
		return
	}
	a.client = nil
	a.conns.closeAll()
	a.background.Go(client.Close)
}

// spawn calls f in a goroutine, or returns false if the driver is closing.
func (a *adapter) spawn(f func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx.Err() != nil {
		return false
	}
	a.background.Go(f)
	return true
}

// Run sends a call. In valkey-go ctx ends calls, but not dialing, which Dialer.Timeout bounds.
func (a *adapter) Run(ctx context.Context, c driver.Call) (string, error) {
	client, err := a.connect(ctx)
	if err != nil {
		return "", err
	}
	reply, err := text(client.Do(ctx, callCommand(client, c)))
	if isReply(err, "NOSCRIPT") {
		reply, err = text(client.Do(ctx, evalCommand(client, c)))
	}
	a.handleError(client, err)
	return reply, err
}

// RunAll sends the calls at once. valkey-go routes each to its node and follows redirections.
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
		commands[i] = callCommand(client, c)
	}
	var again []int
	for i, result := range client.DoMulti(ctx, commands...) {
		reply, err := text(result)
		if isReply(err, "NOSCRIPT") {
			again = append(again, i)
			continue
		}
		a.handleError(client, err)
		tell(i, reply, err)
	}
	commands = nil // not reused: valkey-go may still read the commands for a connection that hangs
	for _, i := range again {
		commands = append(commands, evalCommand(client, calls[i]))
	}
	for n, result := range client.DoMulti(ctx, commands...) {
		reply, err := text(result)
		a.handleError(client, err)
		tell(again[n], reply, err)
	}
}

// handleError closes connections that hang if a call has timed out, since valkey-go's own ping takes seconds to find
// them. It drops the client if the server is no longer the master, except in a Cluster, where valkey-go finds the new
// one.
func (a *adapter) handleError(client valkey.Client, err error) {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		a.conns.closeSilent()
	case client.Mode() != valkey.ClientModeCluster && (isReply(err, "READONLY") || isReply(err, "MASTERDOWN")):
		a.drop(client)
	}
}

// callCommand returns the command to send first for a call: one of the server's own, or EVALSHA.
func callCommand(client valkey.Client, c driver.Call) valkey.Completed {
	if c.Script.Command != "" {
		return build(client, c, c.Script.Command)
	}
	return build(client, c, "evalsha", c.Script.SHA1, strconv.Itoa(len(c.Keys)))
}

// evalCommand returns the command to send if the server does not have the script.
func evalCommand(client valkey.Client, c driver.Call) valkey.Completed {
	return build(client, c, "eval", c.Script.Source, strconv.Itoa(len(c.Keys)))
}

// build returns a command with a call's keys and arguments. Only the first key is marked as one, because valkey-go
// panics if keys are in different slots. The server refuses such a call.
func build(client valkey.Client, c driver.Call, head ...string) valkey.Completed {
	b := client.B().Arbitrary(head...)
	if len(c.Keys) > 0 {
		b = b.Keys(c.Keys[0]).Args(c.Keys[1:]...)
	}
	return b.Args(c.Args...).Build()
}

// text returns the result of a call as Run returns it.
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
	var dialErr *dialError
	reply, ok := valkey.IsValkeyErr(err)
	switch {
	case ok:
		return driver.ReplyError(restoreCode(reply.Error()))
	case errors.As(err, &dialErr), errors.Is(err, valkey.ErrNoSlot):
		return notSent(err)
	}
	return err
}

// restoreCode returns an error as the server sent it. valkey-go removes the code ERR, which stands before errors that
// have no other code.
func restoreCode(text string) string {
	if first, _, _ := strings.Cut(text, " "); first != strings.ToUpper(first) {
		return "ERR " + text
	}
	return text
}

// isReply reports whether err is a server's error with that code.
func isReply(err error, code string) bool {
	reply, ok := err.(driver.ReplyError)
	return ok && strings.HasPrefix(string(reply), code)
}

func notSent(err error) error { return fmt.Errorf("%w: %w", driver.ErrNotSent, err) }

// Probe uses HELLO, which every user may send, and TIME, which every script sends, in one round trip.
func (a *adapter) Probe(ctx context.Context) (driver.ServerInfo, error) {
	client, err := a.connect(ctx)
	if err != nil {
		return driver.ServerInfo{}, err
	}
	replies := anyNode(client).DoMulti(ctx, client.B().Arbitrary("HELLO").Build(), client.B().Time().Build())
	fields, err := helloFields(replies[0])
	if err != nil {
		a.handleError(client, err)
		return driver.ServerInfo{}, err
	}
	if fields["mode"] == "sentinel" {
		return driver.ServerInfo{}, sentinel.ErrSentinel
	}
	now, err := replies[1].AsIntSlice()
	if err == nil && len(now) != 2 {
		err = fmt.Errorf("the reply to TIME has %d numbers, not 2", len(now))
	}
	if err != nil {
		err = convert(err)
		a.handleError(client, err)
		return driver.ServerInfo{}, err
	}
	return driver.ServerInfo{
		Server:  fields["server"],
		Version: fields["version"],
		Cluster: fields["mode"] == "cluster",
		Time:    time.UnixMicro(now[0]*1e6 + now[1]),
	}, nil
}

// anyNode returns a client for a node of a Cluster, chosen at random: for commands without keys, DoMulti would choose the
// same master each time, even if it is down.
func anyNode(client valkey.Client) valkey.Client {
	if client.Mode() == valkey.ClientModeCluster {
		for _, node := range client.Nodes() {
			return node
		}
	}
	return client
}

// helloFields returns those fields of a reply to HELLO that are strings.
func helloFields(hello valkey.ValkeyResult) (map[string]string, error) {
	all, err := hello.AsMap()
	if err != nil {
		return nil, convert(err)
	}
	fields := map[string]string{}
	for name, value := range all {
		if value.IsString() {
			fields[name], _ = value.ToString()
		}
	}
	return fields, nil
}

func (a *adapter) Addr() string { return strings.Join(a.option.InitAddress, ",") }

// String returns the type and the server. Without it, fmt would print the options, which contain the password.
func (a *adapter) String() string { return fmt.Sprintf("holdfastvalkey.Driver(%s)", a.Addr()) }

// Format prints String for every verb.
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
	if a.client != nil && a.client != client { // made meanwhile
		a.client.Close()
		a.conns.closeAll()
	}
	return nil
}
