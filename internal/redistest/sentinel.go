package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// Sentinel is a fake sentinel with fixed answers.
type Sentinel struct {
	Masters map[string]string // the masters' addresses, by name
	Fields  []any             // further names and values that SENTINEL MASTER returns
	Denies  bool              // every request is refused for want of a password
}

// Listen returns a local address at which s answers until the test ends.
func (s *Sentinel) Listen(tb testing.TB) (addr string) {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.Serve(conn)
		}
	}()
	return listener.Addr().String()
}

// Serve answers the requests on a connection until it ends.
func (s *Sentinel) Serve(conn net.Conn) {
	defer conn.Close()
	requests := bufio.NewReader(conn)
	for {
		request, err := resp.Read(requests)
		words, is := request.([]any)
		if err != nil || !is {
			return
		}
		if _, err := io.WriteString(conn, s.answer(append(words, "", "", ""))); err != nil {
			return
		}
	}
}

func (s *Sentinel) answer(words []any) string {
	name := fmt.Sprint(words[2])
	command, sub := strings.ToLower(fmt.Sprint(words[0])), strings.ToLower(fmt.Sprint(words[1]))
	addr, known := s.Masters[name]
	switch {
	case s.Denies:
		return "-NOAUTH Authentication required.\r\n"
	case command == "hello":
		return "-ERR unknown command 'HELLO'\r\n" // so that clients use RESP2
	case command == "ping":
		return "+PONG\r\n"
	case command != "sentinel":
		return "+OK\r\n"
	case sub == "masters":
		all := fmt.Sprintf("*%d\r\n", len(s.Masters))
		for name := range s.Masters {
			all += list("name", name)
		}
		return all
	case sub == "get-master-addr-by-name" && !known:
		return "*-1\r\n"
	case !known:
		return "-ERR No such master with that name\r\n"
	case sub == "get-master-addr-by-name":
		host, port, _ := net.SplitHostPort(addr)
		return list(host, port)
	case sub == "master":
		return list(append([]any{"name", name}, s.Fields...)...)
	case sub == "ckquorum":
		return "+OK 3 usable Sentinels. Quorum and failover authorization can be reached\r\n"
	}
	return "*0\r\n" // of sentinels, or of replicas
}

// list returns an array of bulk strings.
func list(items ...any) string {
	words := make([]string, len(items))
	for i, item := range items {
		words[i] = fmt.Sprint(item)
	}
	return string(resp.Append(nil, words...))
}
