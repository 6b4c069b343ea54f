package resp

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
)

// Sentinel answers as a sentinel would that always says the same. It watches nothing, and takes part in no failover.
type Sentinel struct {
	Masters map[string]string // the masters' addresses, by name
	Fields  []any             // names and values that SENTINEL MASTER returns
}

// Start returns a local address at which s answers until the test ends.
func (s *Sentinel) Start(tb testing.TB) (addr string) {
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
			go func() {
				defer conn.Close()
				requests := bufio.NewReader(conn)
				for {
					request, err := ReadRequest(requests)
					if err != nil {
						return
					}
					if _, err := conn.Write([]byte(s.answer(words(request)))); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// words returns the words of a request, of which the first two are in lower case.
func words(request []byte) (all []string) {
	for i, line := range strings.Split(strings.TrimSuffix(string(request), "\r\n"), "\r\n") {
		if i > 0 && i%2 == 0 {
			all = append(all, line)
		}
	}
	for i := range min(2, len(all)) {
		all[i] = strings.ToLower(all[i])
	}
	return append(all, "", "", "")
}

func (s *Sentinel) answer(words []string) string {
	master, known := s.Masters[words[2]]
	switch {
	case words[0] == "hello":
		return "-ERR unknown command 'HELLO'\r\n"
	case words[0] == "ping":
		return "+PONG\r\n"
	case words[0] != "sentinel":
		return "+OK\r\n"
	case words[1] == "masters":
		all := fmt.Sprintf("*%d\r\n", len(s.Masters))
		for name := range s.Masters {
			all += string(Request("name", name))
		}
		return all
	case words[1] == "get-master-addr-by-name" && !known:
		return "*-1\r\n"
	case !known:
		return "-ERR No such master with that name\r\n"
	case words[1] == "get-master-addr-by-name":
		host, port, _ := net.SplitHostPort(master)
		return string(Request(host, port))
	case words[1] == "master":
		return string(Request(append([]any{"name", words[2]}, s.Fields...)...))
	case words[1] == "ckquorum":
		return "+OK 3 usable Sentinels. Quorum and failover authorization can be reached\r\n"
	}
	return "*0\r\n" // of sentinels, or of replicas
}
