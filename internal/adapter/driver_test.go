package adapter

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// answering returns a client that gives every command this reply.
func answering(reply resp.Reply) *Client {
	return &Client{Close: func() {}, Pools: true, Send: func(_ context.Context, commands ...resp.Command) []resp.Reply {
		replies := make([]resp.Reply, len(commands))
		for i := range replies {
			replies[i] = reply
		}
		return replies
	}}
}

// following returns a driver that follows master, and a connection of it.
func following(t *testing.T, master *atomic.Value) (*Driver, net.Conn) {
	d := New(Library{
		Find: func(context.Context) (string, error) { return master.Load().(string), nil },
		New:  func(string, Dial) (*Client, error) { return answering(resp.Reply{Value: "hello"}), nil },
		Dial: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			ours, _ := net.Pipe()
			return ours, nil
		},
		Greet: func(ctx context.Context, addr string, dial Dial) (*Client, error) {
			_, err := dial(ctx, addr, nil, nil)
			return nil, err
		},
	})
	t.Cleanup(func() { _ = d.Close() })
	master.Store("one")
	conn, err := d.Connect(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return d, conn
}

func isOpen(c net.Conn) bool { return c.SetDeadline(time.Time{}) == nil }

// A connection that calls go past the client on must not stay on a master that was replaced, even if the driver has no client any more: the
// old master may go on granting locks.
func TestConnectionsOfAReplacedMasterAreClosedWithoutAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var master atomic.Value
		d, conn := following(t, &master)
		time.Sleep(dropPeriod)
		d.Failed(context.DeadlineExceeded)
		time.Sleep(2 * watchPeriod)
		if d.current() != nil || !isOpen(conn) {
			t.Fatal("the client was not given up, or the connection was closed although the master is the same")
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

// If a slot moves to a node that has no slots yet, the library does not know the node before it has followed a redirection there, and may
// forget it at once.
func TestRunDurablyOnANodeWithoutSlots(t *testing.T) {
	var redirections atomic.Int64
	node := answering(resp.Reply{Value: int64(1)})
	node.Dedicate = func(bool) (resp.Sender, func()) {
		return func(_ context.Context, commands ...resp.Command) []resp.Reply {
			if len(commands) != 3 || commands[0].Words[0] != "asking" {
				t.Errorf("the node is sent %v", commands)
			}
			return []resp.Reply{{Value: "OK"}, {Value: "done"}, {Value: int64(1)}}
		}, func() {}
	}
	moving := answering(resp.Reply{Err: driver.ReplyError("ASK 1 10.0.0.2:6379")})
	moving.IsCluster = true
	moving.Nodes = func() map[string]*Client {
		if redirections.Load() == 2 {
			return map[string]*Client{"10.0.0.2:6379": node}
		}
		return nil
	}
	redirected := moving.Send
	moving.Send = func(ctx context.Context, commands ...resp.Command) []resp.Reply {
		if commands[0].Words[0] == "eval" { // the library follows the redirection
			redirections.Add(1)
			return []resp.Reply{{Value: "master"}}
		}
		return redirected(ctx, commands...)
	}
	moving.Dedicate = func(bool) (resp.Sender, func()) { return redirected, func() {} }
	d := New(Library{New: func(string, Dial) (*Client, error) { return moving, nil }})
	defer d.Close()
	c := driver.Call{Script: driver.NewScript("test", ""), Keys: []string{"k"}}
	text, reached, err := d.RunDurably(t.Context(), c, driver.Durability{Replicas: 1})
	if text != "done" || reached.Replicas != 1 || err != nil {
		t.Errorf("%q, %+v, %v", text, reached, err)
	}
}
