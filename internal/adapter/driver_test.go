package adapter

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// network has servers and sentinels, by address, which answer commands.
type network map[string]func(words []string) string

// dial opens a connection to one of them.
func (n network) dial(_ context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		in := bufio.NewReader(theirs)
		for {
			request, err := resp.Read(in)
			words, is := request.([]any)
			if err != nil || !is {
				return
			}
			text := make([]string, len(words))
			for i, word := range words {
				text[i] = fmt.Sprint(word)
			}
			if _, err := io.WriteString(theirs, n[addr](text)); err != nil {
				return
			}
		}
	}()
	return ours, nil
}

// library returns a library that dials in the network.
func (n network) library(addrs ...string) Library {
	return Library{Addrs: addrs, Dial: n.dial, Greet: func(ctx context.Context, addr string, dial Dial) (Greeting, error) {
		_, err := dial(ctx, addr, nil, nil)
		return Greeting{}, err
	}}
}

// following returns a driver that follows the master, and a connection of it.
func following(t *testing.T, master *atomic.Value) (*Driver, net.Conn) {
	master.Store("one")
	server := func([]string) string { return "+OK\r\n" }
	lib := network{"one": server, "other": server, "sentinel": func(words []string) string {
		if words[1] == "get-master-addr-by-name" {
			return string(resp.Append(nil, master.Load().(string), "1"))
		}
		return "*0\r\n"
	}}.library("sentinel")
	dial := lib.Dial
	lib.Dial = func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		return dial(ctx, strings.TrimSuffix(addr, ":1"), d, config)
	}
	lib.GreetSentinel = lib.Greet
	d := New(lib)
	t.Cleanup(func() { _ = d.Close() })
	conn, err := d.Connect(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return d, conn
}

func isOpen(c net.Conn) bool { return c.SetDeadline(time.Time{}) == nil }

// A connection must not stay on a master that was replaced: the old master may go on granting locks.
func TestConnectionsOfAReplacedMasterAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var master atomic.Value
		d, conn := following(t, &master)
		d.Failed(context.DeadlineExceeded)
		time.Sleep(2 * watchPeriod)
		if !isOpen(conn) {
			t.Fatal("the connection was closed although the master is the same")
		}
		master.Store("other")
		time.Sleep(2 * watchPeriod)
		if isOpen(conn) {
			t.Error("the connection is open")
		}
	})
}

// After a dial that failed, the driver looks for the master soon.
func TestAFailedDialHurriesTheLookForTheMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var master atomic.Value
		d, conn := following(t, &master)
		master.Store("other")
		time.Sleep(watchPeriod / 2)
		if !isOpen(conn) {
			t.Fatal("it has looked already")
		}
		d.Failed(notSent(net.ErrClosed))
		time.Sleep(2 * hurryPeriod)
		if isOpen(conn) {
			t.Error("the connection is open")
		}
	})
}

// If a slot moves to a node that has no slots yet, the driver does not know the node before a server redirects it there.
func TestACallFollowsRedirections(t *testing.T) {
	asking := false
	var circle atomic.Bool
	n := network{
		"10.0.0.1:6379": func(words []string) string {
			if words[0] == "cluster" {
				return "*1\r\n*3\r\n:0\r\n:16383\r\n" + "*2\r\n$8\r\n10.0.0.1\r\n:6379\r\n"
			}
			return "-ASK 1 10.0.0.2:6379\r\n"
		},
		"10.0.0.2:6379": func(words []string) string {
			switch {
			case words[0] == "asking":
				asking = true
				return "+OK\r\n"
			case words[0] == "wait":
				return ":1\r\n"
			case !asking || circle.Load():
				return "-MOVED 1 10.0.0.1:6379\r\n"
			}
			asking = false
			return "$4\r\ndone\r\n"
		},
	}
	lib := n.library("10.0.0.1:6379")
	lib.IsCluster = true
	d := New(lib)
	defer d.Close()
	c := driver.Call{Script: driver.NewScript("test", ""), Keys: []string{"k"}}
	if text, reached, err := d.RunDurably(t.Context(), c, driver.Durability{Replicas: 1}); text != "done" || reached.Replicas != 1 || err != nil {
		t.Errorf("%q, %+v, %v", text, reached, err)
	}
	if text, err := d.Run(t.Context(), c); text != "done" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	// Servers that send a call to each other do so three times.
	circle.Store(true)
	if text, err := d.Run(t.Context(), c); !resp.Is(err, "TRYAGAIN") {
		t.Errorf("%q, %v; want TRYAGAIN", text, err)
	}
}

// Fault: A node of a Cluster hangs. New clients reach the others at once.
func TestANodeThatHangsKeepsNobodyFromTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := network{"10.0.0.1:1": func([]string) string { time.Sleep(time.Minute); return "" }, "10.0.0.2:1": func(words []string) string {
			return map[string]string{
				"hello": "*2\r\n$4\r\nmode\r\n$7\r\ncluster\r\n", "time": "*2\r\n$1\r\n1\r\n$1\r\n1\r\n",
				"cluster": "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$8\r\n10.0.0.2\r\n:1\r\n",
			}[words[0]]
		}}
		for range 20 {
			lib := n.library("10.0.0.1:1", "10.0.0.2:1")
			lib.IsCluster = true
			d, began := New(lib), time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := d.Probe(ctx); err != nil || time.Since(began) > 2*slowNode || d.Node("k") != "10.0.0.2:1" {
				t.Errorf("after %s: %v, %q", time.Since(began), err, d.Node("k"))
			}
			cancel()
			_ = d.Close()
		}
		time.Sleep(time.Minute)
	})
}

// Calls have connections of their own, which are used again until one of them breaks or they are too old.
func TestConnectionsAreUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		var fails atomic.Bool
		n := network{"the server": func(words []string) string {
			time.Sleep(time.Millisecond)
			if fails.Load() {
				return "what is no reply\r\n"
			}
			return "$4\r\ndone\r\n"
		}}
		lib := n.library("the server")
		lib.Dial = func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
			dials.Add(1)
			return n.dial(ctx, addr, d, config)
		}
		d := New(lib)
		defer d.Close()
		c := driver.Call{Script: driver.NewScript("test", ""), Keys: []string{"k"}, Urgent: true}
		run := func(many int, want int64) {
			t.Helper()
			dials.Store(0)
			var all sync.WaitGroup
			for range many {
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					if _, err := d.Run(ctx, c); (err != nil) != fails.Load() {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if n := dials.Load(); n != want {
				t.Errorf("%d connections were made, want %d", n, want)
			}
		}
		run(3, 3)
		run(3, 0)
		run(mostUrgent, mostUrgent-3)
		run(mostUrgent, 0)
		for range 2 * mostUrgent {
			time.Sleep(time.Second)
			run(1, 0)
		}
		if n := len(d.servers.sites["the server"].idle); n != 1 {
			t.Errorf("%d connections are kept although one is enough", n)
		}
		fails.Store(true)
		run(1, 0)
		fails.Store(false)
		run(3, 3)
		time.Sleep(maxIdle)
		run(1, 1)
		time.Sleep(time.Second)
		d.Failed(context.DeadlineExceeded)
		run(1, 1)
	})
}

// Connections to nodes that have left a Cluster are not kept: over the years there may be many of these nodes.
func TestNodesThatLeftAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := network{}
		d := New(n.library("one"))
		defer d.Close()
		for _, addr := range []string{"one", "two", "three"} {
			n[addr] = func([]string) string { return "+OK\r\n" }
			if reply := d.servers.sender(addr, use{})(t.Context(), resp.New("ping"))[0]; reply.Err != nil {
				t.Error(reply.Err)
			}
			time.Sleep(maxIdle)
		}
		if len(d.servers.sites) != 1 {
			t.Errorf("%d sites are known", len(d.servers.sites))
		}
	})
}

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
