// Package resp has commands and replies as plain values, whatever client library sends and reads them.
package resp

import (
	"context"
	"slices"
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
)

// Command is a command of the server's.
type Command struct {
	Words []string
	Key   int // index in Words of the key that routes the command in a Cluster; 0: it has no key
}

// New returns a command without keys.
func New(words ...string) Command { return Command{Words: words} }

// First returns the command to send first for a call: one of the server's own, or EVALSHA.
func First(c driver.Call) Command {
	if c.Script.Command != "" {
		return withKeys(c, c.Script.Command)
	}
	return withKeys(c, "evalsha", c.Script.SHA1, strconv.Itoa(len(c.Keys)))
}

// Whole returns the command with the script's source, for a server that does not have the script.
func Whole(c driver.Call) Command {
	return withKeys(c, "eval", c.Script.Source, strconv.Itoa(len(c.Keys)))
}

func withKeys(c driver.Call, head ...string) Command {
	command := New(slices.Concat(head, c.Keys, c.Args)...)
	if len(c.Keys) > 0 {
		command.Key = len(head)
	}
	return command
}

// Sender sends commands together and returns their replies.
type Sender func(ctx context.Context, commands ...Command) []Reply

// Failed returns the replies to commands that could not be sent.
func Failed(commands []Command, err error) []Reply {
	replies := make([]Reply, len(commands))
	for i := range replies {
		replies[i].Err = err
	}
	return replies
}

// Run runs a call alone. If asking is set, the server takes it only after ASKING.
func Run(ctx context.Context, send Sender, c driver.Call, asking bool) (text string, err error) {
	return runThen(ctx, send, c, asking)[0].Text()
}

// runThen sends a call and other commands behind it. If the server does not have the script, it sends all again with the script's source.
func runThen(ctx context.Context, send Sender, c driver.Call, asking bool, then ...Command) (replies []Reply) {
	var before []Command
	if asking {
		before = []Command{New("asking")}
	}
	for _, command := range []Command{First(c), Whole(c)} {
		replies = send(ctx, slices.Concat(before, []Command{command}, then)...)[len(before):]
		if !Is(replies[0].Err, "NOSCRIPT") {
			break
		}
	}
	return replies
}

// Durably runs a call and waits until the write is as durable as wanted, as driver.Durable says, on the one connection that send uses. If
// asking is set, the server takes the call only after ASKING.
func Durably(
	ctx context.Context, send Sender, c driver.Call, want driver.Durability, asking bool,
) (text string, reached driver.Confirmation, err error) {
	replicas, timeout := strconv.Itoa(want.Replicas), strconv.FormatInt(max(want.Timeout.Milliseconds(), 1), 10) // 0 means forever
	wait := New("wait", replicas, timeout)
	if want.Fsync {
		wait = New("waitaof", "1", replicas, timeout)
	}
	var then []Command
	if want.Counts == nil {
		then = []Command{wait}
	}
	replies := runThen(ctx, send, c, asking, then...)
	text, err = replies[0].Text()
	waited := replies[len(replies)-1]
	switch {
	case err != nil || want.Counts != nil && !want.Counts(text):
		return text, reached, err
	case want.Counts != nil:
		waited = send(ctx, wait)[0]
	}
	if !want.Fsync {
		n, err := waited.numbers(1)
		return text, driver.Confirmation{Replicas: int(n[0])}, err
	}
	n, err := waited.numbers(2)
	return text, driver.Confirmation{Fsync: n[0] > 0, Replicas: int(n[1])}, err
}
