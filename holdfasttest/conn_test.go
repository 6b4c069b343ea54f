package holdfasttest_test

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/holdfasttest"
)

// connected calls f, in a bubble, with a connection to a server, and with one that goes through a Client's network.
func connected(t *testing.T, f func(t *testing.T, srv *holdfasttest.Server, conn net.Conn)) {
	t.Helper()
	dial := map[string]func(*testing.T, *holdfasttest.Server) (net.Conn, error){
		"server": func(t *testing.T, srv *holdfasttest.Server) (net.Conn, error) { return srv.Dial(t.Context(), "", "") },
		"client": func(t *testing.T, srv *holdfasttest.Server) (net.Conn, error) {
			return srv.NewClient(t, nil).Dial(t.Context(), "", "")
		},
	}
	for of, dial := range dial {
		t.Run(of, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := holdfasttest.Run(t)
				conn, err := dial(t, srv)
				must(t, err)
				defer conn.Close()
				f(t, srv, conn)
			})
		})
	}
}

const ping = "*1\r\n$4\r\nPING\r\n"

// A client sends many requests, one by one, before it reads the replies.
func TestRequestsBeforeTheirReplies(t *testing.T) {
	connected(t, func(t *testing.T, _ *holdfasttest.Server, conn net.Conn) {
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		const n = 5000
		for range n {
			must(t, errOf(io.WriteString(conn, ping)))
		}
		replies := make([]byte, n*len("+PONG\r\n"))
		if _, err := io.ReadFull(conn, replies); err != nil || string(replies) != strings.Repeat("+PONG\r\n", n) {
			t.Errorf("%.50q, %v", replies, err)
		}
	})
}

// A subscriber that reads nothing holds up nobody.
func TestASubscriberThatReadsNothing(t *testing.T) {
	connected(t, func(t *testing.T, srv *holdfasttest.Server, conn net.Conn) {
		must(t, errOf(io.WriteString(conn, "*2\r\n$9\r\nSUBSCRIBE\r\n$4\r\nnews\r\n")))
		publisher, err := srv.Dial(t.Context(), "", "")
		must(t, err)
		defer publisher.Close()
		_ = publisher.SetDeadline(time.Now().Add(time.Second))
		reply := make([]byte, len(":1\r\n"))
		for range 3000 {
			must(t, errOf(io.WriteString(publisher, "*3\r\n$7\r\nPUBLISH\r\n$4\r\nnews\r\n$1\r\nx\r\n")))
			must(t, errOf(io.ReadFull(publisher, reply)))
		}
	})
}

// Reads and writes have deadlines, which can be set while a read waits.
func TestDeadlines(t *testing.T) {
	connected(t, func(t *testing.T, _ *holdfasttest.Server, conn net.Conn) {
		begun := time.Now()
		wait := func(want time.Duration) {
			t.Helper()
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != want {
				t.Errorf("Read: %v, after %s, want after %s", err, time.Since(begun), want)
			}
		}
		_ = conn.SetReadDeadline(begun.Add(time.Second))
		wait(time.Second)
		wait(time.Second)
		_ = conn.SetReadDeadline(begun.Add(time.Hour))
		time.AfterFunc(time.Second, func() { _ = conn.SetReadDeadline(begun.Add(3 * time.Second)) })
		wait(3 * time.Second)
		_ = conn.SetDeadline(begun)
		wantErr(t, "Write", errOf(io.WriteString(conn, ping)), os.ErrDeadlineExceeded)
		_ = conn.SetDeadline(time.Time{})
		wantErr(t, "Write", errOf(io.WriteString(conn, ping)), nil)
		reply := make([]byte, 100)
		if n, err := conn.Read(reply); err != nil || string(reply[:n]) != "+PONG\r\n" {
			t.Errorf("Read: %q, %v", reply[:n], err)
		}
		_ = conn.Close()
		wantErr(t, "Read", errOf(conn.Read(reply)), net.ErrClosed)
		wantErr(t, "Write", errOf(conn.Write(reply)), net.ErrClosed)
	})
}
