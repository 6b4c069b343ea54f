// Package driver is what a Redis client library has to do for Holdfast. Only authors of adapters need it;
// programs call an adapter's New, such as holdfastgoredis.New.
//
// A driver puts a script on the wire at most once for each reply that it returns: repeats are the core
// library's, which knows what they mean. Package drivertest has the suite that every driver passes.
package driver

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"time"
)

// Driver runs scripts on one server, or one Cluster, and keeps subscriptions open. It is safe for use by many
// goroutines.
//
// What a driver can do beyond that it says by implementing Batcher, Durable, Cluster and Wide.
type Driver interface {
	// Run sends one script or command, and returns its reply as text: every script of this library replies
	// with one string, and commands with a number. It puts the script on the wire at most once for each
	// reply: a NOSCRIPT or a redirection may be followed by another sending, a timeout or a broken
	// connection never.
	//
	// It returns a ReplyError for an error that the server sent, and an error that wraps ErrNotSent when
	// the call certainly did not leave this process. After any other error the call may have been carried
	// out, or may be still.
	Run(ctx context.Context, c Call) (string, error)

	// Subscribe opens a subscription and keeps it open across reconnections until cancel is called. It
	// returns at once. cancel does not wait; the subscription's functions may still be called with what was
	// under way.
	Subscribe(s Subscription) (cancel func())

	// Probe asks the server what it is.
	Probe(ctx context.Context) (ServerInfo, error)

	// Addr names the server in errors and logs, without credentials.
	Addr() string

	// Close closes what the driver opened itself, and nothing that the user passed in.
	Close() error
}

// Batcher is implemented by drivers that can send several calls to one server together.
type Batcher interface {
	// RunAll is Run of several calls whose keys one server has, as far as Cluster.Node knows. They are sent
	// together, so that a connection that breaks leaves all of them unanswered. It tells of each once what
	// became of it, from any goroutine, and then returns.
	RunAll(ctx context.Context, calls []Call, tell func(i int, reply string, err error))
}

// Durable is implemented by drivers that can wait for replicas and disks. Without it, MinReplicas and Fsync
// are refused.
type Durable interface {
	// RunDurably is Run, which then waits on the same connection, with WAIT or WAITAOF, until the write is as
	// durable as asked, or d.Timeout has passed. An error of that command comes with the script's reply:
	// the script was carried out. Calls that wait do not take connections away from urgent ones.
	RunDurably(ctx context.Context, c Call, d Durability) (string, Confirmation, error)
}

// Cluster is implemented by drivers that can reach a Cluster.
type Cluster interface {
	// Node names the server that has a key. It sends nothing, and may be wrong; "" if it does not know.
	Node(key string) string
}

// Wide is implemented by drivers that can have more than two calls under way to one server at once.
type Wide interface {
	// Width is how many calls can be under way without one waiting for another's connection. It leaves
	// some connections to the application, if it shares them.
	Width() int
}

// Call is one script or command with its keys and arguments.
type Call struct {
	Script Script
	Keys   []string
	Args   []string
	// Urgent calls are renewals and releases. They must not wait for a connection behind the application's
	// own commands.
	Urgent bool
}

// Script is a Lua script; or, if Command is set, one of the server's own commands, which is sent with the call's
// keys and arguments, without their number. A server that lacks the command says so by a ReplyError.
type Script struct {
	Name    string // for errors and traces
	Source  string // Lua
	SHA1    string // of Source, in hex
	Command string // "DELIFEQ"
}

// NewScript makes a script of its source, for tests of drivers.
func NewScript(name, source string) Script {
	sum := sha1.Sum([]byte(source))
	return Script{Name: name, Source: source, SHA1: hex.EncodeToString(sum[:])}
}

// Durability is what must have received a write before it counts.
type Durability struct {
	Replicas int           // so many replicas
	Fsync    bool          // on disk: the master's, and those replicas'
	Timeout  time.Duration // how long that may take

	// Counts reports whether a script's reply is about a write. If it is not nil, a reply for which it is false
	// is returned at once, with nothing confirmed: a lock that is held keeps nobody waiting for replicas.
	Counts func(reply string) bool
}

// Confirmation is what had received a write in time.
type Confirmation struct {
	Replicas int
	Fsync    bool // it is on the master's disk
}

// Subscription says what to subscribe to, and who is told. Its functions run one at a time and do not block.
type Subscription struct {
	Channel string
	Sharded bool // SSUBSCRIBE, on the master of the channel's slot

	Up      func()           // the server confirmed the subscription: messages may have been lost before
	Down    func(err error)  // the subscription is interrupted
	Message func(msg string) // a message arrived
}

// ServerInfo is what a server says about itself.
type ServerInfo struct {
	Server  string // "redis", "valkey"
	Version string // "7.0.15"
	Cluster bool   // it runs in Cluster mode
	// Sentinel: the driver finds the master through Sentinel, so that another server may take its place.
	Sentinel bool
	Time     time.Time // its clock
}

// ReplyError is an error that the server sent, as it sent it: "WRONGTYPE Operation against ...".
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// ErrNotSent is wrapped by the error of a call that certainly did not leave this process.
const ErrNotSent = constError("not sent")

type constError string

func (e constError) Error() string { return string(e) }
