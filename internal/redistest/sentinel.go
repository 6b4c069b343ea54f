package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
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
		words, err := readRequest(requests)
		if err != nil {
			return
		}
		if _, err := io.WriteString(conn, s.answer(append(words, "", "", "")...)); err != nil {
			return
		}
	}
}

// readRequest reads a command whose words have no line feeds.
func readRequest(r *bufio.Reader) (words []string, err error) {
	line := func() string {
		text, failed := r.ReadString('\n')
		if failed != nil {
			err = failed
		}
		return strings.TrimSpace(text)
	}
	count, _ := strconv.Atoi(strings.TrimPrefix(line(), "*"))
	for range count {
		line() // the length
		words = append(words, line())
	}
	return words, err
}

func (s *Sentinel) answer(words ...string) string {
	command, sub, name := strings.ToLower(words[0]), strings.ToLower(words[1]), words[2]
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
	all := fmt.Sprintf("*%d\r\n", len(items))
	for _, item := range items {
		text := fmt.Sprint(item)
		all += fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	}
	return all
}
