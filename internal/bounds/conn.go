// Package bounds closes connections to servers that send what a client library could not survive: replies that
// nobody asked for, arrays in arrays without end, and lengths beyond memory.
package bounds

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"
)

// What a server may send. Replies to what this library sends are far below that.
const (
	maxDepth    = 32       // arrays within arrays
	maxElements = 1 << 20  // that are announced and have not come, of all arrays that are open
	maxBulk     = 64 << 20 // bytes of a string
	maxLine     = 1 << 20  // bytes of an error, or of another reply of one line
)

// ErrProtocol is wrapped by the error of a connection whose server went beyond.
var ErrProtocol = errors.New("the server does not keep to the protocol")

// Wrap returns a connection that fails, and is closed, when its server goes beyond. A syscall.Conn stays one.
func Wrap(conn net.Conn) net.Conn {
	c := &bounded{Conn: conn}
	if sys, ok := conn.(syscall.Conn); ok {
		return system{c, sys}
	}
	return c
}

type system struct {
	*bounded
	syscall.Conn
}

// bounded is a connection of which one goroutine reads and one writes at a time, as of any other.
type bounded struct {
	net.Conn
	requests requests
	replies  replies
	// awaited are the requests whose reply has not begun.
	awaited atomic.Int64
	// subscribing says that subscriptions were asked for: arrays may come that are no replies.
	subscribing atomic.Bool
	ending      atomic.Int64 // requests to end a subscription that are not answered
	failed      atomic.Bool
}

func (c *bounded) Write(p []byte) (int, error) {
	c.requests.read(c, p) // before they can be answered
	return c.Conn.Write(p)
}

func (c *bounded) Read(p []byte) (int, error) {
	if c.failed.Load() {
		return 0, ErrProtocol
	}
	n, err := c.Conn.Read(p)
	if bad := c.replies.read(c, p[:n]); bad != nil {
		c.failed.Store(true)
		_ = c.Close()
		return 0, fmt.Errorf("%w: %w", ErrProtocol, bad)
	}
	return n, err
}

// line collects a line that comes in pieces. Only its beginning is kept.
type line struct {
	start  [32]byte
	length int
}

// take takes what belongs to the line from p, and says whether it is complete.
func (l *line) take(p []byte) (rest []byte, complete bool) {
	end := bytes.IndexByte(p, '\n')
	if end < 0 {
		l.add(p)
		return nil, false
	}
	l.add(p[:end])
	return p[end+1:], true
}

func (l *line) add(p []byte) {
	if l.length < len(l.start) {
		copy(l.start[l.length:], p)
	}
	l.length += len(p)
}

// text is the line without its first byte and its end, or its beginning.
func (l *line) text() []byte {
	return bytes.TrimSuffix(l.start[min(1, l.length):min(l.length, len(l.start))], []byte("\r"))
}

// requests follows what a client sends: arrays of strings.
type requests struct {
	line  line
	skip  int64 // bytes of a string, and its end, to come
	first bool  // the next string is the command's name
	name  []byte
	named int64 // bytes of the name to come
}

func (r *requests) read(c *bounded, p []byte) {
	for len(p) > 0 {
		if r.skip > 0 {
			n := min(r.skip, int64(len(p)))
			if r.named > 0 {
				m := min(r.named, n)
				r.name = append(r.name, p[:m]...)
				if r.named -= m; r.named == 0 {
					r.sees(c, bytes.ToLower(r.name))
				}
			}
			p, r.skip = p[n:], r.skip-n
			continue
		}
		rest, complete := r.line.take(p)
		p = rest
		if !complete {
			return
		}
		n, _ := strconv.ParseInt(string(r.line.text()), 10, 64)
		switch r.line.start[0] {
		case '*':
			c.awaited.Add(1)
			r.first = true
		case '$':
			r.skip = n + 2
			if r.first {
				r.first, r.name, r.named = false, r.name[:0], min(n, 16)
			}
		}
		r.line = line{}
	}
}

func (r *requests) sees(c *bounded, command []byte) {
	if bytes.HasSuffix(command, []byte("subscribe")) {
		c.subscribing.Store(true)
	}
	if bytes.HasSuffix(command, []byte("unsubscribe")) {
		c.ending.Add(1)
	}
}

// replies follows what a server sends.
type replies struct {
	line  line
	skip  int64   // bytes of a string, and its end, to come
	open  []array // that are not complete
	total int64   // elements to come of all of them
	word  []byte  // the first element of the outermost array
	words int64   // bytes of it to come
}

type array struct {
	kind byte
	left int64 // elements to come
	size int64
}

var (
	errSurplus = errors.New("a reply that nobody asked for")
	errDeep    = errors.New("arrays within arrays")
	errLong    = errors.New("a length beyond bounds")
	errKey     = errors.New("a map's key that is no text")
	errForm    = errors.New("a reply of no form")
)

func (r *replies) read(c *bounded, p []byte) error {
	for len(p) > 0 {
		if r.skip > 0 {
			n := min(r.skip, int64(len(p)))
			if r.words > 0 {
				m := min(r.words, n)
				r.word, r.words = append(r.word, p[:m]...), r.words-m
			}
			p, r.skip = p[n:], r.skip-n
			if r.skip == 0 {
				r.complete(c)
			}
			continue
		}
		if r.line.length == 0 {
			if err := r.begin(c, p[0]); err != nil {
				return err
			}
		}
		rest, complete := r.line.take(p)
		if r.line.length > maxLine {
			return errLong
		}
		if !complete {
			return nil
		}
		p = rest
		if err := r.header(c); err != nil {
			return err
		}
		r.line = line{}
	}
	return nil
}

// begin sees the first byte of a reply, or of an element.
func (r *replies) begin(c *bounded, kind byte) error {
	aggregate := false
	switch kind {
	case '*', '~', '>', '%', '|':
		aggregate = true
	case '+', '-', ':', '_', ',', '#', '(', '$', '!', '=':
	default:
		return errForm
	}
	if len(r.open) > 0 {
		in := r.open[len(r.open)-1]
		if aggregate && (in.kind == '%' || in.kind == '|') && in.left%2 == 0 {
			return errKey
		}
		return nil
	}
	if kind == '>' || kind == '|' || kind == '*' && c.subscribing.Load() {
		return nil // no reply
	}
	if c.awaited.Add(-1) < 0 {
		return errSurplus
	}
	return nil
}

// header reads a line.
func (r *replies) header(c *bounded) error {
	kind := r.line.start[0]
	switch kind {
	case '$', '!', '=', '*', '~', '>', '%', '|':
	default: // complete by itself
		if len(r.open) == 1 && r.open[0].left == r.open[0].size {
			r.word = append(r.word[:0], r.line.text()...)
		}
		r.complete(c)
		return nil
	}
	n, err := strconv.ParseInt(string(r.line.text()), 10, 64)
	switch {
	case err != nil || n < -1:
		return errForm
	case n == -1:
		r.complete(c)
		return nil
	}
	switch kind {
	case '$', '!', '=':
		if n > maxBulk {
			return errLong
		}
		r.skip = n + 2
		if len(r.open) == 1 && r.open[0].left == r.open[0].size {
			r.word, r.words = r.word[:0], min(n, 16)
		}
		return nil
	case '%', '|':
		if n > maxElements {
			return errLong
		}
		n *= 2
	}
	switch {
	case r.total+n > maxElements:
		return errLong
	case len(r.open) >= maxDepth:
		return errDeep
	}
	r.open = append(r.open, array{kind, n, n})
	r.total += n
	if n == 0 {
		r.open = r.open[:len(r.open)-1]
		if kind != '|' { // which comes before what it is about
			r.complete(c)
		}
	}
	return nil
}

// complete counts an element as come, and arrays that it completes.
func (r *replies) complete(c *bounded) {
	for len(r.open) > 0 {
		in := &r.open[len(r.open)-1]
		in.left--
		r.total--
		if in.left > 0 {
			return
		}
		kind := in.kind
		r.open = r.open[:len(r.open)-1]
		if len(r.open) == 0 && (kind == '>' || kind == '*') && c.subscribing.Load() {
			r.answer(c)
		}
		if kind == '|' {
			return
		}
	}
}

// answer counts an array that came where subscriptions were asked for as the reply, if it is the answer to one.
// Servers also end subscriptions by themselves.
func (r *replies) answer(c *bounded) {
	switch string(bytes.ToLower(r.word)) {
	case "unsubscribe", "sunsubscribe", "punsubscribe":
		if down(&c.ending) {
			down(&c.awaited)
		}
	case "subscribe", "ssubscribe", "psubscribe", "pong":
		down(&c.awaited)
	}
}

// down subtracts 1 from what is above 0, and says whether it was.
func down(count *atomic.Int64) bool {
	for {
		n := count.Load()
		if n <= 0 {
			return false
		}
		if count.CompareAndSwap(n, n-1) {
			return true
		}
	}
}
