package pipe

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// line is a connection that calls share. It has no goroutine of its own: the first caller that finds no writer writes for all, and one of
// the callers that wait for a reply reads for all.
type line struct {
	pipe *Pipe
	conn net.Conn
	free func() // or nil
	made time.Time
	// maxIdle bounds how long the connection may be idle, and maxAge how old it may become; a maxAge of 0 means no limit.
	maxIdle, maxAge time.Duration
	// buffers says that the connection keeps what is written until the server reads it. Otherwise a server that writes a reply reads no
	// more until the reply is read.
	buffers bool

	mu     sync.Mutex
	queue  []*Call  // not composed yet
	flight []packet // composed and not answered, from index head
	head   int
	wrote  int   // in bytes
	writer *Call // the call whose caller is writing, or nil
	reader *Call // the call whose caller is reading, or nil
	// recalled asks reader's caller to write, since no other caller waits.
	recalled bool
	used     time.Time // when something was last received
	err      error     // why the line is broken
	ending   bool      // the line takes no more calls: the server must not be asked again on it
	queues   bool      // the server carries out nothing, because it does not end a transaction

	out    []byte // composed and not written
	buffer []byte // the buffer of out, emptied
	spent  use    // of buffer
	in     input
	ended  []*Call // calls that were started and are done
	clock  serverClock
	knows  bool // the server has been sent the source of the script that releases
}

// use is how much of a buffer was used recently.
type use int

// kept returns the buffer, emptied, for the next use, or nil if it is large and little of it is used.
func (u *use) kept(b []byte) []byte {
	// mutants: buffer-kept
	*u = max(use(len(b)), *u-*u/16)
	if cap(b) > 64<<10 && int(*u) < cap(b)/4 {
		return nil
	}
	return b[:0]
}

// send sends a call as Pipe.Send does. If others write and read for the call, send takes the line's mutex only once: with many goroutines
// and few processors, each time can be a long wait.
func (l *line) send(ctx context.Context, c *Call, now time.Time) error {
	l.mu.Lock()
	if !l.takes(now) {
		l.mu.Unlock()
		return errEnded
	}
	l.queue = append(l.queue, c)
	c.line = l
	var stop func() bool // cancels the interrupt that ends writing and reading when ctx ends; nil until the caller writes or reads
	defer func() {
		if stop != nil {
			stop()
		}
	}()
	for !c.done.Load() && ctx.Err() == nil {
		writes := l.writer == nil && len(l.out)+len(l.queue) > 0
		if writes || c.sent && l.reader == nil {
			if stop == nil && ctx.Done() != nil {
				use := c.use
				stop = context.AfterFunc(ctx, func() { l.interrupt(c, use) })
			}
			if writes {
				l.write(ctx, c)
			} else {
				l.read(ctx, c)
			}
			continue
		}
		l.mu.Unlock()
		if ended := ctx.Done(); ended == nil { // a select would take longer
			<-c.wake
		} else {
			select {
			case <-c.wake:
			case <-ended:
			}
		}
		if c.done.Load() { // the reader goes on, or wakes another
			return c.err
		}
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	answered := c.done.Load()
	// mutants: late-told
	if !answered && c.sent && c.Late != nil { // the call goes on as if it had been started
		c.then = c.Late
		c.use++ // so that an interrupt that is about to run does nothing
	} else {
		c.left = !answered
	}
	l.passOn()
	switch {
	case answered:
		return c.err
	// mutants: never-sent
	case !c.sent:
		return NotSent{ctx.Err()}
	}
	return ctx.Err()
}

// start adds a call that no caller waits for. It reports whether the line takes calls.
func (l *line) start(c *Call, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.takes(now) {
		return false
	}
	l.add(c)
	return true
}

// follow adds a call that no caller waits for, behind an earlier one on the line, even if the line takes no new calls. It returns false if
// the line is broken.
func (l *line) follow(c *Call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false
	}
	l.add(c)
	return true
}

func (l *line) add(c *Call) {
	l.queue = append(l.queue, c)
	if l.writer == nil {
		// mutants: started-driven
		l.wake(c)
	}
}

// drive writes and reads for a call that was started, unless another goroutine does.
func (l *line) drive(c *Call) {
	ctx := context.Background()
	l.mu.Lock()
	defer l.mu.Unlock()
	for !c.done.Load() && (c.sent || !c.left) {
		if l.writer == nil && len(l.out)+len(l.queue) > 0 {
			l.write(ctx, c)
		} else if c.sent && l.reader == nil {
			l.read(ctx, c)
		} else {
			break
		}
	}
	c.driven = false
	l.passOn()
}

// wake makes the call's caller, or a goroutine, write or read.
func (l *line) wake(c *Call) {
	if c.then == nil {
		c.awaken()
	} else if !c.driven {
		c.driven = true
		l.pipe.Go(func() { l.drive(c) })
	}
}

// takes reports whether the line takes another call. Once it does not, it ends when its calls have been answered.
func (l *line) takes(now time.Time) bool {
	busy := l.head < len(l.flight) || len(l.queue) > 0
	tooOld := l.maxAge > 0 && now.Sub(l.made) > l.maxAge
	switch {
	case l.err != nil || l.ending:
		return false
	// mutants: hung-line
	case l.head < len(l.flight) && l.flight[l.head].calls[0].deadline.Before(now): // nobody reads: its caller gave up
		l.fail(errDeadline)
		return false
	// mutants: slow-line
	case l.head < len(l.flight) && now.Sub(l.flight[l.head].calls[0].Began) > patience && now.Sub(l.used) > patience, busy && tooOld:
		l.ending = true
		l.passOn()
		return false
	case tooOld, !busy && (now.Sub(l.used) > l.maxIdle || now.Sub(l.used) > trusted && isClosed(l.conn)):
		l.fail(errReplaced)
		return false
	}
	return true
}

// interrupt stops the writing or reading of a caller that gives up. What it has written and read stays. use tells whether the caller has
// been answered just then and is using the call again.
func (l *line) interrupt(c *Call, use uint) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// mutants: interrupted-use
	if l.writer == c && c.use == use {
		_ = l.conn.SetWriteDeadline(longAgo)
	}
	// mutants: interrupted-read
	if l.reader == c && c.use == use {
		_ = l.conn.SetReadDeadline(longAgo)
	}
}

var longAgo = time.Unix(1, 0)

// passOn wakes a caller to write or to read, if nobody does.
func (l *line) passOn() {
	if l.err != nil || l.writer != nil && l.reader != nil {
		return
	}
	if l.writer == nil && l.wakeOne(l.queue, nil) {
		return // it will also read
	}
	if l.reader != nil && len(l.out) == 0 {
		return
	}
	flight, but := l.flight[l.head:], cmp.Or(l.writer, l.reader)
	switch {
	case slices.ContainsFunc(flight, func(p packet) bool { return l.wakeOne(p.calls, but) }):
	// mutants: reader-recalled
	case l.reader != nil && slices.ContainsFunc(flight, func(p packet) bool { return p.end > l.wrote && slices.Contains(p.calls, l.reader) }):
		l.recalled = true
		_ = l.conn.SetReadDeadline(longAgo)
	case l.reader == nil && l.writer == nil && l.ending: // nobody waits any more
		l.fail(errDeadline)
	}
}

// wakeOne wakes the first of the calls that somebody waits for, except but.
func (l *line) wakeOne(calls []*Call, but *Call) bool {
	for _, c := range calls {
		if !c.left && !c.done.Load() && c != but {
			l.wake(c)
			return true
		}
	}
	return false
}

// write writes what is queued until own, its caller's call, has been answered, or ctx ends. The caller holds mu.
func (l *line) write(ctx context.Context, own *Call) {
	l.writer = own
	defer func() { l.writer = nil }()
	if l.head < len(l.flight) { // calls about to be answered may be followed by others, which can leave together with this one
		l.mu.Unlock()
		runtime.Gosched()
		l.mu.Lock()
	}
	for l.err == nil && len(l.out)+len(l.queue) > 0 && !own.done.Load() && ctx.Err() == nil {
		if len(l.out) == 0 {
			l.compose()
		}
		if l.reader == nil && !l.buffers {
			l.passOn() // the server may have to be read from
		}
		_ = l.conn.SetWriteDeadline(own.deadline) // if this fails, so does Write
		rest := l.out
		l.mu.Unlock()
		n, err := l.conn.Write(rest)
		l.mu.Lock()
		l.out, l.wrote = rest[n:], l.wrote+n
		if err != nil && !(isTimeout(err) && ctx.Err() != nil) {
			l.fail(err)
		}
	}
}

// read reads replies until that to own, its caller's call, has arrived, ctx ends, or the caller has to write. The caller holds mu.
func (l *line) read(ctx context.Context, own *Call) {
	l.reader = own
	defer func() { l.reader, l.recalled = nil, false }()
	for l.err == nil && !own.done.Load() && ctx.Err() == nil && !l.recalled {
		// mutants: first-deadline
		_ = l.conn.SetReadDeadline(l.flight[l.head].calls[0].deadline) // if this fails, so does Read
		l.mu.Unlock()
		n, err := l.in.fill(l.conn) // only the reader uses l.in
		l.mu.Lock()
		if n > 0 {
			err = l.deliver()
		}
		if len(l.ended) > 0 { // only the reader adds calls
			l.mu.Unlock()
			for _, c := range l.ended {
				c.then(c.err)
			}
			l.mu.Lock()
			clear(l.ended)
			l.ended = l.ended[:0]
		}
		// mutants: reader-breaks
		if err != nil && !(isTimeout(err) && (ctx.Err() != nil || l.recalled)) {
			// mutants: late-reply
			l.fail(err)
		}
	}
}

// deliver hands calls the replies that have arrived in full.
func (l *line) deliver() error {
	l.used = time.Now()
	for l.head < len(l.flight) {
		p := &l.flight[l.head]
		r, whole, err := l.in.take(&p.replies)
		if !whole {
			return err
		}
		switch p.calls[0].Kind {
		case Command, Delete:
			readOne(r, p.calls[0])
		case Release:
			l.readReleased(r, p.calls)
		default:
			l.readAcquired(r, p)
		}
		for _, c := range p.calls {
			// mutants: concerns-server
			l.ending = l.ending || c.err != nil && concernsServer(c.err)
			if c.finish(c.err) {
				l.ended = append(l.ended, c)
			}
		}
		*p = packet{}
		l.head++
		if l.queues {
			return errQueues
		}
	}
	l.flight, l.head = l.flight[:0], 0
	if l.in.from < len(l.in.b) {
		// mutants: surplus
		return errSurplus
	}
	if l.ending && len(l.queue) == 0 && len(l.out) == 0 {
		l.fail(errReplaced)
	}
	return nil
}

// concernsServer reports whether err is an error reply after which the connection should not be used: it may lead to a server that is no
// longer a master. Other errors concern one call.
func concernsServer(err error) bool {
	return resp.Is(err) && !resp.Is(err, "WRONGTYPE ", "NOPERM ", "NOSCRIPT ", "OOM ", "MOVED ", "ASK ", "EXECABORT ", "ERR unknown command")
}

// fail breaks the line. Calls that were written fail as unanswered, the others as not sent.
func (l *line) fail(err error) {
	if l.err != nil {
		return
	}
	if isTimeout(err) {
		err = errDeadline
	}
	l.err = err
	if l.conn != nil {
		hangUp(l.conn)
	}
	if l.free != nil {
		l.pipe.Go(l.free)
	}
	var started []*Call
	finish := func(c *Call, err error) {
		if c.finish(err) {
			started = append(started, c)
		}
	}
	for _, p := range l.flight[l.head:] {
		for _, c := range p.calls {
			// mutants: broken-in-flight
			finish(c, err)
		}
	}
	for _, c := range l.queue {
		finish(c, NotSent{err})
	}
	l.flight, l.queue, l.out = nil, nil, nil
	// mutants: started-broken
	if started != nil {
		l.pipe.Go(func() {
			for _, c := range started {
				c.then(c.err)
			}
		})
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
