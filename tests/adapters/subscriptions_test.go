package adapters

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastrueidis"
	"github.com/holdfast-go/holdfast/holdfastvalkey"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// ups tells when a subscription is confirmed, and which messages come.
type ups struct {
	up       chan struct{}
	messages chan string
}

func newUps() ups { return ups{make(chan struct{}, 1000), make(chan string, 1000)} }

// of returns the subscription to a channel that reports to u.
func (u ups) of(channel string, sharded bool) driver.Subscription {
	return driver.Subscription{
		Channel: channel, Sharded: sharded,
		Up: func() { u.up <- struct{}{} }, Down: func(error) {}, Message: func(text string) { u.messages <- text },
	}
}

// next waits for the next value, which may take a while on a busy machine.
func next[T any](t *testing.T, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(time.Minute):
		t.Fatal("nothing comes")
	}
	return got
}

// subscribed subscribes to channels, and waits until all are confirmed. It returns the functions that end them.
func subscribed(t *testing.T, d drivertest.Driver, channels []string, sharded bool) (ends []func()) {
	t.Helper()
	var all []ups
	for _, channel := range channels {
		u := newUps()
		all = append(all, u)
		ends = append(ends, d.Subscribe(u.of(channel, sharded)))
	}
	for _, u := range all {
		next(t, u.up)
	}
	return ends
}

// channels returns n names in as many slots.
func channels(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("holdfast:{%d}:q:c", i))
	}
	return all
}

// deaf returns the channels without a subscriber at a server.
func deaf(t *testing.T, s *server.Server, command string, channels ...string) (none []any) {
	t.Helper()
	words := []any{"PUBSUB", command}
	for _, channel := range channels {
		words = append(words, channel)
	}
	reply := expect.Of(s.Do(words...)).OK(t)
	for counts := reply.([]any); len(counts) > 0; counts = counts[2:] {
		if counts[1] == int64(0) {
			none = append(none, counts[0])
		}
	}
	return none
}

// listening returns the ids of a server's connections for subscriptions.
func listening(t *testing.T, s *server.Server) (ids []string) {
	t.Helper()
	list := expect.Of(s.Do("CLIENT", "LIST", "TYPE", "PUBSUB")).OK(t)
	for line := range strings.Lines(list.(string)) {
		ids = append(ids, strings.Fields(line)[0])
	}
	return ids
}

// All channels of a server share a connection, so the number of names is not bounded by the number of
// connections that a server accepts.
func TestSubscriptionsShareAConnection(t *testing.T) {
	each(t, func(t *testing.T, a adapter) {
		s := server.Start(t, server.One(t))
		d := a.single(t, 3, to(s.Addr()))
		t.Cleanup(func() { _ = d.Close() })
		subscribed(t, d, channels(200), false)
		expect.Equal(t, "connections of 200 channels", len(listening(t, s)), 1)
	})
}

func TestSubscriptionsShareAConnectionToEachMaster(t *testing.T) {
	long(t)
	each(t, func(t *testing.T, a adapter) {
		nodes := server.StartCluster(t, server.One(t), 3)
		d := a.cluster(t, addrsOf(nodes), direct)
		t.Cleanup(func() { _ = d.Close() })
		all := channels(300)
		subscribed(t, d, all, true)
		for _, s := range nodes {
			if n := len(listening(t, s)); n != 1 {
				t.Errorf("%d connections to %s for 100 channels", n, s.Addr())
			}
		}
	})
}

// Fault: An address leads to another server now, while the old one, which has become a replica, keeps its connection
// open and silent. The subscription is opened anew within 5 s.
func TestSubscriptionFollowsAnAddress(t *testing.T) {
	long(t)
	each(t, func(t *testing.T, a adapter) {
		old := server.Start(t, server.One(t))
		heir := server.StartReplica(t, server.One(t), old)
		var master atomic.Pointer[server.Server]
		master.Store(old)
		d := a.single(t, 3, func(ctx context.Context) (net.Conn, error) { return to(master.Load().Addr())(ctx) })
		t.Cleanup(func() { _ = d.Close() })
		const channel = "holdfast:c:x"
		u := newUps()
		defer d.Subscribe(u.of(channel, false))()
		next(t, u.up)
		host, port, _ := net.SplitHostPort(heir.Addr())
		for _, command := range []struct {
			s     *server.Server
			words []any
		}{{heir, []any{"REPLICAOF", "NO", "ONE"}}, {old, []any{"REPLICAOF", host, port}}} {
			expect.OK(t, expect.ErrOf(command.s.Do(command.words...)))
		}
		master.Store(heir)
		began := time.Now()
		backend.Eventually(t, "the new master has the subscription", func() bool { return len(deaf(t, heir, "NUMSUB", channel)) == 0 })
		t.Logf("after %s", time.Since(began).Round(time.Millisecond))
		next(t, u.up)
		expect.OK(t, expect.ErrOf(heir.Do("PUBLISH", channel, "hello")))
		for next(t, u.messages) != "hello" {
		}
	})
}

// Credentials that are renewed leave subscriptions alone: on their connections the client library must neither send nor read. For calls,
// connections are made anew.
func TestRenewedCredentialsLeaveSubscriptionsAlone(t *testing.T) {
	t.Parallel()
	long(t)
	const password = "pw"
	s := server.Start(t, server.One(t), server.Conf("requirepass", password))
	var asked atomic.Int64
	soon := func() time.Time {
		asked.Add(1)
		return time.Now().Add(10 * time.Millisecond)
	}
	for name, d := range map[string]drivertest.Driver{
		"rueidis": drivertest.Of(holdfastrueidis.NewDriver(rueidis.ClientOption{
			InitAddress: []string{s.Addr()},
			AuthCredentialsFn: func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
				return rueidis.AuthCredentials{Password: password, RefreshAfter: soon()}, nil
			},
		})),
		"valkey": drivertest.Of(holdfastvalkey.NewDriver(valkey.ClientOption{
			InitAddress: []string{s.Addr()},
			AuthCredentialsFn: func(valkey.AuthCredentialsContext) (valkey.AuthCredentials, error) {
				return valkey.AuthCredentials{Password: password, RefreshAfter: soon()}, nil
			},
		})),
	} {
		t.Run(name, func(t *testing.T) {
			defer d.Close()
			u := newUps()
			sub := u.of("a", false)
			sub.Down = func(err error) { t.Errorf("it is interrupted: %v", err) }
			defer d.Subscribe(sub)()
			next(t, u.up)
			before := asked.Load()
			backend.Eventually(t, "the library has asked for new credentials often", func() bool {
				if _, err := d.Run(t.Context(), driver.Call{Script: count, Keys: []string{"a"}}); err != nil {
					t.Error(err)
				}
				return asked.Load() > before+20
			})
		})
	}
}
