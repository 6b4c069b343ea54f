package prompt

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// stream is a connection whose Read returns the pieces one at a time.
type stream struct {
	net.Conn
	pieces []string
	sent   bytes.Buffer
}

func (s *stream) Read(p []byte) (int, error) {
	if len(s.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.pieces[0])
	if s.pieces[0] = s.pieces[0][n:]; s.pieces[0] == "" {
		s.pieces = s.pieces[1:]
	}
	return n, nil
}

func (s *stream) Write(p []byte) (int, error) { return s.sent.Write(p) }
func (s *stream) SetDeadline(time.Time) error { return nil }

// A reply is the same in whatever pieces it arrives. Anything that is not a reply to a script or a command is an error.
func TestReplies(t *testing.T) {
	long := strings.Repeat("x", 3*maxBuffer)
	for text, want := range map[string]struct {
		reply string
		err   error
	}{
		"$5\r\nhello\r\n":             {reply: "hello"},
		"$0\r\n\r\n":                  {},
		"$4\r\na\r\nb\r\n":            {reply: "a\r\nb"},
		"+OK\r\n":                     {reply: "OK"},
		":-12\r\n":                    {reply: "-12"},
		"-WRONGTYPE by hand\r\n":      {err: driver.ReplyError("WRONGTYPE by hand")},
		"$196608\r\n" + long + "\r\n": {reply: long},
		"$5\r\nhello\r\n+":            {err: errSurplus},
		"+OK\r\n+":                    {err: errSurplus},
		"+OK\r\n+OK\r\n":              {err: errSurplus},
		"-ERR no\r\n$1\r\nx\r\n":      {err: errSurplus},
		"$-1\r\n":                     {err: errForm},
		"$x\r\n":                      {err: errForm},
		"$99999999999999999999\r\n":   {err: errForm},
		"$99999999999\r\n":            {err: errLong},
		"_\r\n":                       {err: errForm},
		"\r\n":                        {err: errForm},
		"*1\r\n$1\r\nx\r\n":           {err: errForm},
		">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n:1\r\n": {err: errForm},
		"HTTP/1.1 200 OK\r\n":                      {err: errForm},
		"+" + long:                                 {err: errLong},
		"":                                         {err: io.EOF},
		"$5\r\nhel":                                {err: io.EOF},
	} {
		for _, pieces := range [][]string{{text}, strings.Split(text, ""), {text[:len(text)/2], text[len(text)/2:]}} {
			if last := len(pieces) - 1; last > 0 && want.err == errSurplus {
				continue // what arrives later is found before the next call, or taken for its reply
			}
			s := &stream{pieces: pieces}
			l := &line{conn: s}
			reply, err := l.run(time.Time{}, &driver.Call{Script: driver.Script{Command: "echo"}, Keys: []string{"k"}, Args: []string{"", "ab"}})
			if reply != want.reply || !errors.Is(err, want.err) {
				t.Errorf("%.40q: %.40q, %v", text, reply, err)
			}
			if sent := s.sent.String(); sent != "*4\r\n$4\r\necho\r\n$1\r\nk\r\n$0\r\n\r\n$2\r\nab\r\n" {
				t.Errorf("sent %q", sent)
			}
			if cap(l.in) > maxBuffer {
				t.Errorf("%.40q: a buffer of %d bytes is kept", text, cap(l.in))
			}
		}
	}
}

func TestAScriptThatTheServerLacksIsSentWhole(t *testing.T) {
	s := &stream{pieces: []string{"-NOSCRIPT No matching script.\r\n", "$1\r\nx\r\n"}}
	l := &line{conn: s}
	reply, err := l.run(time.Time{}, &driver.Call{Script: driver.NewScript("test", "return 'x'"), Keys: []string{"k"}})
	if reply != "x" || err != nil {
		t.Errorf("%q, %v", reply, err)
	}
	if sent := s.sent.String(); !strings.HasSuffix(sent, "*4\r\n$4\r\neval\r\n$10\r\nreturn 'x'\r\n$1\r\n1\r\n$1\r\nk\r\n") || strings.Count(sent, "*4\r\n") != 2 {
		t.Errorf("sent %q", sent)
	}
}
