//go:build unix

package prompt

import (
	"crypto/tls"
	"net"
	"testing"
	"time"
)

// isClosed sees that the server has closed an idle TLS connection.
func TestIsClosedSeesThroughTLS(t *testing.T) {
	listener, err := tls.Listen("tcp", "127.0.0.1:0", serverConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			err = conn.(*tls.Conn).Handshake()
		}
		if err != nil {
			t.Error(err)
		}
		accepted <- conn
	}()
	conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	server := <-accepted
	if server == nil {
		t.Fatal("no connection")
	}
	if isClosed(conn) {
		t.Error("an open connection is said to be closed")
	}
	_ = server.Close()
	for end := time.Now().Add(time.Minute); !isClosed(conn); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a closed connection is said to be open")
		}
	}
}
