package adapter

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"
)

// A dial that ends after all connections were closed does not add one: it may lead to a server that is no longer the master.
func TestADialThatIsOvertakenFails(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	var s conns
	dial := s.dialing(func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
		s.closeAll()
		return client, nil
	}, s.current(t.Context()))
	if _, err := dial(t.Context(), "", nil, nil); err == nil {
		t.Error("it is a connection")
	}
	if err := client.SetDeadline(time.Now()); err == nil {
		t.Error("it is open")
	}
}

// Libraries may leave a connection open on which a server did not answer their greeting.
func TestAConnectionThatIsNotGreetedIsClosed(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	d := New(Library{
		Addrs: []string{"the server"},
		Dial:  func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return client, nil },
		Greet: func(ctx context.Context, addr string, dial Dial) (Greeting, error) {
			_, err := dial(ctx, addr, nil, nil)
			if err == nil {
				err = context.DeadlineExceeded
			}
			return Greeting{}, err
		},
	})
	defer d.Close()
	if _, err := d.Connect(t.Context(), ""); err == nil {
		t.Error("it is a connection")
	}
	if err := client.SetDeadline(time.Now()); err == nil {
		t.Error("it is open")
	}
}
