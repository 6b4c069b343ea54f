package adapters

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/pki"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// followers are the adapters that ask all sentinels for a master.
var followers = []string{"go-redis", "rueidis"}

func follower(t *testing.T, adapter, master string, sentinels []string) drivertest.Driver {
	return adapters[adapter](t, options{addrs: sentinels, master: master})
}

// patient returns a client that retries for an hour.
func patient(t *testing.T, d drivertest.Driver, cfg holdfast.Config) *holdfast.Client {
	t.Helper()
	cfg.CommandTimeout, cfg.RetryTimeout = time.Minute, time.Hour
	c := expect.Of(holdfast.New(d, &cfg)).OK(t)
	backend.CloseWith(t, c)
	return c
}

// toldAtOnce tries to acquire a lock, for 30 s at most, and returns the error.
func toldAtOnce(t *testing.T, c *holdfast.Client) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context()) // without a deadline, shortly before which Acquire would give up
	defer cancel()
	defer time.AfterFunc(30*time.Second, cancel).Stop()
	_, err := c.Mutex("a").Acquire(ctx)
	if err == nil || ctx.Err() != nil {
		t.Fatalf("tried again and again: %v", err)
	}
	return err
}

// Fault: The addresses of sentinels lead to a Redis server, no sentinel knows the master's name, or all want a password. Acquire
// fails at once, since waiting does not help. The error says which names exist, or what answers at the address.
func TestSentinelsThatCannotNameTheMaster(t *testing.T) {
	s := server.Alone(t)
	knowing := func(names ...string) string {
		masters := map[string]string{}
		for _, name := range names {
			masters[name] = s.Addr()
		}
		return (&redistest.Sentinel{Masters: masters}).Listen(t)
	}
	denying := (&redistest.Sentinel{Denies: true}).Listen(t)
	one, other, none, many := knowing("main"), knowing("main"), knowing(), knowing("a", "b", "c", "d", "e", "f", "g")
	for what, c := range map[string]struct {
		sentinels []string
		says      []string
		denied    bool
	}{
		"another name":         {[]string{one, other}, []string{one, other, `: no master is called "mian"; there is "main" (correct the master's name)`}, false},
		"no name":              {[]string{none}, []string{none + `: no master is called "mian" (SENTINEL MASTERS lists the masters' names)`}, false},
		"many names":           {[]string{many}, []string{`; there is "a", "b", "c", "d", "e" and 2 more (correct the master's name)`}, false},
		"the server":           {[]string{s.Addr()}, []string{s.Addr() + ": a Redis server, not a sentinel (give the addresses of sentinels; by default their port is 26379)"}, false},
		"a server, and a name": {[]string{s.Addr(), one}, []string{s.Addr() + ": a Redis server, not a sentinel", one + ": no master is called"}, false},
		"no password":          {[]string{denying}, []string{denying + ": NOAUTH", "(check the user and password for sentinels, "}, true},
	} {
		for _, adapter := range followers {
			t.Run(what+", "+adapter, func(t *testing.T) {
				t.Parallel()
				err := toldAtOnce(t, patient(t, follower(t, adapter, "mian", c.sentinels), holdfast.Config{}))
				kind := holdfast.ErrUnavailable
				if c.denied {
					kind = holdfast.ErrDenied
				}
				if !errors.Is(err, kind) || strings.Contains(err.Error(), "is it running") {
					t.Errorf("of another kind, or misleading: %v", err)
				}
				for _, text := range c.says {
					expect.Contains(t, "the error", err.Error(), text)
				}
			})
		}
	}
}

// Fault: Of the sentinels' addresses, one leads to a Redis server, and one to a sentinel that watches another master. The other
// sentinels name the master. Locks work, and the log says once which addresses are wrong.
func TestWrongAddressesAmongSentinelsAreLogged(t *testing.T) {
	s := server.Alone(t)
	good := &redistest.Sentinel{Masters: map[string]string{"main": s.Addr()}}
	stranger := (&redistest.Sentinel{Masters: map[string]string{"other": s.Addr()}}).Listen(t)
	for _, adapter := range followers {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			sentinels := []string{good.Listen(t), s.Addr(), stranger, good.Listen(t), good.Listen(t)}
			// If the machine stands still, a client's first contact can end before all have answered. The next client asks again.
			backend.Eventually(t, "both are named", func() bool {
				var log bytes.Buffer
				c := patient(t, follower(t, adapter, "main", sentinels), holdfast.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				for range 2 {
					backend.Release(t, backend.Acquire(t, c.Mutex("a")))
				}
				if err := c.Close(t.Context()); err != nil { // it waits for the logger
					t.Fatal(err)
				}
				text := log.String()
				if n := strings.Count(text, "not all addresses are those of sentinels"); n > 1 {
					t.Errorf("logged %d times:\n%s", n, text)
				}
				return strings.Contains(text, s.Addr()+": a Redis server, not a sentinel") && strings.Contains(text, stranger+`: no master is called \"main\"; there is \"other\"`)
			})
		})
	}
}

// Fault: The address of a server leads to a sentinel. Acquire fails at once, and the error says so.
func TestASentinelIsNotTakenForAServer(t *testing.T) {
	addr := server.StartSentinels(t, server.One(t), 1, 1).Watchers[0].Addr()
	each(t, func(t *testing.T, a adapter) {
		err := toldAtOnce(t, patient(t, a.single(t, 3, to(addr)), holdfast.Config{}))
		expect.ErrSays(t, "Ping", err, holdfast.ErrUnsupported, "it is a sentinel, which has no locks (connect through it: ")
	})
}

// Fault: A server cannot prove its identity, a name does not resolve, an address has no port, the server is a replica, or the
// credentials are wrong. The error is returned at once and says what it is: waiting does not mend it.
func TestWhatCannotPassIsToldAtOnce(t *testing.T) {
	s := server.Alone(t, server.Conf("requirepass", "canary"))
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
		expect.ErrSays(t, "Ping", c.Ping(t.Context()), holdfast.ErrUnavailable, " (is it a Redis or Valkey server, ")
	})
}
