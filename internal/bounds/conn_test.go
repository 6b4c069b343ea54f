package bounds

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
)

// stream is a connection that hears pieces, one by one.
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

// request is a command as clients send it.
func request(words ...string) string {
	var b strings.Builder
	b.WriteString("*" + itoa(len(words)) + "\r\n")
	for _, w := range words {
		b.WriteString("$" + itoa(len(w)) + "\r\n" + w + "\r\n")
	}
	return b.String()
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

// cuts are a text in pieces: whole, by bytes, and cut in two at every place.
func cuts(text string) (all [][]string) {
	all = append(all, []string{text}, strings.Split(text, ""))
	for i := 1; i < len(text) && len(text) < 2000; i++ {
		all = append(all, []string{text[:i], text[i:]})
	}
	return all
}

const ping, pong = "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"

// sub3 confirms a subscription with RESP3, sub2 with RESP2.
const (
	sub3 = ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
	sub2 = "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
	off3 = ">3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n"
	msg3 = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nhello\r\n"
	msg2 = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nhello\r\n"
)

func TestConn(t *testing.T) {
	subscribe := request("SUBSCRIBE", "c")
	for what, c := range map[string]struct {
		sent, replies string
		want          error
	}{
		"every form": {strings.Repeat(ping, 18), pong + "-ERR no\r\n:12\r\n$-1\r\n*-1\r\n$0\r\n\r\n$3\r\na\r\n\r\n*0\r\n*2\r\n*1\r\n:1\r\n$1\r\nx\r\n" +
			"%2\r\n+a\r\n*2\r\n:1\r\n:2\r\n$1\r\nb\r\n%0\r\n~2\r\n#t\r\n_\r\n,1.5\r\n(123456789012345678901234567890\r\n!3\r\nERR\r\n=5\r\ntxt:x\r\n|1\r\n+k\r\n:1\r\n" + pong + "%0\r\n" + pong, nil},
		"pushes between":             {ping + ping, msg3 + pong + msg3 + off3 + pong + msg3, nil},
		"subscribed with RESP3":      {subscribe + ping, sub3 + msg3 + pong + msg3 + off3, nil},
		"subscribed with RESP2":      {subscribe + ping, sub2 + msg2 + "*2\r\n$4\r\npong\r\n$0\r\n\r\n" + msg2, nil},
		"one ends, and another":      {subscribe + request("SUNSUBSCRIBE", "c") + ping, sub3 + off3 + off3 + off3 + pong, nil},
		"the server ends one":        {subscribe + ping, sub3 + off3 + pong, nil},
		"a subscription is refused":  {subscribe + ping, "-NOPERM no\r\n" + pong, nil},
		"a surplus reply":            {ping, pong + pong, errSurplus},
		"one before the request":     {"", pong, errSurplus},
		"a surplus one, subscribed":  {subscribe + ping, sub3 + pong + msg3 + pong, errSurplus},
		"another, with RESP2":        {subscribe + ping, sub2 + "*2\r\n$4\r\npong\r\n$0\r\n\r\n" + msg2 + pong, errSurplus},
		"arrays within arrays":       {ping, strings.Repeat("*1\r\n", 40), errDeep},
		"maps within maps":           {ping, strings.Repeat("%1\r\n+k\r\n", 40), errDeep},
		"pushes of arrays":           {"", strings.Repeat(">1\r\n", 1) + strings.Repeat("*1\r\n", 40), errDeep},
		"attributes of attributes":   {ping, strings.Repeat("|1\r\n+k\r\n", 40), errDeep},
		"a string beyond memory":     {ping, "$99999999999\r\n", errLong},
		"an array beyond memory":     {ping, "*99999999\r\n", errLong},
		"many arrays":                {ping, strings.Repeat("*100000\r\n", 20), errLong},
		"a map beyond numbers":       {ping, "%9223372036854775807\r\n", errLong},
		"a line without an end":      {ping, "+" + strings.Repeat("x", maxLine+1), errLong},
		"a negative length":          {ping, "*-2\r\n", errForm},
		"a length that is no number": {ping, "$x\r\n", errForm},
		"a streamed string":          {ping, "$?\r\n", errForm},
		"a map's key is a list":      {ping, "%1\r\n*0\r\n+v\r\n", errKey},
		"no form":                    {ping, "HTTP/1.1 200 OK\r\n", errForm},
	} {
		t.Run(what, func(t *testing.T) {
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
					t.Fatalf("cut into %d, first of %d: %q, %v", len(pieces), len(pieces[0]), got, err)
				case c.want != nil && (!errors.Is(err, c.want) || !errors.Is(err, ErrProtocol) || !s.closed):
					t.Fatalf("cut into %d, first of %d: %v; want %v", len(pieces), len(pieces[0]), err, c.want)
				}
			}
		})
	}
}

// What is written in two parts counts as one request.
func TestRequestsAreCountedOnce(t *testing.T) {
	text := request("SET", "a\r\n*1\r\n$4\r\nPING\r\n", strings.Repeat("x", 300)) + request("EVALSHA", "s", "1")
	for _, pieces := range cuts(text) {
		s := &stream{}
		c := Wrap(s).(*bounded)
		for _, piece := range pieces {
			_, _ = c.Write([]byte(piece))
		}
		if n := c.awaited.Load(); n != 2 || c.subscribing.Load() {
			t.Fatalf("cut into %d, first of %d: %d requests", len(pieces), len(pieces[0]), n)
		}
	}
}

func BenchmarkConn(b *testing.B) {
	reply, sent, buf := []byte("$60\r\n"+strings.Repeat("x", 60)+"\r\n"), []byte(request("EVALSHA", strings.Repeat("a", 40), "2", "holdfast:{a}", "holdfast:{a}:q", "x", "y")), make([]byte, 4096)
	s := &stream{}
	conn := Wrap(s)
	for b.Loop() {
		_, _ = conn.Write(sent)
		s.pieces = []string{string(reply)}
		_, _ = conn.Read(buf)
	}
}
