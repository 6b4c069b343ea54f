package adapter

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// Library is a client library, with the options of the program.
type Library struct {
	Name  string   // for people
	Addrs []string // the servers, the nodes of the Cluster, or the sentinels, as the program named them
	// Greet makes the library open one connection to the server at addr, with dial, and greet the server on it, in version 2 of the
	// protocol. The library then leaves the connection alone. If the library does not bound that, GreetTimeout does, by ctx, which
	// libraries may ignore.
	Greet        Greet
	GreetTimeout time.Duration
	// GreetSentinel is Greet for sentinels, which know the master as Master. It is nil if the driver asks no sentinels.
	GreetSentinel Greet
	Master        string
	// MaxIdle and MaxAge are those of driver.Connection.
	MaxIdle, MaxAge time.Duration

	// IsCluster says that the program expects a Cluster, and FindsCluster that there is one if the server says so. Slots, if not nil,
	// returns the slots of the masters, in place of CLUSTER SLOTS.
	IsCluster    bool
	FindsCluster bool
	Slots        func(ctx context.Context) ([]Slots, error)

	// Shared sends commands with the program's own client. It is nil if the program has none that the driver may use.
	Shared resp.Sender
	// ByShared says that the program's client has to send all calls that are not urgent.
	ByShared bool
	// Reload makes the program's client ask again which master has which slots. It may be nil.
	Reload func(ctx context.Context)
	// Closed reports, without sending anything, whether the program has closed its client for the node that has the key. It may be nil.
	Closed func(key string) bool

	// Dial opens connections as the library does with the program's options.
	Dial Dial
}

// Greet opens a connection and greets a server on it: see Library. The Greeting may have to be freed even if there is an error.
type Greet = func(ctx context.Context, addr string, dial Dial) (Greeting, error)

// Greeting is what a library says of a connection that it has made.
type Greeting struct {
	Free   func()        // frees what the library holds for it; or nil
	MaxAge time.Duration // how old it may become, if that is less than Library.MaxAge; 0 means no limit
}

// Slots are slots of a Cluster that a master has.
type Slots struct {
	First, Last int
	Master      string // its address
}

// convert returns a library's error as a driver.ReplyError if the server sent it.
func convert(err error) error {
	reply, is := err.(interface {
		error
		IsNil() bool
	})
	if !is {
		return err
	}
	// The library removes the code ERR, which stands before errors that have no other code.
	text := reply.Error()
	if first, _, _ := strings.Cut(text, " "); first != strings.ToUpper(first) {
		text = "ERR " + text
	}
	return driver.ReplyError(text)
}

// unsent returns the error of a connection that could not be made as that of a call that was not sent, unless a server sent it.
func unsent(err error) error {
	if err == nil || resp.Is(err) || errors.Is(err, driver.ErrNotSent) {
		return err
	}
	return notSent(err)
}
