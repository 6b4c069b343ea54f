package simulation

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// network is everything between the processes and the server. It is all in memory. Time passes only while
// everybody waits.
type network struct {
	seed   uint64
	accept func(*end)    // takes the server's end of a new connection
	mean   time.Duration // of the delay one way, on a fast connection

	mu        sync.Mutex
	links     []*link // open, in the order in which they were dialled
	dialled   map[int]uint64
	hosts     map[int]*host
	slow      slowness
	downUntil time.Time // nobody listens
	paused    time.Time // until when the server's process is paused
	healed    bool
}

// host is one process's side of the network.
type host struct {
	dead    bool      // killed: nothing comes from it or goes to it
	paused  time.Time // until when the process is paused
	refused time.Time // until when its dials are refused
	cutOff  time.Time // until when nothing gets through
	slow    slowness
}

// slowness multiplies every delay until a time.
type slowness struct {
	factor float64
	until  time.Time
}

func (s slowness) at(now time.Time) float64 {
	if now.Before(s.until) {
		return s.factor
	}
	return 1
}

func newNetwork(seed uint64, mean time.Duration, accept func(*end)) *network {
	return &network{seed: seed, mean: mean, accept: accept, dialled: map[int]uint64{}, hosts: map[int]*host{}}
}

func (n *network) hostOf(process int) *host {
	h := n.hosts[process]
	if h == nil {
		h = &host{}
		n.hosts[process] = h
	}
	return h
}

// dialTimeout is the timeout of go-redis's own dialer.
const dialTimeout = 5 * time.Second

// dial opens a connection for a process. That takes two round trips, unless something is in the way. One is for
// go-redis's handshake, which itself takes no time here: go-redis holds a mutex meanwhile, and a bubble's clock
// stands still while somebody waits for a mutex.
func (n *network) dial(ctx context.Context, process int) (net.Conn, error) {
	n.mu.Lock()
	h := n.hostOf(process)
	number := n.dialled[process]
	n.dialled[process]++
	l := newLink(n, process, number, h)
	now := time.Now()
	at := l.leaving(now, true).Add(2 * (l.delay(l.up.rand) + l.delay(l.up.rand)))
	if h.cutOff.After(at) {
		at = h.cutOff
	}
	if n.paused.After(at) && !n.downUntil.After(now) {
		at = now.Add(2 * l.mean) // the operating system accepts for a paused server
	}
	n.mu.Unlock()

	var err error
	timer := time.NewTimer(min(time.Until(at), dialTimeout))
	defer timer.Stop()
	select {
	case <-timer.C:
		if time.Now().Before(at) {
			err = syscall.ETIMEDOUT
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	n.mu.Lock()
	now = time.Now()
	if err == nil && (h.dead || now.Before(h.refused) || now.Before(n.downUntil)) {
		err = syscall.ECONNREFUSED
	}
	if err == nil {
		n.links = append(n.links, l)
	}
	n.mu.Unlock()
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: address{}, Err: err}
	}
	n.accept(&end{link: l, in: l.up, out: l.down})
	return &end{link: l, in: l.down, out: l.up}, nil
}

// linksOf returns the open connections of a process, oldest first; of all processes if the number is negative.
func (n *network) linksOf(process int) []*link {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.links), func(l *link) bool { return process >= 0 && l.process != process })
}

func (n *network) remove(l *link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.Index(n.links, l); i >= 0 {
		n.links = slices.Delete(n.links, i, i+1)
	}
}

func (n *network) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// heal ends every trouble except for the dead. It cuts connections that lose data, since their users would in
// time find out.
func (n *network) heal() {
	n.set(func() {
		n.healed = true
		n.slow, n.downUntil, n.paused = slowness{}, time.Time{}, time.Time{}
		for _, h := range n.hosts {
			*h = host{dead: h.dead}
		}
	})
	for _, l := range n.linksOf(-1) {
		l.heal()
	}
}

// link is a connection. Its two streams have delays of their own, so what is sent over one connection can
// overtake what is sent over another.
type link struct {
	network  *network
	process  int
	number   uint64 // among those that its process dialled
	host     *host
	mean     time.Duration
	up, down *stream

	// Guarded by network.mu.
	stalled time.Time // until when nothing arrives
	trap    trap
	closed  int       // ends that are closed
	ended   time.Time // when the first end was closed
	used    bool      // for more than the handshake
}

// trap strikes the next thing that is sent on a connection.
type trap int

const (
	noTrap      trap = iota
	loseRequest      // the connection breaks before the request arrives
	loseReply        // the connection breaks before the reply arrives
)

// A link's mean delay is between a quarter of the network's and slowestLink times that. Except for faults, no
// delay exceeds maxDelay times the mean.
const (
	slowestLink = 8
	maxDelay    = 1.5
)

func newLink(n *network, process int, number uint64, h *host) *link {
	r := random(n.seed, "link", process, number)
	l := &link{network: n, process: process, number: number, host: h}
	l.mean = between(r, n.mean/4, slowestLink*n.mean)
	l.up = newStream(l, true, random(n.seed, "up", process, number))
	l.down = newStream(l, false, random(n.seed, "down", process, number))
	return l
}

// lands draws when something that is sent now arrives.
func (l *link) lands(up bool, r *rand.Rand) time.Time {
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	if !l.used {
		return time.Now()
	}
	return l.leaving(time.Now(), up).Add(l.delay(r))
}

// maxSpike is how late a message is whose first packet was lost.
const maxSpike = 250 * time.Millisecond

// delay draws the delay one way. Guarded by the network, like leaving.
func (l *link) delay(r *rand.Rand) time.Duration {
	now := time.Now()
	d := float64(l.mean) * (0.5 + (maxDelay-0.5)*r.Float64())
	if r.IntN(200) == 0 && !l.network.healed {
		d += min(20*d, float64(maxSpike)) * r.Float64() // a packet was lost
	}
	return time.Duration(d*l.network.slow.at(now)*l.host.slow.at(now)) + time.Duration(r.IntN(1000))
}

// leaving returns when something that is sent now leaves.
func (l *link) leaving(now time.Time, up bool) time.Time {
	if up && l.host.paused.After(now) {
		return l.host.paused
	}
	return now
}

// landing returns when something arrives that is due then: a paused process reads later.
func (l *link) landing(at time.Time, up bool) time.Time {
	n := l.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if !l.used {
		return at
	}
	reader := l.host.paused
	if up {
		reader = n.paused
	}
	for _, t := range []time.Time{reader, l.host.cutOff, l.stalled} {
		if t.After(at) {
			at = t
		}
	}
	return at
}

func (l *link) inUse() bool {
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	return l.used
}

// lately reports whether the connection was open a while ago.
func (l *link) lately(d time.Duration) bool {
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	return l.closed == 0 || time.Since(l.ended) < d
}

// sprung reports whether the trap strikes what is sent in that direction.
func (l *link) sprung(up bool) bool {
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	return l.trap == loseRequest && up || l.trap == loseReply && !up
}

// cut breaks the connection: everything in flight is lost, and both ends learn of it.
func (l *link) cut() {
	l.up.end(syscall.ECONNRESET)
	l.down.end(syscall.ECONNRESET)
}

// heal delivers everything that is delayed, and cuts a connection that loses data.
func (l *link) heal() {
	l.network.set(func() { l.stalled, l.trap = time.Time{}, noTrap })
	broken := false
	for _, s := range []*stream{l.up, l.down} {
		s.mu.Lock()
		broken = broken || s.swallow
		s.poke()
		s.mu.Unlock()
	}
	if broken {
		l.cut()
	}
}

// end is one end of a link, as a net.Conn.
type end struct {
	link    *link
	in, out *stream
	once    sync.Once
	arrived func() // called before data that has arrived is read; may be nil
}

func (e *end) Read(p []byte) (int, error) {
	n, err := e.in.read(p)
	if e.arrived != nil {
		e.arrived()
	}
	return n, err
}

func (e *end) Write(p []byte) (int, error) {
	// Package pipe writes names of commands in upper case.
	if e.out.up && (bytes.Contains(p, []byte("\r\neval")) || bytes.Contains(p, []byte("\r\nEVAL")) || bytes.Contains(p, []byte("\r\nsubscribe\r\n"))) {
		e.link.network.set(func() { e.link.used = true })
	}
	if e.link.sprung(e.out.up) {
		e.link.cut()
		return len(p), nil
	}
	return e.out.write(p)
}

// SyscallConn is for go-redis, which checks an idle connection before it uses it.
func (e *end) SyscallConn() (syscall.RawConn, error) { return socket{e.in}, nil }

// socket tells whether anything arrived on an idle connection.
type socket struct{ in *stream }

func (s socket) Read(func(fd uintptr) bool) error  { return s.in.idle() }
func (s socket) Write(func(fd uintptr) bool) error { return syscall.ENOTSUP }
func (s socket) Control(func(fd uintptr)) error    { return syscall.ENOTSUP }

func (e *end) Close() error {
	e.once.Do(func() {
		e.in.end(net.ErrClosed)
		e.out.finish()
		e.link.network.mu.Lock()
		if e.link.closed++; e.link.closed == 1 {
			e.link.ended = time.Now()
		}
		last := e.link.closed == 2
		e.link.network.mu.Unlock()
		if last {
			e.link.network.remove(e.link)
		}
	})
	return nil
}

func (e *end) SetReadDeadline(t time.Time) error {
	e.in.setDeadline(t)
	return nil
}

func (e *end) SetDeadline(t time.Time) error    { return e.SetReadDeadline(t) }
func (e *end) SetWriteDeadline(time.Time) error { return nil }
func (e *end) LocalAddr() net.Addr              { return address{} }
func (e *end) RemoteAddr() net.Addr             { return address{} }

// address is the address of every end.
type address struct{}

func (address) Network() string { return "tcp" }
func (address) String() string  { return "127.0.0.1:0" }
