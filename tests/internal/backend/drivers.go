package backend

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Hearing is a driver that keeps the messages of some channels. On a busy machine the arrival of a message is
// certain evidence; how soon somebody acts on it is not.
type Hearing struct {
	drivertest.Driver
	prefix string // of the channels' names

	mu       sync.Mutex
	messages []string
}

// Hear keeps the messages of all channels whose names begin with prefix.
func Hear(d drivertest.Driver, prefix string) *Hearing { return &Hearing{Driver: d, prefix: prefix} }

// Hearing returns a driver of the server.
func (b *Backend) Hearing(tb testing.TB, prefix string) *Hearing {
	tb.Helper()
	return Hear(Connect(tb, b.options()), prefix)
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

func (d *Hearing) Subscribe(s driver.Subscription) (cancel func()) {
	if told := s.Message; strings.HasPrefix(s.Channel, d.prefix) {
		s.Message = func(payload string) {
			d.mu.Lock()
			d.messages = append(d.messages, payload)
			d.mu.Unlock()
			told(payload)
		}
	}
	return d.Driver.Subscribe(s)
}

// Counted is Client. It also returns a function that tells how many calls the client has sent for locks. What a client
// asks by itself, at a time of its own, does not count: about the server's settings, and about notices for operators.
func (b *Backend) Counted(tb testing.TB, cfg *holdfast.Config) (*holdfast.Client, func() int64) {
	tb.Helper()
	d := &counted{Driver: Connect(tb, b.options())}
	return New(tb, cfg, d), d.calls.Load
}

// counted is a driver that counts calls for locks.
type counted struct {
	driver.Driver
	calls atomic.Int64
}

func (d *counted) Unwrap() driver.Driver { return d.Driver }

func (d *counted) Run(ctx context.Context, c driver.Call) (string, error) {
	if name := c.Script.Name; name != script.Survey().Name && name != script.Notes().Name {
		d.calls.Add(1)
	}
	return d.Driver.Run(ctx, c)
}
