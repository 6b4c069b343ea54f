package virtual

import (
	"bytes"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
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

// tap is a client's way to its server, which meddles with what passes.
type tap struct {
	srv *holdfasttest.Server

	mu       sync.Mutex
	requests [][]byte      // all that were sent, as they were written
	held     []byte        // a request that the server did not get
	holds    string        // the next request with this text is held
	deaf     bool          // the server gets nothing
	silences string        // no reply comes to the next request with this text, nor to later ones on its connection
	slow     string        // the next request with this text takes 10 ms to write
	late     string        // the reply to the next request with this text takes 3 s
	ahead    time.Duration // how much too far ahead the server's clock seems when a connection is opened
	swaps    [2]string     // in requests: of the same length
	delay    time.Duration // of the answer to each request
	stopped  bool          // nothing is sent on new connections
	refuses  bool          // nobody listens
	dials    func() error  // called before a connection is made; nil: nothing

	conns          []*tappedConn
	opened, closed int // connections that were made while it was stopped, and those of them that are closed
}

// client returns a client, whose go-redis client may be changed.
func (w *tap) client(t *testing.T, cfg holdfast.Config, change ...func(*redis.Options)) *holdfast.Client {
	t.Helper()
	return opened(t, w.dial, cfg, func(o *redis.Options) {
		for _, f := range change {
			f(o)
		}
	})
}

// counts returns how many connections there have been, how many were made while it was stopped, and how many of these are closed.
func (w *tap) counts() (all, opened, closed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.conns), w.opened, w.closed
}

// refuse closes the server's port, and all connections.
func (w *tap) refuse() {
	w.set(func() {
		w.refuses = true
		for _, c := range w.conns {
			_ = c.Conn.Close()
		}
		w.conns = nil
	})
}

// forget loses all connections that there are: whatever is sent on them is swallowed silently.
func (w *tap) forget() {
	w.set(func() {
		for _, c := range w.conns {
			c.lost = true
		}
	})
}

// tapped returns a client, and its tap. The client has asked the server what it needs to know, and has no open connection.
func tapped(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) (*holdfast.Client, *tap) {
	t.Helper()
	w := &tap{srv: srv}
	c := w.client(t, cfg)
	ctx := lasting(t, time.Second)
	if lease, err := c.Mutex("first").TryAcquire(ctx); err == nil {
		release(t, lease)
	}
	time.Sleep(time.Minute)
	w.set(func() { w.requests = nil })
	return c, w
}

func (w *tap) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	errNobody := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	w.mu.Lock()
	dials, refuses := w.dials, w.refuses
	w.mu.Unlock()
	if refuses {
		return nil, errNobody
	}
	if dials != nil {
		if err := dials(); err != nil {
			return nil, err
		}
	}
	conn, err := w.srv.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuses { // since then; the function that closed the others does not know this one
		_ = conn.Close()
		return nil, errNobody
	}
	c := &tappedConn{Conn: conn, tap: w, lost: w.stopped}
	if w.conns = append(w.conns, c); w.stopped {
		w.opened++
	}
	return c, nil
}

// sent returns how many requests with this text were sent.
func (w *tap) sent(text string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.requests {
		n += bytes.Count(r, []byte(text))
	}
	return n
}

// set changes what the tap does.
func (w *tap) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// deliver sends what was held, as a copy that took long.
func (w *tap) deliver(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	held := w.held
	w.mu.Unlock()
	if held == nil {
		t.Fatal("nothing was held")
	}
	conn := expect.Of(w.srv.Dial(t.Context(), "tcp", "")).OK(t)
	defer conn.Close()
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	expect.OK(t, expect.ErrOf(conn.Write(held)))
	synctest.Wait()
}

type tappedConn struct {
	net.Conn
	tap    *tap
	asked  bool // for the server's time, by the latest request
	answer bool // to a request is awaited
	late   bool
	silent bool
	lost   bool // nothing is sent

	deadline time.Time // of reading
	held     []byte    // what the server has sent, until due
	due      time.Time
}

func (c *tappedConn) Close() error {
	c.tap.set(func() {
		if c.lost {
			c.lost = false
			c.tap.closed++
		}
	})
	return c.Conn.Close()
}

func (c *tappedConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *tappedConn) SetReadDeadline(t time.Time) error {
	c.tap.mu.Lock()
	c.deadline = t
	c.tap.mu.Unlock()
	return c.Conn.SetReadDeadline(t)
}

// readHeld is Read of what is held. The deadline may be set meanwhile.
func (c *tappedConn) readHeld(b []byte) (int, error) {
	for ; time.Now().Before(c.due); time.Sleep(min(time.Millisecond, time.Until(c.due))) {
		c.tap.mu.Lock()
		deadline := c.deadline
		c.tap.mu.Unlock()
		if !deadline.IsZero() && !time.Now().Before(deadline) {
			return 0, os.ErrDeadlineExceeded
		}
	}
	n := copy(b, c.held)
	c.held = nil
	return n, nil
}

func (c *tappedConn) Write(b []byte) (int, error) {
	w := c.tap
	has := func(text *string) bool {
		if *text == "" || !bytes.Contains(b, []byte(*text)) {
			return false
		}
		*text = ""
		return true
	}
	w.mu.Lock()
	w.requests = append(w.requests, bytes.Clone(b))
	const source = "return redis.call('TIME')"
	c.asked = bytes.Contains(b, []byte(source)) || bytes.Contains(b, fmt.Appendf(nil, "%x", sha1.Sum([]byte(source))))
	c.answer = true
	deaf, holds, slow := w.deaf || c.lost, has(&w.holds), has(&w.slow)
	if holds {
		w.held = bytes.Clone(b)
	}
	c.silent = c.silent || holds || has(&w.silences)
	c.late = has(&w.late)
	swapped := bytes.ReplaceAll(b, []byte(w.swaps[0]), []byte(w.swaps[1]))
	if w.swaps[0] == "" {
		swapped = b
	}
	w.mu.Unlock()
	if slow {
		time.Sleep(10 * time.Millisecond)
	}
	if deaf || holds {
		return len(b), nil
	}
	return c.Conn.Write(swapped)
}

var timeReply = regexp.MustCompile(`^\*2\r\n\$\d+\r\n(\d+)\r\n\$\d\r\n(\d+)\r\n$`)

func (c *tappedConn) Read(b []byte) (n int, err error) {
	if c.held != nil {
		return c.readHeld(b)
	}
	for {
		n, err = c.Conn.Read(b)
		c.tap.mu.Lock()
		late, ahead, asked, silent, delay := c.late, c.tap.ahead, c.asked, c.silent, c.tap.delay
		if !c.answer {
			delay = 0
		}
		c.late, c.answer = false, false
		c.tap.mu.Unlock()
		if silent && err == nil {
			continue
		}
		if late { // the server goes on meanwhile, as far as what it writes is read
			c.due = time.Now().Add(3 * time.Second)
			_ = c.Conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			for err == nil {
				var more int
				more, err = c.Conn.Read(b[n:])
				n += more
			}
			c.tap.mu.Lock()
			_ = c.Conn.SetReadDeadline(c.deadline)
			c.tap.mu.Unlock()
			c.held = bytes.Clone(b[:n])
			return c.readHeld(b)
		}
		if delay > 0 && err == nil {
			c.due = time.Now().Add(delay)
			c.held = bytes.Clone(b[:n])
			return c.readHeld(b)
		}
		if m := timeReply.FindSubmatch(b[:n]); m != nil && asked {
			seconds, _ := strconv.ParseInt(string(m[1]), 10, 64)
			us, _ := strconv.ParseInt(string(m[2]), 10, 64)
			at := time.Unix(seconds, us*1000).Add(ahead)
			whole, rest := strconv.FormatInt(at.Unix(), 10), strconv.Itoa(at.Nanosecond()/1000)
			n = copy(b, fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(whole), whole, len(rest), rest))
		}
		return n, err
	}
}

func exists(t *testing.T, srv *holdfasttest.Server, name string) bool {
	t.Helper()
	n := expect.Of(server(t, srv).Exists(t.Context(), "holdfast:{"+name+"}").Result()).OK(t)
	return n == 1
}
