package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/script"
)

// Driver connects a Client to a server. Do not implement it: use an adapter,
// such as holdfastgoredis. Methods may be added to it at any time.
type Driver interface {
	// Eval runs a script and returns its reply, which for every script of this
	// library is one string. It puts the script on the wire at most once for
	// each reply it gets: a NOSCRIPT or a redirection may be followed by
	// another sending, a timeout or a broken connection never. It returns a
	// ReplyError for an error that the server sent, and an error that wraps
	// ErrNotSent when the script certainly did not leave this process; after
	// any other error the script may have run, or may still run.
	//
	// A Script with a Command is sent as that command, with the keys and args, and without their number. Its
	// reply is a number, which is returned as text. A server that does not have the command, or not for this
	// user, says so by a ReplyError.
	//
	// Urgent scripts (renewals, releases) must not wait for a connection
	// behind the application's own commands.
	Eval(ctx context.Context, s Script, keys, args []string, urgent bool) (string, error)

	// EvalAll is Eval of several scripts whose keys one server has, as far as Node knows. They
	// are sent together, so that a connection that breaks leaves all of them unanswered. It
	// tells of each once what became of it, from any goroutine, and then returns.
	EvalAll(ctx context.Context, calls []Call, urgent bool, tell func(i int, reply string, err error))

	// Node names the server of a Cluster that has a key. It sends nothing, and may be
	// wrong; "" if it does not know.
	Node(key string) string

	// Width is how many calls to one server can be under way at once without one of them waiting for another's
	// connection. It leaves some of what the application itself needs.
	Width() int

	// EvalDurably is an Eval, which then waits on the same connection, with WAIT
	// or WAITAOF, until the write is as durable as asked, or d's timeout is over. An error
	// of that command comes with the script's reply: the script was carried out. Those who
	// wait do not take connections away from urgent scripts.
	EvalDurably(ctx context.Context, s Script, keys, args []string, d Durability) (string, Reached, error)

	// Subscribe opens a subscription and keeps it open over reconnections
	// until it is closed. Sharded channels are subscribed to with SSUBSCRIBE,
	// on the master of their slot. It returns at once; the sink is told when
	// the server confirms.
	Subscribe(channel string, sharded bool, sink Sink) Subscription

	// Probe asks the server what it is.
	Probe(ctx context.Context) (ServerInfo, error)

	// Addr names the server for error messages, without credentials.
	Addr() string

	// Close closes what the driver opened itself: not the user's client.
	Close() error
}

// Unusable returns the driver of an adapter that was given a client with which locks cannot be
// kept: New returns an error that says why.
func Unusable(why error) Driver { return unusable{why: why} }

// unusable stands for no driver: New takes none of its methods, and returns why.
type unusable struct {
	Driver
	why error
}

// Script is a Lua script as a Driver runs it: Name, Source, and SHA1 of the
// source in hex; or, with Name and Command only, a command of the server's own.
type Script = script.Script

// Call is one of several scripts that a Driver runs, with its keys and arguments.
type Call struct {
	Script     Script
	Keys, Args []string
}

// NewScript makes a script of its source, for tests of drivers.
func NewScript(source string) Script { return script.New("script", source) }

// Sink hears what happens on a subscription. Its methods are called from one
// goroutine at a time, and do not block.
type Sink interface {
	// Up says that the server confirmed the subscription: at first, and again
	// after every interruption. Messages may have been lost before it.
	Up()
	// Down says that the subscription is interrupted, and why.
	Down(err error)
	// Message hands over a message.
	Message(payload string)
}

// Subscription is an open subscription.
type Subscription interface {
	// Close ends it, without waiting. The sink may still hear what was under way.
	Close()
}

// ServerInfo is what a server says of itself.
type ServerInfo struct {
	Server  string // "redis", "valkey", ...
	Version string // "7.0.15"
	Cluster bool   // the server runs in Cluster mode
	// Sentinel: the driver finds the master through Sentinel, so that another server may take this one's place.
	Sentinel bool
	Time     int64 // the server's time, in µs since 1970
}

// ReplyError is an error that the server sent, as it sent it: "WRONGTYPE ...".
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// ErrNotSent is wrapped by the error of a Driver whose script certainly did
// not leave this process.
const ErrNotSent = driverError("not sent")

type driverError string

func (e driverError) Error() string { return string(e) }
