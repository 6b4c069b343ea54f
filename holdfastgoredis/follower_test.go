package holdfastgoredis

import (
	"context"
	"net"
	"runtime"
	"testing"
	"time"
)

// If a master does not answer HELLO, go-redis before 9.23 forgets the connection without closing it. The follower lets the garbage
// collector close it.
func TestAFollowerLetsGoOfForgottenConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	f := newFollower(&adapter{}, func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, l.Addr().String())
	})
	f.watching = true // so that no goroutine looks for the master
	if _, err := f.dial(t.Context(), "tcp", ""); err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = peer.Close() }()
	closed := make(chan error)
	go func() {
		_, err := peer.Read(make([]byte, 1))
		closed <- err
	}()
	for limit := time.After(time.Minute); ; {
		runtime.GC()
		select {
		case <-closed:
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.isInUse() {
				t.Error("the follower still counts the connection")
			}
			return
		case <-limit:
			t.Fatal("the connection is still open")
		case <-time.After(time.Millisecond):
		}
	}
}
