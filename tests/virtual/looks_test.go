package virtual

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// eager counts the looks of waiters. Before who queues hears that it does, it can interrupt
// subscriptions for a moment, or have the server not know of them.
type eager struct {
	holdfast.Driver
	mu         sync.Mutex
	sinks      []holdfast.Sink
	interrupts bool
	unknown    bool
	looks      int
}

func (d *eager) Subscribe(channel string, sharded bool, sink holdfast.Sink) holdfast.Subscription {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sinks = append(d.sinks, sink)
	return d.Driver.Subscribe(channel, sharded, sink)
}

func (d *eager) Eval(ctx context.Context, s holdfast.Script, keys, args []string, urgent bool) (string, error) {
	reply, err := d.Driver.Eval(ctx, s, keys, args, urgent)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case s.Name != "acquire":
	case strings.HasPrefix(args[0], "l"):
		d.looks++
	case strings.HasPrefix(args[0], "w") && d.unknown && err == nil:
		fields := strings.Fields(reply)
		fields[5] = "0" // receivers
		reply = strings.Join(fields, " ")
	case strings.HasPrefix(args[0], "w") && d.interrupts:
		for _, sink := range d.sinks {
			sink.Down(errors.New("interrupted"))
			sink.Up()
		}
	}
	return reply, err
}

// A waiter that has just heard how it stands does not ask again, unless a notification may have been
// lost since it asked.
func TestAWaiterLooksOnlyIfItMayHaveMissedSomething(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		d := &eager{}
		holder := client(t, srv).Mutex("m")
		l := client(t, srv, func(inner holdfast.Driver) holdfast.Driver { d.Driver = inner; return d }).Mutex("m")
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
			d.interrupts, d.unknown, d.looks = c.interrupts, c.unknown, 0
			d.mu.Unlock()
			lease := acquire(t, holder)
			w := wait(t, l)
			d.mu.Lock()
			if d.looks != c.looks {
				t.Errorf("%s: it looked %d times, not %d", c.what, d.looks, c.looks)
			}
			d.mu.Unlock()
			release(t, lease)
			w.served(t, time.Second)
		}
	})
}
