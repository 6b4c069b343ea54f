package virtual

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// wrapper puts something between a client and its driver.
type wrapper = func(drivertest.Driver) drivertest.Driver

// request is a script that a client runs on a server that a test meddles with.
type request struct {
	driver.Call
	ctx context.Context
	to  drivertest.Driver
}

func (r request) send() (string, error) { return r.to.Run(r.ctx, r.Call) }

// anyhow sends the request even if its caller has given up.
func (r request) anyhow() (string, error) { return r.to.Run(context.WithoutCancel(r.ctx), r.Call) }

// does reports whether the script does that for mutexes, for one or for many.
func (r request) does(what string) bool {
	return r.Script.Name == what || r.Script.Name == "batch_"+what
}

// hang is not answered.
func (r request) hang() (string, error) {
	<-r.ctx.Done()
	return "", r.ctx.Err()
}

// late is answered after that time.
func (r request) late(d time.Duration) (string, error) {
	reply, err := r.send()
	time.Sleep(d)
	return reply, err
}

// meddler is a driver whose requests a test answers.
type meddler struct {
	drivertest.Driver
	run func(r request) (string, error)
}

// meddle lets run answer requests.
func meddle(run func(r request) (string, error)) wrapper {
	return func(d drivertest.Driver) drivertest.Driver { return meddler{d, run} }
}

func (m meddler) Run(ctx context.Context, call driver.Call) (string, error) {
	return m.run(request{call, ctx, m.Driver})
}

// counted counts requests that do that for mutexes.
func counted(what string, n *atomic.Int64) wrapper {
	return meddle(func(r request) (string, error) {
		if r.does(what) {
			n.Add(1)
		}
		return r.send()
	})
}

// belated answers requests that do that for mutexes after some time, while on is set.
func belated(what string, by time.Duration, on *atomic.Bool) wrapper {
	return meddle(func(r request) (string, error) {
		if r.does(what) && on.Load() {
			return r.late(by)
		}
		return r.send()
	})
}

// listener is a driver whose messages a test passes on.
type listener struct {
	drivertest.Driver
	hear func(message string, tell func(string))
}

// overhear lets hear pass on messages to the client, by tell.
func overhear(hear func(message string, tell func(string))) wrapper {
	return func(d drivertest.Driver) drivertest.Driver { return listener{d, hear} }
}

func (l listener) Subscribe(s driver.Subscription) (cancel func()) {
	tell := s.Message
	s.Message = func(message string) { l.hear(message, tell) }
	return l.Driver.Subscribe(s)
}

// deaf is a client's that hears nothing on its subscriptions.
var deaf = overhear(func(string, func(string)) {})

// dying is a process's that releases nothing: what it holds dies with it.
var dying = meddle(func(r request) (string, error) {
	switch r.Script.Name {
	case "release", "share_release":
		return "released 1", nil
	case "batch_release":
		return "freed", nil
	}
	return r.send()
})

// moody is the driver of a server that hangs, or refuses, on demand.
type moody struct {
	drivertest.Driver
	hangs   atomic.Bool
	hung    atomic.Int64          // requests that were sent while hangs was set
	refuses atomic.Pointer[error] // nil if it does not refuse
	asked   atomic.Int64          // requests
	singles atomic.Int64          // renewals that were not in a batch
}

// refuse makes the server refuse with err, or no longer if that is nil.
func (d *moody) refuse(err error) {
	if d.refuses.Store(&err); err == nil {
		d.refuses.Store(nil)
	}
}

func (d *moody) meets(ctx context.Context) error {
	d.asked.Add(1)
	if d.hangs.Load() {
		d.hung.Add(1)
		<-ctx.Done()
		return ctx.Err()
	}
	if err := d.refuses.Load(); err != nil {
		return *err
	}
	return nil
}

func (d *moody) Run(ctx context.Context, call driver.Call) (string, error) {
	if call.Script.Name == "renew" {
		d.singles.Add(1)
	}
	if err := d.meets(ctx); err != nil {
		return "", err
	}
	return d.Driver.Run(ctx, call)
}

func (d *moody) wrap(inner drivertest.Driver) drivertest.Driver {
	d.Driver = inner
	return d
}

var (
	errKilled  = fmt.Errorf("%w: killed", driver.ErrNotSent)
	errRefused = fmt.Errorf("%w: connection refused", driver.ErrNotSent)
)

// mortals are processes that are killed together: their subscriptions end, and nothing that they send arrives any more.
type mortals struct {
	all []*mortal
}

type mortal struct {
	moody
	mu   sync.Mutex
	subs []func()
}

func (d *mortal) Subscribe(s driver.Subscription) (cancel func()) {
	cancel = d.Driver.Subscribe(s)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subs = append(d.subs, cancel)
	return cancel
}

func (m *mortals) process(t *testing.T, srv *holdfasttest.Server) *holdfast.Client {
	t.Helper()
	d := &mortal{}
	m.all = append(m.all, d)
	return configured(t, srv, holdfast.Config{ViaClient: true}, func(inner drivertest.Driver) drivertest.Driver { d.Driver = inner; return d })
}

func (m *mortals) kill() {
	for _, d := range m.all {
		d.refuse(errKilled)
		d.mu.Lock()
		for _, cancel := range d.subs {
			cancel()
		}
		d.mu.Unlock()
	}
}

// unheard is a driver behind a proxy that confirms subscriptions itself, or refuses them: the server has none of them.
type unheard struct {
	moody
	refused       error // nil if it confirms them
	subscriptions atomic.Int64
}

func (d *unheard) Subscribe(s driver.Subscription) (cancel func()) {
	d.subscriptions.Add(1)
	answered := time.AfterFunc(5*time.Millisecond, func() {
		if d.refused != nil {
			s.Down(d.refused)
		} else {
			s.Up()
		}
	})
	return func() { answered.Stop() }
}

func (d *unheard) wrap(inner drivertest.Driver) drivertest.Driver {
	d.Driver = inner
	return d
}

// tokenOf returns the token and the channel of a member of a queue.
func tokenOf(member string) (token, channel string) {
	parts := strings.Split(member, "\n")
	return parts[0], parts[2]
}
