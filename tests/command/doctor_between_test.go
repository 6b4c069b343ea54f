package command

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/resp"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// accepting serves connections to a local address until the test ends.
func accepting(t testing.TB, serve func(net.Conn)) (addr string) {
	t.Helper()
	l := expect.Of(net.Listen("tcp", "127.0.0.1:0")).OK(t)
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

// answering serves connections on which each request gets this answer.
func answering(t testing.TB, answer string) (addr string) {
	return accepting(t, func(client net.Conn) {
		for requests := bufio.NewReader(client); ; {
			if _, err := resp.ReadRequest(requests); err != nil {
				return
			}
			if _, err := io.WriteString(client, answer); err != nil {
				return
			}
		}
	})
}

// repeating is the answer of a server that knows no command, and repeats the first 128 characters of the password, as servers do.
func repeating(password string) string {
	return fmt.Sprintf("-ERR unknown \x1b[31m\a\u202e command 'HELLO', with args beginning with: '3' 'AUTH' '%.128s'\r\n", password)
}

// between passes connections on to target. request and reply, if not nil, see what passes, and return what is passed on; replies in the
// chunks in which they arrive.
func between(
	t *testing.T, target func() string, request func(client net.Conn, raw []byte) []byte, reply func([]byte) []byte,
) (addr string) {
	return accepting(t, func(client net.Conn) {
		server, err := net.Dial("tcp", target())
		if err != nil {
			return
		}
		defer server.Close()
		go func() {
			defer client.Close()
			for buffer := make([]byte, 64<<10); ; {
				n, err := server.Read(buffer)
				raw := buffer[:n]
				if reply != nil && n > 0 {
					raw = reply(raw)
				}
				if _, lost := client.Write(raw); err != nil || lost != nil {
					return
				}
			}
		}()
		for requests := bufio.NewReader(client); ; {
			raw, err := resp.ReadRequest(requests)
			if err != nil {
				return
			}
			if request != nil {
				raw = request(client, raw)
			}
			if _, err := server.Write(raw); err != nil {
				return
			}
		}
	})
}

// Something between the doctor and a server can make that look like another server.
func TestDoctorThroughSomethingElse(t *testing.T) {
	long(t)
	s, other := server.Start(t, server.One(t)), server.Start(t, server.One(t))
	one := func() string { return s.Addr() }
	var turn atomic.Int64
	subscribe := []byte("*2\r\n$9\r\nsubscribe\r\n")
	change := regexp.MustCompile(`(?i)^\*\d+\r\n\$\d\r\n(evalsha|delifeq|multi)\r\n`)
	old := regexp.MustCompile(`(\$7\r\nversion\r\n\$\d+\r\n)\d`)
	kind := regexp.MustCompile(`(\$6\r\nserver\r\n\$\d+\r\n)[rv]`) // the first letter of redis or valkey
	for what, c := range map[string]struct {
		addr  string
		judge func(d *diagnosis)
		flags []string
	}{
		"a balancer": {
			addr: between(t, func() string { return []string{s.Addr(), other.Addr()}[turn.Add(1)%2] }, nil, nil),
			judge: func(d *diagnosis) {
				if f := d.expect("identity", isProblem, "lead to 2 servers"); f.Consequence != "each of them grants the same lock" {
					d.complain("%+v", f)
				}
			},
		},
		"a proxy that keeps subscriptions": {
			addr: between(t, one, func(client net.Conn, raw []byte) []byte {
				channel, is := bytes.CutPrefix(raw, subscribe)
				if !is {
					return raw
				}
				_, _ = fmt.Fprintf(client, "*3\r\n$9\r\nsubscribe\r\n%s:1\r\n", channel)
				return nil
			}, nil),
			judge: func(d *diagnosis) { d.expect("pubsub", isWarning, "the server does not have it: a proxy keeps it") },
		},
		"a slow way": { // A lock is acquired and released in 180 ms at least, which is more than a third of the TTL.
			addr: between(t, one, func(_ net.Conn, raw []byte) []byte {
				if change.Match(raw) {
					time.Sleep(90 * time.Millisecond)
				}
				return raw
			}, nil),
			judge: func(d *diagnosis) { d.expect("latency", isProblem, "p99") },
			flags: []string{"--ttl", "500ms"},
		},
		"an old version": {
			addr:  between(t, one, nil, func(p []byte) []byte { return old.ReplaceAll(p, []byte("${1}2")) }),
			judge: func(d *diagnosis) { d.expect("version", isProblem, "or later is needed") },
		},
		"an unknown server": {
			addr: between(t, one, nil, func(p []byte) []byte { return kind.ReplaceAll(p, []byte("${1}b")) }),
			judge: func(d *diagnosis) {
				d.expect("version", isNote, map[bool]string{true: "balkey", false: "bedis"}[s.Binary().Valkey])
			},
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			doctor(t, "redis://"+c.addr+"?protocol=2", c.judge, c.flags...)
		})
	}
}

// Whatever a server says, the report's texts can be printed, and its errors show no part of a password that
// they repeat.
func TestDoctorReportsWhatServersSayEscaped(t *testing.T) {
	t.Parallel()
	password := strings.Repeat(canary+"-", 16)
	s := server.Start(t, server.One(t), server.Conf("requirepass", password))
	addr := between(t, func() string { return s.Addr() }, func(client net.Conn, raw []byte) []byte {
		if !bytes.Contains(raw, []byte("\r\nconfig\r\n")) {
			return raw
		}
		_, _ = io.WriteString(client, repeating(password))
		return nil
	}, nil)
	doctor(t, "redis://default:"+password+"@"+addr, func(d *diagnosis) {
		d.expect("persistence", isWarning, `snapshots unknown (CONFIG GET: ERR unknown \x1b[31m\a\u202e command`)
		for _, f := range d.Findings {
			if text := f.Saw + f.Consequence + f.Remedy; strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				d.complain("%s: it is shown as %q", f.ID, text)
			}
		}
	})
}

// Fault: A server announces a reply for which go-redis would allocate gigabytes. The command closes the connection.
func TestRepliesThatDoNotFitInMemory(t *testing.T) {
	t.Parallel()
	addr := answering(t, "*2000000\r\n") // few enough for a command that takes them
	for _, args := range [][]string{{"doctor"}, {"run", "--wait=1s", "x", "--", "true"}, {"ls"}, {"ls", "--redis=redis+cluster://" + addr}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			code, _, stderr := invoke(t, []string{"HOLDFAST_REDIS=redis://" + addr}, args...)
			if code != 69 || !strings.Contains(stderr, "length exceeds the limit") {
				t.Errorf("exit code %d: %s", code, stderr)
			}
		})
	}
}
