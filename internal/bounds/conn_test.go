package bounds

import (
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// stream is a connection whose reads return the pieces one by one.
type stream struct {
	net.Conn
	pieces []string
	closed bool
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

func (s *stream) Write(p []byte) (int, error) { return len(p), nil }
func (s *stream) Close() error                { s.closed = true; return nil }

func request(words ...string) string {
	var b strings.Builder
	b.WriteString("*" + strconv.Itoa(len(words)) + "\r\n")
	for _, w := range words {
		b.WriteString("$" + strconv.Itoa(len(w)) + "\r\n" + w + "\r\n")
	}
	return b.String()
}

// cuts returns text whole, split into bytes, and, if it is short, cut in two at every place.
func cuts(text string) (all [][]string) {
	all = append(all, []string{text}, strings.Split(text, ""))
	for i := 1; i < len(text) && len(text) < 2000; i++ {
		all = append(all, []string{text[:i], text[i:]})
	}
	return all
}

const ping, pong = "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"

// What a server sends on a subscribed connection, in RESP3 and in RESP2.
const (
	sub3 = ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
	sub2 = "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
	off3 = ">3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n"
	msg3 = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nhello\r\n"
	msg2 = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nhello\r\n"
)

func TestViolationsCloseTheConnection(t *testing.T) {
	subscribe := request("SUBSCRIBE", "c")
	for name, c := range map[string]struct {
		sent, replies string
		want          error
	}{
		"every type of reply": {strings.Repeat(ping, 18), pong + "-ERR no\r\n:12\r\n$-1\r\n*-1\r\n$0\r\n\r\n$3\r\na\r\n\r\n*0\r\n*2\r\n*1\r\n:1\r\n$1\r\nx\r\n" +
			"%2\r\n+a\r\n*2\r\n:1\r\n:2\r\n$1\r\nb\r\n%0\r\n~2\r\n#t\r\n_\r\n,1.5\r\n(123456789012345678901234567890\r\n!3\r\nERR\r\n=5\r\ntxt:x\r\n|1\r\n+k\r\n:1\r\n" + pong + "%0\r\n" + pong, nil},
		"pushes between replies":      {ping + ping, msg3 + pong + msg3 + off3 + pong + msg3, nil},
		"subscribed in RESP3":         {subscribe + ping, sub3 + msg3 + pong + msg3 + off3, nil},
		"subscribed in RESP2":         {subscribe + ping, sub2 + msg2 + "*2\r\n$4\r\npong\r\n$0\r\n\r\n" + msg2, nil},
		"subscription refused":        {subscribe, "-NOPERM no\r\n", nil},
		"surplus reply":               {ping, pong + pong, errSurplus},
		"reply before any request":    {"", pong, errSurplus},
		"nested arrays":               {ping, strings.Repeat("*1\r\n", 40), errDeep},
		"nested maps":                 {ping, strings.Repeat("%1\r\n+k\r\n", 40), errDeep},
		"nested arrays in a push":     {"", strings.Repeat(">1\r\n", 1) + strings.Repeat("*1\r\n", 40), errDeep},
		"nested attributes":           {ping, strings.Repeat("|1\r\n+k\r\n", 40), errDeep},
		"string larger than memory":   {ping, "$99999999999\r\n", errLong},
		"array larger than memory":    {ping, "*99999999\r\n", errLong},
		"many arrays":                 {ping, strings.Repeat("*100000\r\n", 20), errLong},
		"map whose length overflows":  {ping, "%9223372036854775807\r\n", errLong},
		"endless line":                {ping, "+" + strings.Repeat("x", maxLine+1), errLong},
		"negative length":             {ping, "*-2\r\n", errForm},
		"length that is not a number": {ping, "$x\r\n", errForm},
		"streamed string":             {ping, "$?\r\n", errForm},
		"map key that is an array":    {ping, "%1\r\n*0\r\n+v\r\n", errKey},
		"reply of another protocol":   {ping, "HTTP/1.1 200 OK\r\n", errForm},
	} {
		t.Run(name, func(t *testing.T) {
			for _, pieces := range cuts(c.replies) {
				s := &stream{pieces: slices.Clone(pieces)}
				conn := Wrap(s)
				for _, piece := range []string{c.sent[:len(c.sent)/2], c.sent[len(c.sent)/2:]} {
					if _, err := conn.Write([]byte(piece)); err != nil {
						t.Fatal(err)
					}
				}
				got, err := io.ReadAll(conn)
				switch {
				case c.want == nil && (err != nil || string(got) != c.replies || s.closed):
					t.Fatalf("%d pieces, the first of %d bytes: read %q, %v", len(pieces), len(pieces[0]), got, err)
				case c.want != nil && (!errors.Is(err, c.want) || !errors.Is(err, ErrProtocol) || !s.closed):
					t.Fatalf("%d pieces, the first of %d bytes: %v; want %v", len(pieces), len(pieces[0]), err, c.want)
				}
			}
		})
	}
}

func TestARequestWrittenInPiecesCountsOnce(t *testing.T) {
	text := request("SET", "a\r\n*1\r\n$4\r\nPING\r\n", strings.Repeat("x", 300)) + request("EVALSHA", "s", "1")
	for _, pieces := range cuts(text) {
		s := &stream{}
		c := Wrap(s).(*bounded)
		for _, piece := range pieces {
			_, _ = c.Write([]byte(piece))
		}
		if n := c.awaited.Load(); n != 2 {
			t.Fatalf("%d pieces, the first of %d bytes: %d requests, want 2", len(pieces), len(pieces[0]), n)
		}
	}
}
