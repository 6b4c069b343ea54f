package command

import (
	"bufio"
	"bytes"
	"net"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/resp"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// relay is one connection that passes through something between a client and a server.
type relay struct {
	t       *testing.T
	client  net.Conn
	request func(r *relay, raw []byte) // may change the relay before the request goes on
	reply   func(raw []byte) []byte

	mu     sync.Mutex
	server net.Conn
}

// between starts a listener that passes connections on to target. request and reply, if not nil, see what
// passes; reply may change it, in the chunks in which it arrives.
func between(t *testing.T, target func() string, request func(*relay, []byte), reply func([]byte) []byte) (addr string) {
	return accepting(t, "127.0.0.1", func(client net.Conn) {
		r := &relay{t: t, client: client, request: request, reply: reply}
		if !r.connect(target()) {
			return
		}
		requests := bufio.NewReader(client)
		for {
			raw, err := resp.ReadRequest(requests)
			if err != nil {
				break
			}
			if r.request != nil {
				r.request(r, raw)
			}
			if _, err := r.server.Write(raw); err != nil {
				break
			}
		}
		_ = r.server.Close()
	})
}

// accepting serves connections to a local address until the test ends.
func accepting(t testing.TB, host string, serve func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
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
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// connect connects the relay to another server.
func (r *relay) connect(addr string) bool {
	next, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	r.mu.Lock()
	last := r.server
	r.server = next
	r.mu.Unlock()
	if last != nil {
		_ = last.Close()
	}
	go r.replies(next)
	return true
}

// replies passes on the server's replies, and ends the client's connection with the server's.
func (r *relay) replies(from net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		raw := buffer[:n]
		if r.reply != nil && n > 0 {
			raw = r.reply(raw)
		}
		_, lost := r.client.Write(raw)
		if err != nil || lost != nil {
			break
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server == from {
		_ = r.client.Close()
	}
}

func always(addr string) func() string { return func() string { return addr } }

// Something between the doctor and a server can make that look like another server.
func TestDoctorThroughSomethingElse(t *testing.T) {
	t.Parallel()
	s, other := server.Start(t, server.One(t)), server.Start(t, server.One(t))
	through := func(request func(*relay, []byte), reply func([]byte) []byte) string {
		return "redis://" + between(t, always(s.Addr()), request, reply) + "?protocol=2"
	}
	t.Run("a balancer", func(t *testing.T) {
		if testing.Short() {
			t.Skip("SKIPPED: part of make nightly")
		}
		t.Parallel()
		var turn atomic.Int64
		addr := between(t, func() string { return []string{s.Addr(), other.Addr()}[turn.Add(1)%2] }, nil, nil)
		doctor(t, "redis://"+addr, func(d *diagnosis) {
			if f := d.expect("identity", isProblem, "lead to 2 servers"); f.Consequence != "each of them grants the same lock" {
				d.complain("%+v", f)
			}
		})
	})
	t.Run("a proxy that keeps subscriptions", func(t *testing.T) {
		if testing.Short() {
			t.Skip("SKIPPED: part of make nightly")
		}
		t.Parallel()
		subscribe := []byte("*2\r\n$9\r\nsubscribe\r\n")
		url := through(func(r *relay, raw []byte) {
			if bytes.HasPrefix(raw, subscribe) && !r.connect(other.Addr()) {
				r.t.Error("the other server cannot be reached")
			}
		}, nil)
		doctor(t, url, func(d *diagnosis) {
			d.expect("pubsub", isWarning, "the server does not have it: a proxy keeps it")
		})
	})
	t.Run("a slow way", func(t *testing.T) {
		if testing.Short() {
			t.Skip("SKIPPED: part of make nightly")
		}
		t.Parallel()
		// A lock is acquired and released in 180 ms at least, which is more than a third of the TTL.
		change := regexp.MustCompile(`(?i)^\*\d+\r\n\$\d\r\n(evalsha|delifeq|multi)\r\n`)
		url := through(func(_ *relay, raw []byte) {
			if change.Match(raw) {
				time.Sleep(90 * time.Millisecond)
			}
		}, nil)
		doctor(t, url, func(d *diagnosis) { d.expect("latency", isProblem, "p99") }, "--ttl", "500ms")
	})
	t.Run("a server that answers no more", func(t *testing.T) {
		t.Parallel()
		ping := []byte("*1\r\n$4\r\nping\r\n")
		url := through(func(r *relay, raw []byte) {
			if bytes.HasPrefix(raw, ping) {
				_ = r.server.Close()
			}
		}, nil)
		doctor(t, url, func(d *diagnosis) {
			d.expect("latency", isUnchecked, "PING: ")
			d.expect("trial", isProblem, "PING: ")
		})
	})
	t.Run("an old version", func(t *testing.T) {
		t.Parallel()
		old := regexp.MustCompile(`(\$7\r\nversion\r\n\$\d+\r\n)\d`)
		url := through(nil, func(p []byte) []byte { return old.ReplaceAll(p, []byte("${1}2")) })
		doctor(t, url, func(d *diagnosis) { d.expect("version", isProblem, "or later is needed") })
	})
	t.Run("an unknown server", func(t *testing.T) {
		t.Parallel()
		kind := regexp.MustCompile(`(\$6\r\nserver\r\n\$\d+\r\n)[rv]`) // the first letter of redis or valkey
		url := through(nil, func(p []byte) []byte { return kind.ReplaceAll(p, []byte("${1}b")) })
		doctor(t, url, func(d *diagnosis) {
			d.expect("version", isNote, map[bool]string{true: "balkey", false: "bedis"}[s.Binary().Valkey])
		})
	})
	t.Run("a clock that jumps", func(t *testing.T) {
		t.Parallel()
		now := regexp.MustCompile(`^(\*2\r\n\$10\r\n)(\d{10})`)
		info := regexp.MustCompile(`(?i)^\*\d+\r\n\$4\r\ninfo\r\n`)
		var readings atomic.Int64 // since INFO, which the doctor sends before it checks the clock
		url := through(func(_ *relay, raw []byte) {
			if info.Match(raw) {
				readings.Store(0)
			}
		}, func(p []byte) []byte {
			return now.ReplaceAllFunc(p, func(m []byte) []byte {
				if readings.Add(1) < 12 {
					return m
				}
				seconds, _ := strconv.ParseInt(string(m[len(m)-10:]), 10, 64)
				return strconv.AppendInt(m[:len(m)-10], seconds+100, 10)
			})
		})
		doctor(t, url, func(d *diagnosis) { d.expect("clock", isProblem, "jumped forward by 1m40s") })
	})
}

// A server on another machine should require a password. This one is on this machine, but has the address that
// others use.
func TestDoctorOfAServerWithoutAPassword(t *testing.T) {
	t.Parallel()
	host := ""
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			host = n.IP.String()
		}
	}
	if host == "" {
		t.Skip("SKIPPED: this machine has no address for others; the doctor's own tests have a simulated one")
	}
	s := server.Start(t, server.One(t))
	addr := accepting(t, host, func(client net.Conn) {
		r := &relay{t: t, client: client}
		if r.connect(s.Addr()) {
			_, _ = bufio.NewReader(client).WriteTo(r.server)
			_ = r.server.Close()
		}
	})
	doctor(t, "redis://"+addr, func(d *diagnosis) {
		d.consequence(d.expect("password", isWarning, "not required"), "anybody who reaches the server")
		d.expect("transport", isWarning, "not encrypted")
	})
	order(t, s, "ACL", "SETUSER", "locks", "on", ">"+canary, "~*", "&*", "+@all")
	order(t, s, "CONFIG", "SET", "requirepass", canary)
	doctor(t, "redis://locks:"+canary+"@"+addr, func(d *diagnosis) {
		d.expect("password", isOK, "required")
		d.expect("transport", isWarning, "a password is sent")
	})
}
