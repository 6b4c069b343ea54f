// Package driver is the interface between Holdfast and a Redis client library. Only authors of adapters need it: programs
// call an adapter's New, such as holdfastgoredis.New.
//
// A driver sends a script at most once for each reply that it returns. The library itself decides what to repeat,
// because it knows what a repetition means, so a driver must not use the client library's retries.
//
// Making a driver does not connect to anything. If the server cannot be reached, calls fail, and each further call
// tries again.
//
// Package drivertest has the tests that every driver must pass. They use one working server. They do not cover
// connections that break or hang, failovers, or Clusters, which adapters must test themselves.
package driver

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"net"
	"time"
)

// Driver runs scripts on one server or one Cluster, and keeps subscriptions open. Its methods may be called by many
// goroutines at once.
//
// Drivers that can do more also implement Durable, Cluster or Connector. A driver that passes calls on to another one
// is a Wrapper.
type Driver interface {
	// Run sends one script or command and returns its reply as text: scripts reply with one string, and commands with a
	// number. Run sends the script at most once for each reply. It may send it again after a NOSCRIPT or a redirection,
	// which say that the script did not run, but never after a timeout or a broken connection.
	//
	// Run returns one of three kinds of error:
	//
	//   - A ReplyError, not wrapped, for an error that the server sent. This includes errors while connecting, such as
	//     WRONGPASS. They must not wrap ErrNotSent as well.
	//   - An error that wraps ErrNotSent, if the call certainly did not leave this process, for example because there is
	//     no connection. It also wraps the cause, from which the library tells whether waiting can help (an unknown host
	//     or a bad certificate does not go away). It also wraps ErrClientClosed if the program has closed its client.
	//   - Any other error, if the script may have run or may still run. This is never wrong, but the library then has to
	//     ask the server.
	//
	// ctx has a deadline and ends when that passes, not when a caller gives up. Run may return later if it has to
	// connect. After a call has timed out, the driver must not use its connection for later calls, since the other end
	// may be gone. If calls share connections, the driver may first check that the connection is silent.
	//
	// After a reply that begins with READONLY or MASTERDOWN, the address may lead to a new master. Outside Cluster mode
	// the driver then replaces its connections, including those of subscriptions, but at most once a second, since the
	// server may remain a replica.
	Run(ctx context.Context, c Call) (string, error)

	// Subscribe opens a subscription and keeps it open until cancel is called: across reconnections, failovers and
	// moves of the channel's slot. It returns at once. cancel does not wait, so the subscription's functions may still
	// be called with events that were on their way.
	//
	// In a Cluster there is a subscription for each lock that has waiters, and there can be thousands. All subscriptions
	// on a server share one connection. It carries no calls, since a long reply would delay messages, and servers close
	// connections that are slow to read them. The caller ends a channel's subscription before it opens another
	// to that channel, which it may do at once.
	//
	// A driver must find out within seconds if a silent connection is dead, or leads to a server that is no longer the
	// master.
	Subscribe(s Subscription) (cancel func())

	// Probe asks the server what it is, before a client's first call. It should send HELLO and TIME in one round trip:
	// all servers know them, and the users in docs/acl may send them. They may not send INFO.
	Probe(ctx context.Context) (ServerInfo, error)

	// Addr returns the server's name for errors and logs, without credentials.
	Addr() string

	// Close closes what the driver opened, and nothing that the user passed in. It waits for the driver's goroutines,
	// which may take a second or two. No method is called after Close.
	Close() error
}

// Durable is implemented by drivers that can wait for replicas and disks. Other drivers cannot be used with holdfast.Durability.
type Durable interface {
	// RunDurably is Run, but then waits on the same connection, with WAIT or WAITAOF, until the write is as durable as
	// asked for or d.Timeout has passed. A timeout is no error: the Confirmation says what was reached. If the script ran
	// but WAIT or WAITAOF failed, RunDurably returns the script's reply with the error. Without a reply, the error is
	// about the script, as Run returns it.
	//
	// RunDurably follows a redirection with both commands, on one connection to the other server. A driver that cannot
	// do that returns a ReplyError that begins with TRYAGAIN, and the library tries again.
	//
	// Calls that wait must not take connections from urgent calls, no matter how many wait.
	RunDurably(ctx context.Context, c Call, d Durability) (string, Confirmation, error)
}

// Cluster is implemented by drivers that can reach a Cluster.
type Cluster interface {
	// Node returns the address or id of the server that has a key. It is the same for all of that server's keys. Node does
	// not block and may be wrong. It returns "" if it does not know the server, or outside Cluster mode. The driver may
	// then find out in the background.
	Node(key string) string
}

// Connector is implemented by drivers that can give the library connections of its own. The library sends on them what acquires,
// renews and releases mutexes, from many goroutines on one connection. It does so only if it was given the driver itself: a Wrapper's
// Run would not see the calls.
type Connector interface {
	// Connect opens a connection to the server or, in a Cluster, to the master that Cluster.Node calls so. The client library has
	// greeted the server on it, in version 2 of the protocol; afterwards only the caller writes to it and reads from it. Connect
	// returns when ctx ends. A ReplyError is returned as it is, and any other error as by Run for a call that was not sent.
	Connect(ctx context.Context, node string) (Connection, error)
	// Connects returns the receiver, which must be comparable. On a type that embeds a Connector, such as a wrapper, it returns the
	// embedded Driver. That tells the library that all calls must go through the type's own Run.
	Connects() Driver
	// Ready returns ErrClientClosed, wrapped as by Run, if the program has closed the client that it passed to the driver.
	Ready() error
	// Failed tells the driver that a call on such a connection returned err, as Run would return it. The address may lead to another
	// server now.
	Failed(err error)
}

// Connection is a connection that a Connector has opened.
type Connection struct {
	net.Conn
	Free            func()        // frees what the client library holds for it, even if there was an error; nil: nothing
	MaxIdle, MaxAge time.Duration // how long it may be idle, and how old it may become; 0 means no limit
}

// Call is one script or command with its keys and arguments.
type Call struct {
	Script Script
	// Keys are the keys. In a Cluster the first one decides which server the call is sent to; without keys, any server
	// will do. The server checks that the others are in the same slot.
	Keys []string
	Args []string
	// Urgent is set for renewals and releases, which must not wait for a connection behind the application's own commands.
	// A driver that does not share connections with the application may ignore it.
	Urgent bool
	// Renews is set for renewals. A driver over a client that the program can close fails with ErrClientClosed when the program
	// has closed it, even if the driver has connections of its own. Otherwise leases that the program has forgotten would be renewed
	// until it ends. Other urgent calls, such as releases, may still be sent.
	Renews bool
}

// Script is a Lua script or, if Command is set, one of the server's own commands. A command is sent with the call's keys
// and arguments, without the number of keys. A server that does not know the command replies with an error.
type Script struct {
	Name    string // for errors and traces
	Source  string // Lua
	SHA1    string // of Source, in hex
	Command string // such as "DELIFEQ"
}

// NewScript returns the script with this source. It is for tests of drivers.
func NewScript(name, source string) Script {
	sum := sha1.Sum([]byte(source))
	return Script{Name: name, Source: source, SHA1: hex.EncodeToString(sum[:])}
}

// Durability says what must have received a write before it counts.
type Durability struct {
	Replicas int           // the number of replicas
	Fsync    bool          // whether it must be on disk, on the master and on those replicas
	Timeout  time.Duration // how long to wait; at least 1 ms, since WAIT takes 0 as forever

	// Counts reports whether a script's reply means that it wrote anything. If Counts returns false, RunDurably returns
	// the reply at once, with nothing confirmed, so that a caller who finds a lock held does not wait for replicas. If
	// Counts is nil, every reply counts.
	Counts func(reply string) bool
}

// Confirmation says what had received a write in time.
type Confirmation struct {
	Replicas int
	Fsync    bool // whether it is on the master's disk
}

// Subscription says what to subscribe to and whom to notify. The functions of one subscription are called one at a time,
// in the order of the events. They do not block, but they take locks that are held while Subscribe and cancel are
// called, so a driver must not hold locks of its own when it calls them.
type Subscription struct {
	Channel string
	Sharded bool // use SSUBSCRIBE, on the master of the channel's slot

	// Up is called when the server has confirmed the subscription, and again after each interruption. Messages may have
	// been lost before Up. It is called before Message is called for any message that follows.
	Up func()
	// Down is called when the subscription is interrupted or cannot be made. It may be called before the first Up and more
	// than once in a row. err is as Run returns it: after a ReplyError such as NOPERM the library polls instead.
	Down func(err error)
	// Message is called with each message that arrives.
	Message func(msg string)
}

// ServerInfo is what a server says about itself, and how the driver finds it.
type ServerInfo struct {
	Server  string // "redis", "valkey", or whatever else HELLO returns
	Version string // such as "7.0.15"
	Cluster bool   // whether it runs in Cluster mode
	// Sentinel says that the driver finds the master through Sentinel, so another server may take its place.
	Sentinel bool
	// Mistakes lists addresses, without credentials, of sentinels that do not know the master or are no sentinels, and says what
	// is wrong with each, although others named the master. It is "" if all is well. The library logs it.
	Mistakes string
	Time     time.Time // the server's clock
}

// ReplyError is an error that the server sent, exactly as sent: "WRONGTYPE Operation against ..." or "ERR unknown command
// ...". Some client libraries remove the code ERR, and a driver must restore it.
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// ErrNotSent is wrapped by the error of a call that certainly did not leave this process. This includes a call that was
// redirected to a server that cannot be reached.
const ErrNotSent = constError("not sent")

// ErrClientClosed is wrapped, besides ErrNotSent, by the error of a call that was not sent because the program has closed the
// client that it passed to the driver. The library then acquires and renews nothing, and does not try again.
const ErrClientClosed = constError("client is closed")

type constError string

func (e constError) Error() string { return string(e) }
