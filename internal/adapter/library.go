package adapter

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// Library is a client library, with the options of the program.
type Library struct {
	Name  string   // for people
	Addrs []string // the servers, the nodes of the Cluster, or the sentinels, as the program named them
	// New makes a client that opens its connections with dial: of the server at addr alone, or, if addr is "", of what the program named.
	New func(addr string, dial Dial) (*Client, error)
	// Greet makes a client of the server at addr, which opens exactly one connection, with dial, and uses it only to greet the server, in
	// version 2 of the protocol. If the library does not bound that, GreetTimeout does, by ctx, which libraries may ignore.
	Greet        func(ctx context.Context, addr string, dial Dial) (*Client, error)
	GreetTimeout time.Duration
	// Changes says that the credentials, or the server behind the addresses, can change while a connection is open, or that the program
	// wants to be asked about each call. Then only subscriptions use connections made by Greet.
	Changes bool
	// MaxIdle and MaxAge are those of driver.Connection.
	MaxIdle, MaxAge time.Duration
	// Closed reports whether the program has closed the client that it passed to the driver, by the node that has the key; nothing is sent.
	// It is nil if there is no such client.
	Closed func(key string) bool
	// Sentinel makes a client of the sentinel at addr. It is nil if the driver does not ask sentinels, and Master then "".
	Sentinel func(addr string, dial Dial) (*Client, error)
	Master   string // the name by which sentinels know the master
	// Find returns the address of the master, if the library itself asks sentinels. Otherwise it is nil.
	Find func(ctx context.Context) (addr string, err error)
	// Dial opens connections as the library does with the program's options.
	Dial      Dial
	NetDialer *net.Dialer // for Greet's Dial
	TLSConfig *tls.Config // the same

	ErrClosing error // of a client that is closed
	ErrNoSlot  error // of a slot that no node of a Cluster has, or nil
}

// Client is a library's client of a server, or of a Cluster.
type Client struct {
	Send resp.Sender
	// Dedicate returns a connection that only the caller uses, and a function to give it back. In a Cluster, commands choose the node.
	// Calls that are not urgent leave connections to those that are.
	Dedicate  func(urgent bool) (conn resp.Sender, release func())
	Shared    *Client // the program's own client, for calls that are not urgent; nil: this one
	Pools     bool    // each call has a connection to itself, and others are idle
	IsCluster bool
	Close     func()

	// Of a Cluster: its nodes, by their addresses; the address of the master that has a key, or ""; and what asks again which master has
	// which keys. The latter are nil if the library does not offer them.
	Nodes   func() map[string]*Client
	Node    func(key string) string
	Refresh func(ctx context.Context, key string) error

	calls sync.WaitGroup // that use the client
}

// NewClient returns a library's client as a Client. The library's builder, of type B, makes commands of type K by way of type A.
func NewClient[C interface {
	sender[B, K, R]
	Dedicate() (D, func())
	Nodes() map[string]C
	Close()
}, D sender[B, K, R], B builder[A], A arbitrary[A, K], K any, R result](c C, isCluster bool) *Client {
	return &Client{
		Send: sending(c),
		Dedicate: func(bool) (resp.Sender, func()) {
			one, release := c.Dedicate()
			return sending(one), release
		},
		Nodes: func() map[string]*Client {
			nodes := map[string]*Client{}
			for addr, node := range c.Nodes() {
				nodes[addr] = NewClient(node, false)
			}
			return nodes
		},
		IsCluster: isCluster,
		Close:     c.Close,
	}
}

// sender is what sends a library's commands, and gets results of type R.
type sender[B, K, R any] interface {
	B() B
	Do(context.Context, K) R
	DoMulti(context.Context, ...K) []R
}

type builder[A any] interface{ Arbitrary(words ...string) A }

type arbitrary[A, K any] interface {
	Keys(...string) A
	Args(...string) A
	Build() K
	Blocking() K
}

func sending[S sender[B, K, R], B builder[A], A arbitrary[A, K], K any, R result](s S) resp.Sender {
	return func(ctx context.Context, commands ...resp.Command) []resp.Reply {
		replies := make([]resp.Reply, len(commands))
		if len(commands) == 1 {
			replies[0] = reply(s.Do(ctx, build(s.B(), commands[0])))
			return replies
		}
		built := make([]K, len(commands))
		for i, c := range commands {
			built[i] = build(s.B(), c)
		}
		for i, result := range s.DoMulti(ctx, built...) {
			replies[i] = reply(result)
		}
		return replies
	}
}

// build makes a command. It marks only the first key as one, because the libraries panic if keys are in different slots. The server
// refuses such a call.
func build[B builder[A], A arbitrary[A, K], K any](b B, c resp.Command) K {
	head := cmp.Or(c.Key, len(c.Words))
	command := b.Arbitrary(c.Words[:head]...)
	if c.Key > 0 {
		command = command.Keys(c.Words[head]).Args(c.Words[head+1:]...)
	}
	if c.Blocks {
		return command.Blocking()
	}
	return command.Build()
}

// result is a library's result of a command.
type result interface{ ToAny() (any, error) }

func reply(r result) resp.Reply {
	value, err := r.ToAny()
	return resp.Reply{Value: value, Err: convert(err)}
}

// convert returns a library's error as a driver.ReplyError if the server sent it. A reply that is nil is an error of the library's.
func convert(err error) error {
	reply, is := err.(interface {
		error
		IsNil() bool
	})
	switch {
	case !is:
		return err
	case reply.IsNil():
		return nil
	}
	// The library removes the code ERR, which stands before errors that have no other code.
	text := reply.Error()
	if first, _, _ := strings.Cut(text, " "); first != strings.ToUpper(first) {
		text = "ERR " + text
	}
	return driver.ReplyError(text)
}
