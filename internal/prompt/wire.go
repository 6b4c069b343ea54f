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
	maxLine = 64 << 10 // bytes of an error, or of another reply of one line
)

// Buffers begin with minBuffer bytes. One that has grown beyond maxBuffer is not kept.
const (
	minBuffer = 1 << 10
	maxBuffer = 64 << 10
)

// Errors of replies that no script or command of ours has. The connection is then of no use any more.
var (
	errSurplus = errors.New("the server sent more than the reply")
	errForm    = errors.New("the server sent no string, number or error")
	errLong    = errors.New("the server sent too long a reply")
)

// oneCall has the beginnings of errors by which a server refuses one call, and that say nothing about the server or the connection.
var oneCall = []string{"WRONGTYPE ", "NOPERM ", "OOM ", "ERR unknown command"}

// concernsOneCall reports whether err is such a reply. The whole of it has been read then, so the connection can be used again.
func concernsOneCall(err error) bool {
	refused, is := err.(driver.ReplyError)
	return is && slices.ContainsFunc(oneCall, func(beginning string) bool { return strings.HasPrefix(string(refused), beginning) })
}

// run sends a call, and returns its reply as Driver.Run does.
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

// read reads a reply, after which the server must not send anything.
func (l *line) read() (string, error) {
	in := l.in[:0]
	defer func() {
		if l.in = in; cap(in) > maxBuffer {
			l.in = nil
		}
	}()
	end := -1 // of the first line
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

// more reads what the server sends next. The buffer grows with what has come, and not with what a server announces.
func (l *line) more(in []byte) ([]byte, error) {
	if len(in) == cap(in) {
		in = append(make([]byte, 0, max(minBuffer, 2*cap(in))), in...)
	}
	n, err := l.conn.Read(in[len(in):cap(in)])
	if n > 0 {
		err = nil // it comes again, if more is read
	}
	return in[:len(in)+n], err
}
