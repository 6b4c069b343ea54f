// Package driver is what a Redis client library has to do for Holdfast. Only authors of adapters need it;
// programs call an adapter's New, such as holdfastgoredis.New.
//
// A driver puts a script on the wire at most once for each reply that it returns: repeats are the core
// library's, which knows what they mean. So a client library's own retries are switched off, or not used.
//
// Making a driver connects to nothing. A server that cannot be reached shows in the errors of calls, and a driver
// tries again with the next call.
//
// Package drivertest has the suite that every driver passes. The suite runs on one server that works. It does not show
// what happens on connections that break or hang, after failovers, and in a Cluster: adapters test that themselves.
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
	// reply: a NOSCRIPT or a redirection, which say that nothing was carried out, may be followed by another sending, a
	// timeout or a broken connection never.
	//
	// Its error is one of three:
	//
	//   - A ReplyError, not wrapped, for an error that the server sent. That includes errors that it sent when the
	//     connection was made, such as WRONGPASS. They are not to be called ErrNotSent as well.
	//   - An error that wraps ErrNotSent, only if the call certainly did not leave this process, as where there is no
	//     connection. It also wraps the cause, by which the library tells what waiting does not mend (an unknown host, a
	//     certificate) from what it does.
	//   - Any other error: the call may have been carried out, or may be still. That is never wrong, but costs the library a
	//     look at the server.
	//
	// ctx has a deadline and ends when that passes, not when a caller gives up. Run may return later than that by the
	// time that connecting takes. A driver does not use a connection on which a call has timed out for later calls:
	// its other end may be gone. If calls share connections, it may first look whether that one is silent.
	//
	// After a reply that begins with READONLY or MASTERDOWN the address may lead to a new master. Outside Cluster mode
	// the driver gives up its connections then, those of subscriptions too; but not more often than once a second,
	// since the server may be a replica for good.
	Run(ctx context.Context, c Call) (string, error)

	// Subscribe opens a subscription and keeps it open until cancel is called: across reconnections, failovers and
	// moves of the channel's slot. It returns at once. cancel does not wait; the subscription's functions may still be
	// called with what was under way.
	//
	// In a Cluster there is a subscription for each lock that is waited for, so there can be thousands. All that go to
	// one server share a connection, apart from the calls': a server closes connections that are slow to take messages,
	// and a long reply would delay them. Subscriptions to the same channel are independent of each other, also when
	// one begins right after another has ended.
	//
	// A driver finds out within seconds if a connection that is silent leads nowhere, or to a server that is not the
	// master any more.
	Subscribe(s Subscription) (cancel func())

	// Probe asks the server what it is. HELLO and TIME are commands that the users of docs/acl may send, and that all
	// servers know; INFO is not.
	Probe(ctx context.Context) (ServerInfo, error)

	// Addr names the server in errors and logs, without credentials.
	Addr() string

	// Close closes what the driver opened itself, and nothing that the user passed in. It waits for the driver's
	// goroutines, which may take a second or two. No call comes after it.
	Close() error
}

// Batcher is implemented by drivers that can send several calls to one server together.
type Batcher interface {
	// RunAll is Run of several calls whose keys one server has, as far as Cluster.Node knows; of those that turn out to
	// be elsewhere it follows the redirections. They are sent together, so that a connection that breaks leaves all of
	// them unanswered. They are independent of each other: one that fails, or is sent again after a NOSCRIPT, does not
	// delay or prevent others, and their order does not matter. It tells of each once what became of it, with an error as
	// of Run, from any goroutine, and then returns.
	RunAll(ctx context.Context, calls []Call, tell func(i int, reply string, err error))
}

// Durable is implemented by drivers that can wait for replicas and disks. Without it, MinReplicas and Fsync
// are refused.
type Durable interface {
	// RunDurably is Run, which then waits on the same connection, with WAIT or WAITAOF, until the write is as
	// durable as asked, or d.Timeout has passed. That it has passed is no error: the Confirmation says how far it got.
	// An error of WAIT or WAITAOF comes with the script's reply: the script was carried out. Without a reply, the error
	// is as of Run, about the script.
	//
	// A redirection is followed with both commands, on one connection to the other server. A driver that cannot do
	// that returns a ReplyError that begins with TRYAGAIN, and the library tries again.
	//
	// Calls that wait do not take connections away from urgent ones, however many they are.
	RunDurably(ctx context.Context, c Call, d Durability) (string, Confirmation, error)
}

// Cluster is implemented by drivers that can reach a Cluster.
type Cluster interface {
	// Node names the server that has a key, by an address or an id that is the same for all of its keys. It waits for
	// nothing, and may be wrong; "" if it does not know. It may have the driver ask in the background. Calls to
	// servers that are not known go one by one. Outside Cluster mode it returns "".
	Node(key string) string
}

// Wide is implemented by drivers that can have more than two calls under way to one server at once.
type Wide interface {
	// Width is how many calls can be under way without one waiting for another's connection. It leaves
	// some connections to the application, if it shares them. If calls follow each other on one connection, as in
	// a pipeline, none waits for a connection: 64 will do, since more would be no faster.
	Width() int
}

// Call is one script or command with its keys and arguments.
type Call struct {
	Script Script
	// In a Cluster the first key says where a call goes, and without keys any server will do. The server judges whether
	// the others are in the same slot.
	Keys []string
	Args []string
	// Urgent calls are renewals and releases. They must not wait for a connection behind the application's
	// own commands. A driver whose connections are its own can ignore it.
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
	Timeout  time.Duration // how long that may take; at least 1 ms, since WAIT takes 0 for ever

	// Counts reports whether a script's reply is about a write. If it is not nil, a reply for which it is false
	// is returned at once, with nothing confirmed: a lock that is held keeps nobody waiting for replicas.
	Counts func(reply string) bool
}

// Confirmation is what had received a write in time.
type Confirmation struct {
	Replicas int
	Fsync    bool // it is on the master's disk
}

// Subscription says what to subscribe to, and who is told. The functions of one subscription run one at a time, and in
// the order of what they tell. They do not block, but they take locks under which Subscribe and cancel are called: a
// driver calls them without locks of its own.
type Subscription struct {
	Channel string
	Sharded bool // SSUBSCRIBE, on the master of the channel's slot

	// Up is called when the server has confirmed the subscription, and again after each interruption: messages may have
	// been lost before. It comes before the messages that follow.
	Up func()
	// Down is called when the subscription is interrupted, or cannot be made: also before the first Up, and more than once
	// in a row. err is as of Run: from a ReplyError such as NOPERM the library sees that it has to poll.
	Down func(err error)
	// Message is called with each message that arrives.
	Message func(msg string)
}

// ServerInfo is what a server says about itself.
type ServerInfo struct {
	Server  string // "redis", "valkey", or what else HELLO says
	Version string // "7.0.15"
	Cluster bool   // it runs in Cluster mode
	// Sentinel: the driver finds the master through Sentinel, so that another server may take its place.
	Sentinel bool
	Time     time.Time // its clock
}

// ReplyError is an error that the server sent, as it sent it: "WRONGTYPE Operation against ...", or "ERR unknown
// command ...". Some client libraries take the word ERR away; a driver puts it back.
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// ErrNotSent is wrapped by the error of a call that certainly did not leave this process. A redirection that leads to
// a server which cannot be reached counts as that.
const ErrNotSent = constError("not sent")

type constError string

func (e constError) Error() string { return string(e) }
