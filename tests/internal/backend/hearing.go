package backend

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
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
