package adapters

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// spoiled is a connection on which something unexpected follows the server's next reply.
type spoiled struct {
	net.Conn
	next    *atomic.Pointer[string]
	forever string // repeated endlessly
}

func (c *spoiled) Read(p []byte) (int, error) {
	if c.forever != "" {
		return copy(p, c.forever), nil
	}
	n, err := c.Conn.Read(p)
	if text := c.next.Load(); err == nil && text != nil && n+len(*text) <= len(p) && c.next.CompareAndSwap(text, nil) {
		if !strings.HasPrefix(*text, "+") {
			c.forever = *text
		}
		n += copy(p[n:], *text)
	}
	return n, err
}

// If a server sends what no client library can handle, a reply that nobody asked for or endlessly nested
// arrays, only the connection ends.
func TestAServerCannotEndTheProgram(t *testing.T) {
	each(t, func(t *testing.T, a adapter) {
		for what, text := range map[string]string{
			"a surplus reply":      "+OK\r\n",
			"arrays within arrays": strings.Repeat("*1\r\n", 16),
		} {
			t.Run(what, func(t *testing.T) {
				s := server.Start(t, server.One(t))
				var trap atomic.Pointer[string]
				d := a.single(t, 3, func(ctx context.Context) (net.Conn, error) {
					conn, err := to(s.Addr())(ctx)
					if err != nil {
						return nil, err
					}
					return &spoiled{Conn: conn, next: &trap}, nil
				})
				t.Cleanup(func() { _ = d.Close() })
				script := driver.NewScript("test", "return 'x'")
				eval := func() bool {
					reply, err := d.Run(t.Context(), driver.Call{Script: script, Keys: []string{"k"}, Urgent: true})
					if err == nil && reply != "x" {
						t.Errorf("the reply is %q", reply)
					}
					return err == nil
				}
				for range 3 {
					backend.Eventually(t, "scripts are answered", eval)
					trap.Store(&text)
					eval() // it is answered, or not
					backend.Eventually(t, "the reply is spoiled", func() bool { return eval() && trap.Load() == nil })
				}
				// Subscriptions have connections of their own.
				u := newUps()
				defer d.Subscribe(u.of("holdfast:c:x", false))()
				next(t, u.up)
				trap.Store(&text)
				for range 2 { // a spoiled connection is opened again
					_, _ = s.Do("PUBLISH", "holdfast:c:x", "hello")
					eval()
				}
				backend.Eventually(t, "the subscription is there", func() bool {
					_, _ = s.Do("PUBLISH", "holdfast:c:x", "again")
					select {
					case <-u.messages:
						return trap.Load() == nil && len(deaf(t, s, "NUMSUB", "holdfast:c:x")) == 0
					default:
						return false
					}
				})
			})
		}
	})
}
