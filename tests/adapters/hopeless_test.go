package adapters

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/pki"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: A server cannot prove its identity, a name does not resolve, an address has no port, the server is a replica, or the
// credentials are wrong. The error is returned at once and says what it is: waiting does not mend it.
func TestWhatCannotPassIsToldAtOnce(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.One(t), server.Conf("requirepass", "canary"))
	open := server.Start(t, server.One(t))
	replica := server.StartReplica(t, server.One(t), open)
	authority, stranger := pki.NewAuthority(t, "authority"), pki.NewAuthority(t, "stranger")
	hour := time.Now().Add(time.Hour)
	own := []tls.Certificate{authority.Issue("client", hour).Load(t)}
	good := pki.Listen(t, open, authority.Issue("redis.test", hour), authority)
	expired := pki.Listen(t, server.Start(t, server.One(t)), authority.Issue("redis.test", time.Now().Add(-time.Hour)), authority)
	for what, c := range map[string]struct {
		options
		want error
		says string
	}{
		"an authority that is not trusted": {options{addrs: []string{good}, tls: &tls.Config{ServerName: "redis.test", RootCAs: stranger.Pool(), Certificates: own}}, holdfast.ErrUnavailable, "signed by unknown authority"},
		"another's certificate":            {options{addrs: []string{good}, tls: &tls.Config{ServerName: "other.test", RootCAs: authority.Pool(), Certificates: own}}, holdfast.ErrUnavailable, "not other.test"},
		"an expired certificate":           {options{addrs: []string{expired}, tls: &tls.Config{ServerName: "redis.test", RootCAs: authority.Pool(), Certificates: own}}, holdfast.ErrUnavailable, "expired"},
		"no such host": {options{addrs: []string{"nowhere.invalid:6379"}, dial: func(context.Context, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "nowhere.invalid", IsNotFound: true}}
		}}, holdfast.ErrUnavailable, "no such host"},
		"no port":          {options{addrs: []string{"127.0.0.1"}}, holdfast.ErrUnavailable, "missing port in address (give the address as HOST:PORT)"},
		"a wrong password": {options{addrs: []string{s.Addr()}, password: "wrong-canary"}, holdfast.ErrDenied, "WRONGPASS"},
		"no password":      {options{addrs: []string{s.Addr()}}, holdfast.ErrDenied, "NOAUTH"},
		"a replica":        {options{addrs: []string{replica.Addr()}}, backend.Code("READONLY"), "READONLY"},
	} {
		for adapter := range adapters {
			t.Run(what+", "+adapter, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(t.Context()) // no deadline, before which it would give up
				defer cancel()
				defer time.AfterFunc(30*time.Second, cancel).Stop()
				l := patient(t, adapters[adapter](t, c.options), holdfast.Config{}).Mutex("a")
				for _, acquire := range []func(context.Context) (*holdfast.Lease, error){l.Acquire, l.TryAcquire} {
					_, err := acquire(ctx)
					if ctx.Err() != nil {
						t.Fatalf("tried again and again: %v", err)
					}
					if !backend.Matches(err, c.want) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.addrs[0]) {
						t.Errorf("want %v which says %q and names %s, got %v", c.want, c.says, c.addrs[0], err)
					}
					if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "is it running") {
						t.Errorf("the error shows the password, or misleads: %v", err)
					}
				}
			})
		}
	}
}

// Fault: The address of a server leads to an HTTP server. The error asks whether it is the right one.
func TestAServerOfAnotherProtocol(t *testing.T) {
	s := httptest.NewServer(nil)
	t.Cleanup(s.Close)
	each(t, func(t *testing.T, a adapter) {
		c, err := holdfast.New(a.single(t, 3, to(s.Listener.Addr().String())), &holdfast.Config{CommandTimeout: time.Minute, RetryTimeout: 5 * time.Millisecond})
		expect.OK(t, err)
		backend.CloseWith(t, c)
		if err := c.Ping(t.Context()); !errors.Is(err, holdfast.ErrUnavailable) || !strings.Contains(err.Error(), " (is it a Redis or Valkey server, ") {
			t.Errorf("it says: %v", err)
		}
	})
}
