package behaviour

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: A proxy before the server refuses transactions, or closes the connection. Locks are acquired by scripts, and the log says so once.
func TestAProxyWithoutTransactions(t *testing.T) {
	// refusal makes a request of a command that the server answers with that error.
	refusal := func(text string) []byte {
		source := fmt.Sprintf("return redis.error_reply('%s')", text)
		return fmt.Appendf(nil, "*3\r\n$4\r\nEVAL\r\n$%d\r\n%s\r\n$1\r\n0\r\n", len(source), source)
	}
	for what, refuses := range map[string]func(request []byte) []byte{
		"closes":      func([]byte) []byte { return nil },
		"knows no":    func(r []byte) []byte { return withoutTransaction(r, refusal("ERR unknown command")) },
		"supports no": func(r []byte) []byte { return withoutTransaction(r, refusal("ERR transactions are unsupported")) },
	} {
		t.Run(what, func(t *testing.T) {
			s := server.Start(t, server.One(t))
			p := proxy.New(t, s.Addr())
			var tried atomic.Int64
			p.Filter(func(request []byte) []byte {
				if !bytes.Contains(request, []byte("\r\nMULTI\r\n")) {
					return request
				}
				tried.Add(1)
				return refuses(request)
			})
			var log journal
			c := backend.Open(t, log.config(), &redis.Options{Addr: p.Addr()})
			l := c.Mutex("a")
			for range 20 {
				backend.Release(t, backend.Acquire(t, l))
			}
			most := int64(1)
			if what == "closes" { // the first time it might be an accident
				most = 2
			}
			expect.Equal(t, "transactions", tried.Load(), most)
			if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "transactions") {
				t.Errorf("%d warnings:\n%s", n, log.String())
			}
			expect.Of(s.Do("EXISTS", "holdfast:{a}")).Is(t, "keys of the lock that are left", int64(0))
		})
	}
}

// withoutTransaction replaces the MULTI and the EXEC of a request.
func withoutTransaction(request, by []byte) []byte {
	for _, command := range []string{"MULTI", "EXEC"} {
		request = bytes.ReplaceAll(request, fmt.Appendf(nil, "*1\r\n$%d\r\n%s\r\n", len(command), command), by)
	}
	return request
}

// A transaction that is carried out, and of which a command fails, is no sign of a server without transactions.
func TestATransactionWithoutAFence(t *testing.T) {
	s := server.Start(t, server.One(t))
	p := proxy.New(t, s.Addr())
	var tried atomic.Int64
	p.Filter(func(request []byte) []byte {
		if bytes.Contains(request, []byte("\r\nMULTI\r\n")) {
			tried.Add(1)
		}
		// As if the stream took no later id.
		return bytes.ReplaceAll(request, []byte("\r\n$1\r\n*\r\n$1\r\ng\r\n"), []byte("\r\n$3\r\n0-0\r\n$1\r\ng\r\n"))
	})
	var log journal
	l := backend.Open(t, log.config(), &redis.Options{Addr: p.Addr()}).Mutex("a")
	for range 3 {
		backend.Release(t, backend.Acquire(t, l))
	}
	expect.Equal(t, "transactions", tried.Load(), 3)
	if strings.Contains(log.String(), "transactions") {
		t.Errorf("warnings:\n%s", log.String())
	}
}

// Who may run scripts by their source and not by their digest, or the other way, acquires no lock that could not be renewed.
func TestAUserWhoMayRunHalfOfTheScripts(t *testing.T) {
	for _, lacks := range []string{"evalsha", "eval"} {
		t.Run(lacks, func(t *testing.T) {
			s := server.Start(t, server.One(t))
			expect.OK(t, expect.ErrOf(s.Do("ACL", "SETUSER", "somebody", "on", ">secret", "~*", "&*", "+@all", "-"+lacks)))
			l := backend.Open(t, nil, &redis.Options{Addr: s.Addr(), Username: "somebody", Password: "secret"}).Mutex("a")
			_, err := l.TryAcquire(t.Context())
			if !errors.Is(err, holdfast.ErrDenied) || !strings.Contains(err.Error(), "'"+lacks+"'") || !strings.Contains(err.Error(), "docs/SECURITY.md") {
				t.Errorf("%v", err)
			}
			expect.Of(s.Do("EXISTS", "holdfast:{a}")).Is(t, "keys of the lock that are left", int64(0))
		})
	}
}
