package adapter

import (
	"context"
	"crypto/tls"
	"net"
	"runtime"
	"testing"
	"time"
)

// If a server does not answer HELLO, go-redis before 9.23 forgets the connection without closing it. The garbage collector closes it.
func TestForgottenConnectionsAreClosed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	d := New(Library{Dial: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", addr)
	}})
	if _, err := d.dial(d.era())(t.Context(), l.Addr().String(), &net.Dialer{}, nil); err != nil {
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
	count := func() int {
		d.conns.mu.Lock()
		defer d.conns.mu.Unlock()
		return len(d.conns.all)
	}
	for began, over := time.Now(), false; !over || count() > 0; {
		runtime.GC()
		select {
		case <-closed:
			over = true
		case <-time.After(time.Millisecond):
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("closed: %t; the driver still counts %d connections", over, count())
		}
	}
}

// A dial that ends after all connections were closed does not add one: it may lead to a server that is no longer the master.
func TestADialThatIsOvertakenFails(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	var d *Driver
	d = New(Library{Dial: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
		d.conns.closeAll()
		return client, nil
	}})
	if _, err := d.dial(d.era())(t.Context(), "", nil, nil); err == nil {
		t.Error("it is a connection")
	}
	if err := client.SetDeadline(time.Now()); err == nil {
		t.Error("it is open")
	}
}
