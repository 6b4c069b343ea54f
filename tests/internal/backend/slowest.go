package backend

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
)

// slowest remembers which requests of a client were answered late or are not answered yet, for the log of a
// test that fails.
type slowest struct {
	began time.Time

	mu      sync.Mutex
	pending map[*request]struct{}
	done    []*request // the slowest ones, slowest first
}

// request is a command, or a pipeline named by its first command, that was sent when no other request on the
// connection was unanswered.
type request struct {
	what   string
	sent   time.Time
	took   time.Duration
	closed bool // the connection was closed before an answer came
}

// remembered is how many requests are logged.
const remembered = 5

// reported is how many clients of a test have their requests logged. A test may have thousands.
const reported = 5

// reports counts the clients that were logged, by the name of the test.
var reports sync.Map

// tellSlowest returns a recorder of a client's slowest requests, and logs them if the test fails.
func tellSlowest(tb testing.TB) *slowest {
	s := &slowest{began: time.Now(), pending: map[*request]struct{}{}}
	tb.Cleanup(func() {
		if !tb.Failed() {
			return
		}
		count, _ := reports.LoadOrStore(tb.Name(), new(atomic.Int32))
		if n := count.(*atomic.Int32).Add(1); n <= reported {
			tb.Log(s.report())
		} else if n == reported+1 {
			tb.Log("and of its other clients")
		}
	})
	return s
}

// dialer returns a dialer whose connections are watched.
func (s *slowest) dialer(dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		r := s.start("dial " + addr)
		conn, err := dial(ctx, network, addr)
		s.end(r, err != nil)
		if err != nil {
			return nil, err
		}
		return &watched{Conn: conn, slowest: s}, nil
	}
}

// watched is a connection whose requests are timed.
type watched struct {
	net.Conn
	slowest *slowest

	mu      sync.Mutex
	pending *request
}

func (c *watched) Write(p []byte) (int, error) {
	c.mu.Lock()
	if c.pending == nil {
		c.pending = c.slowest.start(describe(p))
	}
	c.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *watched) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.settle(false)
	}
	return n, err
}

func (c *watched) Close() error {
	c.settle(true)
	return c.Conn.Close()
}

func (c *watched) settle(closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending != nil {
		c.slowest.end(c.pending, closed)
		c.pending = nil
	}
}

func (s *slowest) start(what string) *request {
	r := &request{what: what, sent: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending[r] = struct{}{}
	return r
}

func (s *slowest) end(r *request, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.took, r.closed = time.Since(r.sent), closed
	delete(s.pending, r)
	i, _ := slices.BinarySearchFunc(s.done, r, func(a, b *request) int { return cmp.Compare(b.took, a.took) })
	if i < remembered {
		s.done = slices.Insert(s.done, i, r)
		s.done = s.done[:min(len(s.done), remembered)]
	}
}

func (s *slowest) report() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var text strings.Builder
	text.WriteString("the slowest requests of this client:")
	at := func(r *request) string {
		return fmt.Sprintf("sent at +%v: %s", r.sent.Sub(s.began).Round(time.Millisecond), r.what)
	}
	for _, r := range s.done {
		how := "answered"
		if r.closed {
			how = "closed unanswered"
		}
		fmt.Fprintf(&text, "\n  %s after %v, %s", how, r.took.Round(10*time.Microsecond), at(r))
	}
	unanswered := 0
	for r := range s.pending {
		if unanswered++; unanswered <= remembered {
			fmt.Fprintf(&text, "\n  not answered for %v, %s", time.Since(r.sent).Round(time.Millisecond), at(r))
		}
	}
	return text.String()
}

// describe names the first command of a request, and the first key of a script or another command. It shows
// nothing else, which may be a token or a password.
func describe(p []byte) string {
	words := firstWords(p, 4)
	if len(words) == 0 {
		return fmt.Sprintf("%d bytes", len(p))
	}
	switch command := strings.ToUpper(words[0]); {
	case command == "AUTH" || command == "HELLO" || len(words) == 1:
		return command
	case command == "EVAL" || command == "EVALSHA":
		what := command
		if i := slices.IndexFunc(scripts, func(s script.Script) bool { return s.SHA1 == words[1] || s.Source == words[1] }); i >= 0 {
			what = scripts[i].Name
		}
		if len(words) > 3 && words[2] != "0" {
			what += " " + words[3]
		}
		return what
	default:
		return command + " " + words[1]
	}
}

// firstWords returns up to n words of the first command in p, an array of bulk strings.
func firstWords(p []byte, n int) (words []string) {
	header, p, ok := bytes.Cut(p, []byte("\r\n"))
	if !ok || len(header) == 0 || header[0] != '*' {
		return nil
	}
	count, _ := strconv.Atoi(string(header[1:]))
	for range min(count, n) {
		header, p, ok = bytes.Cut(p, []byte("\r\n"))
		if !ok || len(header) == 0 || header[0] != '$' {
			return words
		}
		size, err := strconv.Atoi(string(header[1:]))
		if err != nil || size < 0 || size+2 > len(p) {
			return words
		}
		words = append(words, string(p[:size]))
		p = p[size+2:]
	}
	return words
}

// scripts are the scripts by whose names requests are described.
var scripts = script.All()
