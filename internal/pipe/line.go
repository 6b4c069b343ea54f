package pipe

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// line is a connection that calls share. It has no goroutine of its own: the first caller that finds nobody writing writes for
// all, and one of those that wait for a reply reads for all.
type line struct {
	pipe *Pipe
	conn net.Conn
	free func() // or nil
	made time.Time
	// maxIdle and maxAge bound how long it may be idle, and how old it may become; a maxAge of 0 means no limit.
	maxIdle, maxAge time.Duration
	// buffers says that the connection keeps what is written until the server reads it. On another, a server that writes a reply
	// reads no more until somebody reads that.
	buffers bool

	mu     sync.Mutex
	queue  []*Call  // not composed yet
	flight []packet // composed and not answered, from index head on
	head   int
	wrote  int   // bytes
	writer *Call // whose caller is writing; or nil
	reader *Call // whose caller is reading; or nil
	// recalled says that reader's caller is to write, since no other caller waits.
	recalled bool
	used     time.Time // when something was last received on it
	err      error     // why the line is broken
	ending   bool      // it takes no more calls: the server should not be asked again on it
	queues   bool      // the server carries out nothing, because it has not ended a transaction

	out    []byte // composed, but not written
	buffer []byte // that out is a part of, emptied
	spent  use    // of buffer
	in     input
	ended  []*Call // that were started, and are done
	clock  serverClock
	knows  bool // the server was sent the source of the script that releases
}

// use is how much of a buffer was used lately.
type use int

// kept returns the buffer, emptied, for the next use. A large one is not kept if little of it is used.
func (u *use) kept(b []byte) []byte {
	// mutants: buffer-kept
	*u = max(use(len(b)), *u-*u/16)
	if cap(b) > 64<<10 && int(*u) < cap(b)/4 {
		return nil
	}
	return b[:0]
}

// send sends a call as Pipe.Send does. It takes the line's mutex once if the call is written and read by others: where goroutines
// are many and processors few, each time can be a long wait.
func (l *line) send(ctx context.Context, c *Call, now time.Time) error {
	l.mu.Lock()
	if !l.takes(now) {
		l.mu.Unlock()
		return errEnded
	}
	l.queue = append(l.queue, c)
	var stop func() bool // of what ends the writing and reading when ctx ends; nil as long as there was none
	defer func() {
		if stop != nil {
			stop()
		}
	}()
	for !c.done.Load() && ctx.Err() == nil {
		writes := l.writer == nil && l.hasUnwritten()
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
		if ended := ctx.Done(); ended == nil { // a select takes longer
			<-c.wake
		} else {
			select {
			case <-c.wake:
			case <-ended:
			}
		}
		if c.done.Load() { // the reader goes on reading, or wakes another
			return c.err
		}
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	answered := c.done.Load()
	// mutants: late-told
	if !answered && c.sent && c.Late != nil { // it goes on as if it had been started
		c.then = c.Late
		c.use++ // for interrupt, which may be about to run
	} else {
		c.left = !answered
	}
	l.passOn()
	switch {
	case answered:
		return c.err
	// mutants: never-sent
	case !c.sent:
		return notSent(ctx.Err())
	}
	return ctx.Err()
}

// start adds a call that nobody waits for.
func (l *line) start(c *Call, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.takes(now) {
		return false
	}
	l.queue = append(l.queue, c)
	if l.writer == nil {
		// mutants: started-driven
		l.wake(c)
	}
	return true
}

// drive writes and reads for a call that was started, as long as nobody else does.
func (l *line) drive(c *Call) {
	ctx := context.Background()
	l.mu.Lock()
	defer l.mu.Unlock()
	for !c.done.Load() && (c.sent || !c.left) {
		if l.writer == nil && l.hasUnwritten() {
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

// wake makes somebody write or read for the call.
func (l *line) wake(c *Call) {
	if c.then == nil {
		c.awaken()
	} else if !c.driven {
		c.driven = true
		l.pipe.Go(func() { l.drive(c) })
	}
}

// takes reports whether the line takes another call. Once it does not, it ends when its calls are answered.
func (l *line) takes(now time.Time) bool {
	busy := l.head < len(l.flight) || len(l.queue) > 0
	tooOld := l.maxAge > 0 && now.Sub(l.made) > l.maxAge
	switch {
	case l.err != nil || l.ending:
		return false
	// mutants: hung-line
	case l.head < len(l.flight) && l.flight[l.head].calls[0].deadline.Before(now): // its caller gave up before that
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

// interrupt ends the writing or reading of a caller that gives up. What it has written and read stays. A caller that was answered
// just then may have used the call again.
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

func (l *line) hasUnwritten() bool { return len(l.out) > 0 || len(l.queue) > 0 }

// passOn wakes the caller that is to write or to read, if nobody does.
func (l *line) passOn() {
	if l.err != nil || l.writer != nil && l.reader != nil {
		return
	}
	if l.writer == nil && l.wakeOne(l.queue, nil) {
		return // it is going to read, too
	}
	if l.reader != nil && len(l.out) == 0 {
		return
	}
	switch {
	case l.wakeInFlight(cmp.Or(l.writer, l.reader)):
	// mutants: reader-recalled
	case l.reader != nil && l.isUnwritten(l.reader):
		l.recalled = true
		_ = l.conn.SetReadDeadline(longAgo)
	case l.reader == nil && l.writer == nil && l.ending: // nobody waits any more
		l.fail(errDeadline)
	}
}

// wakeInFlight wakes the first call in flight that somebody waits for, other than that one.
func (l *line) wakeInFlight(but *Call) bool {
	return slices.ContainsFunc(l.flight[l.head:], func(p packet) bool { return l.wakeOne(p.calls, but) })
}

// isUnwritten reports whether a call in flight is not written in full.
func (l *line) isUnwritten(c *Call) bool {
	return slices.ContainsFunc(l.flight[l.head:], func(p packet) bool { return p.end > l.wrote && slices.Contains(p.calls, c) })
}

// wakeOne wakes the first of the calls that somebody waits for, other than that one.
func (l *line) wakeOne(calls []*Call, but *Call) bool {
	for _, c := range calls {
		if !c.left && !c.done.Load() && c != but {
			l.wake(c)
			return true
		}
	}
	return false
}

// write writes what is queued, until its caller's call is written and answered, or its caller gives up. Its caller holds mu.
func (l *line) write(ctx context.Context, own *Call) {
	l.writer = own
	defer func() { l.writer = nil }()
	if l.head < len(l.flight) { // others are about to be answered, and then to add calls, which leave with this one
		l.mu.Unlock()
		runtime.Gosched()
		l.mu.Lock()
	}
	for l.err == nil && l.hasUnwritten() && !own.done.Load() && ctx.Err() == nil {
		if len(l.out) == 0 {
			l.compose()
		}
		if l.reader == nil && !l.buffers {
			l.wakeInFlight(own)
		}
		_ = l.conn.SetWriteDeadline(own.deadline) // if it fails, Write does
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

// read reads replies until that to its caller's call is there, or its caller gives up or is to write. Its caller holds mu.
func (l *line) read(ctx context.Context, own *Call) {
	l.reader = own
	defer func() { l.reader, l.recalled = nil, false }()
	for l.err == nil && !own.done.Load() && ctx.Err() == nil && !l.recalled {
		// mutants: first-deadline
		_ = l.conn.SetReadDeadline(l.flight[l.head].calls[0].deadline) // if it fails, Read does
		room := l.in.room()
		l.mu.Unlock()
		n, err := l.conn.Read(room)
		l.mu.Lock()
		l.in.grew(n)
		if n > 0 {
			err = l.deliver()
			l.tell()
		}
		// mutants: reader-breaks
		if err != nil && !(isTimeout(err) && (ctx.Err() != nil || l.recalled)) {
			// mutants: late-reply
			l.fail(err)
		}
	}
}

// deliver gives calls the replies that are there in full.
func (l *line) deliver() error {
	l.used = time.Now()
	for l.head < len(l.flight) {
		p := &l.flight[l.head]
		for ; p.replies > 0; p.replies-- {
			if whole, err := l.in.scan(); err != nil || !whole {
				return err
			}
		}
		p.read(l, l.in.take(), p.calls)
		for _, c := range p.calls {
			// mutants: concerns-server
			l.ending = l.ending || concernsServer(c.err)
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
	if !l.in.isEmpty() {
		// mutants: surplus
		return errSurplus
	}
	if l.ending && len(l.queue) == 0 && len(l.out) == 0 {
		l.fail(errReplaced)
	}
	return nil
}

// tell calls the functions of started calls that are done, without the mutex.
func (l *line) tell() {
	if len(l.ended) == 0 {
		return
	}
	l.mu.Unlock()
	for _, c := range l.ended { // only the reader adds to it
		c.then(c.err)
	}
	l.mu.Lock()
	clear(l.ended)
	l.ended = l.ended[:0]
}

// oneCall lists the prefixes of error replies that concern one call, and not the server or the connection.
var oneCall = []string{"WRONGTYPE ", "NOPERM ", "NOSCRIPT ", "OOM ", "MOVED ", "ASK ", "EXECABORT ", "ERR unknown command"}

// concernsServer reports whether err is an error reply after which the connection should not be used: it may lead to a server that
// is no master any more.
func concernsServer(err error) bool {
	refused, is := err.(driver.ReplyError)
	return is && !slices.ContainsFunc(oneCall, func(prefix string) bool { return strings.HasPrefix(string(refused), prefix) })
}

// fail breaks the line. Calls that were written fail as unanswered, and the others as not sent.
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
		finish(c, notSent(err))
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
