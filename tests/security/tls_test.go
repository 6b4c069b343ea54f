package security

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/pki"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// mutual returns the configuration of a client that trusts an authority, and has a certificate from it.
func mutual(t *testing.T, authority *pki.Authority) *tls.Config {
	t.Helper()
	return &tls.Config{
		ServerName: "redis.test", RootCAs: authority.Pool(),
		Certificates: []tls.Certificate{authority.Issue("client", time.Now().Add(time.Hour)).Load(t)},
	}
}

// overTLS returns a client with that configuration.
func overTLS(t *testing.T, addr string, c *tls.Config) *holdfast.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: c, DialerRetries: 1})
	t.Cleanup(func() { _ = rdb.Close() })
	locks, err := holdfastgoredis.New(rdb, &holdfast.Config{CommandTimeout: 20 * time.Second, RetryTimeout: 300 * time.Millisecond})
	expect.OK(t, err)
	backend.CloseWith(t, locks)
	return locks
}

// Everything that a client sends goes through TLS as its user set it up: acquires, which use the user's
// connections, and renewals, releases and subscriptions, which use others.
func TestEveryConnectionUsesTheUsersTLS(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		authority := pki.NewAuthority(t, "authority")
		addr := pki.Listen(t, b.Server, authority.Issue("redis.test", time.Now().Add(time.Hour)), authority)
		one, two := overTLS(t, addr, mutual(t, authority)), overTLS(t, addr, mutual(t, authority))
		lease := backend.Acquire(t, one.Mutex("a"))
		expect.OK(t, lease.Extend(t.Context(), time.Minute))
		next := backend.Start(t, two.Mutex("a"))
		backend.Waiters(t, one.Mutex("a"), 1)
		backend.Release(t, lease)
		lease = backend.Receive(t, next)
		// A claim lasts for 1.5s, and is renewed at once.
		backend.Eventually(t, "the claim is renewed", func() bool { return time.Until(lease.Deadline()) > 5*time.Second })
		backend.Release(t, lease)
		clients, err := b.Server.Do("CLIENT", "LIST", "TYPE", "pubsub")
		if text, _ := clients.(string); err != nil || !strings.Contains(text, "laddr="+addr) {
			t.Errorf("the subscription is not at %s: %v, %v", addr, clients, err)
		}
	})
}

// The connection of a lone caller, which sends itself, is no exception.
func TestALoneCallerUsesTheUsersTLS(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.One(t))
	authority := pki.NewAuthority(t, "authority")
	addr := pki.Listen(t, s, authority.Issue("redis.test", time.Now().Add(time.Hour)), authority)
	rdb := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: mutual(t, authority)})
	d := drivertest.Of(holdfastgoredis.NewDriver(rdb))
	t.Cleanup(func() {
		_ = d.Close()
		_ = rdb.Close()
	})
	conn := expect.Of(d.(driver.Connector).Connect(t.Context(), "")).OK(t)
	defer conn.Free()
	defer conn.Close()
	reply, err := s.Do("CLIENT", "LIST")
	clients, _ := reply.(string)
	if err != nil || !strings.Contains(clients, "cmd=hello") {
		t.Fatalf("%v, %v", clients, err)
	}
	for line := range strings.Lines(clients) {
		if strings.Contains(line, "cmd=hello") && !strings.Contains(line, "laddr="+addr) {
			t.Errorf("it did not go by TLS: %s", line)
		}
	}
}

// The same holds in a Cluster.
func TestEveryConnectionToAClusterUsesTheUsersTLS(t *testing.T) {
	t.Parallel()
	authority := pki.NewAuthority(t, "authority")
	node := server.StartCluster(t, server.One(t), 1)[0]
	addr := pki.Listen(t, node, authority.Issue("redis.test", time.Now().Add(time.Hour)), authority)
	// The node announces its initial port to clients.
	slots := func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
	}
	open := func() *holdfast.Client {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: slots, TLSConfig: mutual(t, authority)})
		t.Cleanup(func() { _ = rdb.Close() })
		c := expect.Of(holdfastgoredis.New(rdb, &unhurried)).OK(t)
		backend.CloseWith(t, c)
		return c
	}
	one, two := open(), open()
	lease := backend.Acquire(t, one.Mutex("a"))
	next := backend.Start(t, two.Mutex("a"))
	backend.Waiters(t, one.Mutex("a"), 1)
	backend.Release(t, lease)
	backend.Release(t, backend.Receive(t, next))
}

// A server, or a client, that cannot prove its identity is refused, and the error says why.
func TestWhoCannotShowACertificateIsRefused(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		authority, stranger := pki.NewAuthority(t, "authority"), pki.NewAuthority(t, "stranger")
		hour := time.Now().Add(time.Hour)
		good := authority.Issue("redis.test", hour)
		trusting := func(change func(*tls.Config)) *tls.Config {
			c := mutual(t, authority)
			change(c)
			return c
		}
		for _, c := range []struct {
			what   string
			server pki.Pair
			client *tls.Config
			want   string // "" for success
		}{
			{"nothing wrong", good, trusting(func(*tls.Config) {}), ""},
			{"an authority that is not trusted", good, trusting(func(c *tls.Config) { c.RootCAs = stranger.Pool() }), "signed by unknown authority"},
			{"the system's authorities", good, trusting(func(c *tls.Config) { c.RootCAs = nil }), "signed by unknown authority"},
			{"another host", good, trusting(func(c *tls.Config) { c.ServerName = "other.test" }), "not other.test"},
			{"an address for a name", good, trusting(func(c *tls.Config) { c.ServerName = "127.0.0.1" }), "cannot validate certificate for 127.0.0.1"},
			{"an expired certificate", authority.Issue("redis.test", time.Now().Add(-time.Hour)), trusting(func(*tls.Config) {}), "expired"},
			// With TLS 1.3 a server says so after the handshake, and closes: it is a matter of luck what the
			// client can read.
			{"no client certificate", good, trusting(func(c *tls.Config) { c.Certificates = nil }), " "},
			{"no client certificate, TLS 1.2", good, trusting(func(c *tls.Config) { c.Certificates, c.MaxVersion = nil, tls.VersionTLS12 }), "remote error: tls:"},
			{"a stranger's client certificate", good, trusting(func(c *tls.Config) {
				c.Certificates, c.MaxVersion = []tls.Certificate{stranger.Issue("client", hour).Load(t)}, tls.VersionTLS12
			}), "remote error: tls:"},
			{"an expired client certificate", good, trusting(func(c *tls.Config) {
				c.Certificates, c.MaxVersion = []tls.Certificate{authority.Issue("client", time.Now().Add(-time.Hour)).Load(t)}, tls.VersionTLS12
			}), "remote error: tls:"},
			{"no TLS", good, nil, ""},
		} {
			t.Run(c.what, func(t *testing.T) {
				addr := pki.Listen(t, b.Server, c.server, authority)
				lease, err := overTLS(t, addr, c.client).Mutex("a").TryAcquire(t.Context())
				switch {
				case c.client == nil:
					expect.Err(t, "without TLS", err, holdfast.ErrUnavailable)
				case c.want == "":
					expect.OK(t, err)
					backend.Release(t, lease)
				case !errors.Is(err, holdfast.ErrUnavailable) || !strings.Contains(err.Error(), c.want):
					t.Errorf("want an error that says %q, got %v", c.want, err)
				case strings.Contains(c.want, "signed by"):
					var unknown x509.UnknownAuthorityError
					if !errors.As(err, &unknown) {
						t.Errorf("the cause is not there: %v", err)
					}
				}
			})
		}
	})
}
