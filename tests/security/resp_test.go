package security

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/resp"
)

// answering starts a server that answers the handshake properly, and every script with the same bytes. If they
// are not a whole reply, the client waits for more, or the connection is closed.
func answering(t *testing.T, reply string, hangUp bool) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Error(err)
		return "nowhere"
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for r := bufio.NewReader(conn); ; {
					raw, err := resp.ReadRequest(r)
					if err != nil {
						return
					}
					answer := "+OK\r\n"
					switch request := strings.ToLower(string(raw)); {
					case strings.Contains(request, "\r\nhello\r\n"):
						answer = string(resp.Request("server", "redis", "version", "7.0.0", "mode", "standalone"))
					case strings.Contains(request, "\r\ntime\r\n"):
						answer = string(resp.Request(time.Now().Unix(), 0))
					case strings.Contains(request, "\r\neval"):
						answer = reply
					}
					if _, err := conn.Write([]byte(answer)); err != nil || hangUp && answer == reply {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// Fault: Replies have any type, are malformed, or are cut short. No panic, no hang, and no lease.
func TestRepliesOfAnyForm(t *testing.T) {
	cfg := holdfast.Config{CommandTimeout: 200 * time.Millisecond, RetryTimeout: 200 * time.Millisecond}
	before := heap() // of other tests' clients, which keep all commands of their servers
	var wg sync.WaitGroup
	for i, reply := range []string{
		"+OK\r\n", "+\r\n", "+granted 1 2\r\n", ":7\r\n", ":-9223372036854775809\r\n", "$-1\r\n", "$0\r\n\r\n", "$-5\r\n", "$x\r\n", "*-1\r\n", "*0\r\n", "*-7\r\n",
		"*2\r\n$1\r\na\r\n:1\r\n", "_\r\n", "#t\r\n", ",inf\r\n", ",nan\r\n", "(99999999999999999999999999\r\n", "%1\r\n+a\r\n+b\r\n", "~1\r\n+a\r\n", ">1\r\n+a\r\n",
		"!10\r\nBUSY \x1b[2Jx\r\n", "=7\r\ntxt:abc\r\n", "=2\r\nab\r\n", "|1\r\n+a\r\n+b\r\n+OK\r\n", "-\r\n", "-\x1b]0;x\x07\r\n", "-NOPERM \xff\u202e\r\n", "-MOVED 1 \r\n", "-ASK 99999 x:1\r\n",
		"-NOSCRIPT \r\n", "\r\n", "\n", "\x00\xff\xfe\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", "$10\r\nab", "*3\r\n+a\r\n", "+never ends", "", "-" + strings.Repeat("E", 5_000_000) + "\r\n",
		"$10000000\r\nerror " + strings.Repeat("\x1b", 9_999_994) + "\r\n", "$5000000\r\nheld 1700000000000000 1 1 " + strings.Repeat("v", 4_999_973) + "\r\n",
	} {
		for _, hangUp := range []bool{false, true} {
			wg.Go(func() { // they mostly wait
				what := fmt.Sprintf("%d, %.40q, hanging up %v", i, reply, hangUp)
				rdb := redis.NewClient(&redis.Options{Addr: answering(t, reply, hangUp), ReadTimeout: 200 * time.Millisecond, DialerRetries: 1})
				t.Cleanup(func() { _ = rdb.Close() })
				c, err := holdfastgoredis.New(rdb, &cfg)
				if err != nil {
					t.Error(err)
					return
				}
				defer func() {
					ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
					defer cancel()
					_ = c.Close(ctx) // background requests get large replies, too
				}()
				began := time.Now()
				_, err = c.Mutex("a").TryAcquire(t.Context())
				switch {
				case err != nil:
					presentable(t, what, err)
				default:
					t.Errorf("%s is a lock", what)
				}
				if took := time.Since(began); took > 2*time.Minute { // it ends by itself, not with a context
					t.Errorf("%s took %s\n%s", what, took, machine.Report(began))
				}
			})
		}
	}
	wg.Wait()
	backend.Eventually(t, "no more than 100 MB are kept", func() bool { return heap() <= before+100<<20 })
}

// heap returns how much memory is in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
