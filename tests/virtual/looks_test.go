package virtual

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// eager counts the looks of waiters, and the messages that tell them when to look. Before a waiter hears that it is queued, eager can
// interrupt subscriptions for a moment, or make the server not know them.
type eager struct {
	drivertest.Driver
	mu              sync.Mutex
	sinks           []driver.Subscription
	interrupts      bool
	unknown         bool
	looks, standbys int
}

func (d *eager) wrap(inner drivertest.Driver) drivertest.Driver {
	d.Driver = inner
	return d
}

func (d *eager) Subscribe(s driver.Subscription) (cancel func()) {
	tell := s.Message
	s.Message = func(message string) {
		if strings.HasPrefix(message, "hf2 standby ") {
			d.mu.Lock()
			d.standbys++
			d.mu.Unlock()
		}
		tell(message)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sinks = append(d.sinks, s)
	return d.Driver.Subscribe(s)
}

func (d *eager) Run(ctx context.Context, call driver.Call) (string, error) {
	reply, err := d.Driver.Run(ctx, call)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case call.Script.Name != "acquire":
	case strings.HasPrefix(call.Args[0], "l"):
		d.looks++
	case strings.HasPrefix(call.Args[0], "w") && d.unknown && err == nil:
		fields := strings.Fields(reply)
		fields[5] = "0" // receivers
		reply = strings.Join(fields, " ")
	case strings.HasPrefix(call.Args[0], "w") && d.interrupts:
		d.interrupt()
	}
	return reply, err
}

// interrupt ends the subscriptions, and begins them again.
func (d *eager) interrupt() {
	for _, sink := range d.sinks {
		sink.Down(errors.New("interrupted"))
		sink.Up()
	}
}

// counted returns the numbers of looks and messages since the last call.
func (d *eager) counted() (looks, standbys int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	looks, standbys = d.looks, d.standbys
	d.looks, d.standbys = 0, 0
	return looks, standbys
}

// A waiter that was just told its place does not ask again, unless a notification may have been lost since it
// asked.
func TestAWaiterLooksOnlyIfItMayHaveMissedSomething(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		d := &eager{}
		holder := client(t, srv).Mutex("m")
		l := client(t, srv, d.wrap).Mutex("m")
		for _, c := range []struct {
			what                string
			interrupts, unknown bool
			looks               int
		}{
			{"at first, it has to subscribe", false, false, 0},
			{"nothing happens", false, false, 0},
			{"the subscription is interrupted", true, false, 1},
			{"the server does not know of the subscription", false, true, 1},
		} {
			d.mu.Lock()
			d.interrupts, d.unknown = c.interrupts, c.unknown
			d.mu.Unlock()
			d.counted()
			lease := acquire(t, holder)
			w := wait(t, l)
			if looks, _ := d.counted(); looks != c.looks {
				t.Errorf("%s: it looked %d times, not %d", c.what, looks, c.looks)
			}
			release(t, lease)
			w.served(t, time.Second)
		}
	})
}
