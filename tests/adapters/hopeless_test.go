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

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfastrueidis"
	"github.com/holdfast-go/holdfast/holdfastvalkey"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/pki"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// access is how a program reaches a server.
type access struct {
	addr, password string
	tls            *tls.Config
	dial           func(ctx context.Context) (net.Conn, error) // nil: as usual
}

// open makes a client of each adapter, which would retry for an hour.
func (a access) open(t *testing.T, adapter string) *holdfast.Client {
	t.Helper()
	var d drivertest.Driver
	switch adapter {
	case "go-redis":
		o := &redis.Options{Addr: a.addr, Password: a.password, TLSConfig: a.tls}
		if a.dial != nil {
			o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) { return a.dial(ctx) }
		}
		rdb := redis.NewClient(o)
		t.Cleanup(func() { _ = rdb.Close() })
		d = drivertest.Of(holdfastgoredis.NewDriver(rdb))
	case "rueidis":
		o := rueidis.ClientOption{InitAddress: []string{a.addr}, Password: a.password, TLSConfig: a.tls}
		if a.dial != nil {
			o.DialCtxFn = func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return a.dial(ctx)
			}
		}
		d = drivertest.Of(holdfastrueidis.NewDriver(o))
	case "valkey":
		o := valkey.ClientOption{InitAddress: []string{a.addr}, Password: a.password, TLSConfig: a.tls}
		if a.dial != nil {
			o.DialCtxFn = func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return a.dial(ctx)
			}
		}
		d = drivertest.Of(holdfastvalkey.NewDriver(o))
	}
	c, err := holdfast.New(d, &holdfast.Config{CommandTimeout: time.Minute, RetryTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	backend.CloseWith(t, c)
	return c
}

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
		access
		want error
		says string
	}{
		"an authority that is not trusted": {access{addr: good, tls: &tls.Config{ServerName: "redis.test", RootCAs: stranger.Pool(), Certificates: own}}, holdfast.ErrUnavailable, "signed by unknown authority"},
		"another's certificate":            {access{addr: good, tls: &tls.Config{ServerName: "other.test", RootCAs: authority.Pool(), Certificates: own}}, holdfast.ErrUnavailable, "not other.test"},
		"an expired certificate":           {access{addr: expired, tls: &tls.Config{ServerName: "redis.test", RootCAs: authority.Pool(), Certificates: own}}, holdfast.ErrUnavailable, "expired"},
		"no such host": {access{addr: "nowhere.invalid:6379", dial: func(context.Context) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "nowhere.invalid", IsNotFound: true}}
		}}, holdfast.ErrUnavailable, "no such host"},
		"no port":          {access{addr: "127.0.0.1"}, holdfast.ErrUnavailable, "missing port in address (give the address as HOST:PORT)"},
		"a wrong password": {access{addr: s.Addr(), password: "wrong-canary"}, holdfast.ErrDenied, "WRONGPASS"},
		"no password":      {access{addr: s.Addr()}, holdfast.ErrDenied, "NOAUTH"},
		"a replica":        {access{addr: replica.Addr()}, backend.Code("READONLY"), "READONLY"},
	} {
		for adapter := range adapters {
			t.Run(what+", "+adapter, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(t.Context()) // no deadline, before which it would give up
				defer cancel()
				defer time.AfterFunc(30*time.Second, cancel).Stop()
				l := c.open(t, adapter).Mutex("a")
				for _, acquire := range []func(context.Context) (*holdfast.Lease, error){l.Acquire, l.TryAcquire} {
					_, err := acquire(ctx)
					if ctx.Err() != nil {
						t.Fatalf("tried again and again: %v", err)
					}
					if !backend.Matches(err, c.want) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.addr) {
						t.Errorf("want %v which says %q and names %s, got %v", c.want, c.says, c.addr, err)
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
	t.Parallel()
	s := httptest.NewServer(nil)
	t.Cleanup(s.Close)
	each(t, func(t *testing.T, a adapter) {
		c, err := holdfast.New(a.single(t, 3, to(s.Listener.Addr().String())), &holdfast.Config{CommandTimeout: time.Minute, RetryTimeout: 5 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		backend.CloseWith(t, c)
		if err := c.Ping(t.Context()); !errors.Is(err, holdfast.ErrUnavailable) || !strings.Contains(err.Error(), " (is it a Redis or Valkey server, ") {
			t.Errorf("it says: %v", err)
		}
	})
}
