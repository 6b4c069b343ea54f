package prompt

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Bounds on a reply.
const (
	maxBulk = 64 << 20 // bytes of a string
	maxLine = 64 << 10 // bytes of an error or another one-line reply
)

// Buffers start with minBuffer bytes. A buffer that has grown beyond maxBuffer is not kept.
const (
	minBuffer = 1 << 10
	maxBuffer = 64 << 10
)

// Errors about replies that none of this library's scripts and commands has. The connection cannot be used after one.
var (
	errSurplus = errors.New("the server sent more than the reply")
	errForm    = errors.New("the server sent no string, number or error")
	errLong    = errors.New("the server sent too long a reply")
)

// oneCall lists the prefixes of error replies that concern one call, and not the server or the connection.
var oneCall = []string{"WRONGTYPE ", "NOPERM ", "OOM ", "ERR unknown command"}

// concernsOneCall reports whether err is an error reply that concerns one call. It has been read in full, so the connection can
// be used again.
func concernsOneCall(err error) bool {
	refused, is := err.(driver.ReplyError)
	return is && slices.ContainsFunc(oneCall, func(prefix string) bool { return strings.HasPrefix(string(refused), prefix) })
}

// run sends a call and returns its reply, as driver.Driver's Run does.
func (l *line) run(deadline time.Time, c *driver.Call) (string, error) {
	if l.conn.SetDeadline(deadline) != nil { // the connection is closed
		return "", driver.ErrNotSent
	}
	if c.Script.Command != "" {
		return l.exchange(c, c.Script.Command)
	}
	n := strconv.Itoa(len(c.Keys))
	reply, err := l.exchange(c, "evalsha", c.Script.SHA1, n)
	if refused, is := err.(driver.ReplyError); is && strings.HasPrefix(string(refused), "NOSCRIPT") {
		reply, err = l.exchange(c, "eval", c.Script.Source, n)
	}
	return reply, err
}

// exchange writes words and a call's keys and arguments, and reads the reply.
func (l *line) exchange(c *driver.Call, words ...string) (string, error) {
	l.out = appendHeader(l.out[:0], '*', len(words)+len(c.Keys)+len(c.Args))
	for _, part := range [...][]string{words, c.Keys, c.Args} {
		for _, word := range part {
			l.out = appendHeader(l.out, '$', len(word))
			l.out = append(append(l.out, word...), "\r\n"...)
		}
	}
	_, err := l.conn.Write(l.out)
	if cap(l.out) > maxBuffer {
		l.out = nil
	}
	if err != nil {
		return "", err
	}
	return l.read()
}

func appendHeader(b []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(b, kind), int64(n), 10), "\r\n"...)
}

// read reads a reply. It is an error if the server has sent more than that.
func (l *line) read() (string, error) {
	in := l.in[:0]
	defer func() {
		if l.in = in; cap(in) > maxBuffer {
			l.in = nil
		}
	}()
	end := -1 // where the first line ends
	for end < 0 {
		if len(in) > maxLine {
			return "", errLong
		}
		var err error
		if in, err = l.more(in); err != nil {
			return "", err
		}
		end = bytes.IndexByte(in, '\n')
	}
	head := bytes.TrimSuffix(in[:end], []byte("\r"))
	rest := end + 1
	if len(head) == 0 {
		return "", errForm
	}
	kind, text := head[0], head[1:]
	switch kind {
	case '+', '-', ':':
		if len(in) > rest {
			return "", errSurplus
		}
		if kind == '-' {
			return "", driver.ReplyError(text)
		}
		return string(text), nil
	case '$':
	default:
		return "", fmt.Errorf("%w: %.20q", errForm, head)
	}
	n, err := strconv.Atoi(string(text))
	switch {
	case err != nil || n < 0:
		return "", fmt.Errorf("%w: %.20q", errForm, head)
	case n > maxBulk:
		return "", errLong
	}
	whole := rest + n + len("\r\n")
	for len(in) < whole {
		if in, err = l.more(in); err != nil {
			return "", err
		}
	}
	if len(in) > whole {
		return "", errSurplus
	}
	return string(in[rest : rest+n]), nil
}

// more appends what the server sends next. The buffer grows with what has arrived, not with the length that the server announces.
func (l *line) more(in []byte) ([]byte, error) {
	if len(in) == cap(in) {
		in = append(make([]byte, 0, max(minBuffer, 2*cap(in))), in...)
	}
	n, err := l.conn.Read(in[len(in):cap(in)])
	if n > 0 {
		err = nil // the next Read returns it again
	}
	return in[:len(in)+n], err
}
