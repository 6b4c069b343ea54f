package backend

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// Hearing is a driver that keeps the messages of some channels: that a message came is known
// for certain, where the time in which somebody acts on it says little on a busy machine.
type Hearing struct {
	holdfast.Driver
	prefix string // of the channels

	mu       sync.Mutex
	messages []string
}

// Hear keeps the messages of all channels whose names begin with prefix.
func Hear(d holdfast.Driver, prefix string) *Hearing { return &Hearing{Driver: d, prefix: prefix} }

// Hearing returns a driver of the server.
func (b *Backend) Hearing(tb testing.TB, prefix string) *Hearing {
	tb.Helper()
	return Hear(driver(tb, b.options()), prefix)
}

// Heard reports whether the message has come; with after, whether it came after that one.
func (d *Hearing) Heard(message string, after ...string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.messages
	for _, earlier := range after {
		all = all[slices.Index(all, earlier)+1:]
	}
	return slices.Contains(all, message)
}

func (d *Hearing) Subscribe(channel string, sharded bool, sink holdfast.Sink) holdfast.Subscription {
	if strings.HasPrefix(channel, d.prefix) {
		sink = &ear{sink, d}
	}
	return d.Driver.Subscribe(channel, sharded, sink)
}

type ear struct {
	holdfast.Sink
	d *Hearing
}

func (e *ear) Message(payload string) {
	e.d.mu.Lock()
	e.d.messages = append(e.d.messages, payload)
	e.d.mu.Unlock()
	e.Sink.Message(payload)
}
