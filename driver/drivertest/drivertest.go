// Package drivertest has the tests that every driver of Holdfast must pass: an adapter calls Run from a test of its own.
package drivertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Peer is another client of the server that a driver is tested with.
type Peer interface {
	// Do runs a command and returns its reply as text.
	Do(args ...string) (string, error)
}

// Run tests that a driver does what driver.Driver says, and driver.Durable and driver.Connector if it implements them.
// open returns a new driver for a server that nothing else uses. An adapter should call Run for every kind of server and
// client that it supports. Run does not test that a script is sent only once if its reply is lost, which takes a network
// that loses replies.
func Run(t *testing.T, open func(*testing.T) driver.Driver, peer Peer) {
	d := open(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})

	t.Run("Probe", func(t *testing.T) {
		info, err := d.Probe(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if info.Server == "" || info.Version == "" || time.Since(info.Time).Abs() > time.Hour {
			t.Errorf("Probe = %+v", info)
		}
		if d.Addr() == "" {
			t.Error("Addr is empty")
		}
	})
	t.Run("Run", func(t *testing.T) {
		s := driver.NewScript("test", "return KEYS[1] .. ' ' .. ARGV[1] .. ' ' .. #KEYS .. ' ' .. #ARGV")
		for _, urgent := range []bool{false, true} {
			for range 2 { // the script is not loaded the first time
				got, err := d.Run(ctx, driver.Call{Script: s, Keys: []string{"{k}1", "{k}2"}, Args: []string{"a\r\nb", ""}, Urgent: urgent})
				if want := "{k}1 a\r\nb 2 2"; got != want || err != nil {
					t.Errorf("Run = %q, %v; want %q", got, err, want)
				}
			}
			if _, err := peer.Do("SCRIPT", "FLUSH"); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("errors of Run", func(t *testing.T) {
		for source, want := range map[string]string{
			"return redis.error_reply('WRONGTYPE by hand')": "WRONGTYPE by hand",
			"return redis.error_reply('ERR by hand')":       "ERR by hand", // some client libraries remove ERR
		} {
			_, err := d.Run(ctx, driver.Call{Script: driver.NewScript("test", source), Keys: []string{"k"}})
			if err != driver.ReplyError(want) {
				t.Errorf("Run of a script that fails returns %#v, want %#v, not wrapped", err, driver.ReplyError(want))
			}
		}
		ended, cancel := context.WithTimeout(ctx, time.Nanosecond)
		defer cancel()
		<-ended.Done()
		if _, err := d.Run(ended, driver.Call{Script: driver.NewScript("test", "return 'x'"), Keys: []string{"k"}, Urgent: true}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run with a context that has ended returns %v", err)
		}
	})
	t.Run("Run of a command", func(t *testing.T) {
		testCommand(t, ctx, d, peer)
	})
	t.Run("RunDurably", func(t *testing.T) {
		durable, ok := driver.As[driver.Durable](d)
		if !ok {
			t.Skip("the driver is not Durable")
		}
		if _, err := peer.Do("WAIT", "0", "1"); err != nil {
			t.Skipf("the server has no WAIT: %v", err)
		}
		testRunDurably(t, ctx, durable)
	})
	t.Run("Connect", func(t *testing.T) {
		connector, ok := d.(driver.Connector)
		if !ok {
			t.Skip("the driver is no Connector")
		}
		testConnect(t, ctx, connector)
	})
	t.Run("Subscribe", func(t *testing.T) {
		testSubscribe(t, d, peer)
	})
	t.Run("many subscriptions", func(t *testing.T) {
		testSubscriptions(t, d, peer)
	})
}

// testRunDurably tests waiting for a replica that does not exist.
func testRunDurably(t *testing.T, ctx context.Context, d driver.Durable) {
	count := driver.NewScript("test", "return 'durably ' .. redis.call('INCR', KEYS[1])")
	call := driver.Call{Script: count, Keys: []string{"{k}durably"}}
	for round := 1; round <= 2; round++ { // the script is not loaded the first time
		reply, reached, err := d.RunDurably(ctx, call, driver.Durability{Replicas: 1, Timeout: 10 * time.Millisecond})
		if reply != fmt.Sprint("durably ", round) || reached != (driver.Confirmation{}) || err != nil {
			t.Errorf("RunDurably = %q, %+v, %v", reply, reached, err)
		}
	}
	// Waiting for a reply that does not count would outlast ctx.
	reply, reached, err := d.RunDurably(ctx, call, driver.Durability{Replicas: 1, Timeout: time.Hour, Counts: func(reply string) bool { return reply != "durably 3" }})
	if reply != "durably 3" || reached != (driver.Confirmation{}) || err != nil {
		t.Errorf("RunDurably of a reply that does not count = %q, %+v, %v", reply, reached, err)
	}
	call.Script = driver.NewScript("test", "return redis.error_reply('WRONGTYPE by hand')")
	if reply, _, err := d.RunDurably(ctx, call, driver.Durability{Replicas: 1, Timeout: 10 * time.Millisecond}); reply != "" || err != driver.ReplyError("WRONGTYPE by hand") {
		t.Errorf("RunDurably of a script that fails = %q, %#v", reply, err)
	}
}

// testConnect tests that Connect returns a connection to the server that speaks version 2 of the protocol, and makes none once ctx
// has ended.
func testConnect(t *testing.T, ctx context.Context, d driver.Connector) {
	if err := d.Ready(); err != nil {
		t.Errorf("Ready returns %v", err)
	}
	conn, err := d.Connect(ctx, "")
	if conn.Free != nil {
		defer conn.Free()
	}
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("the driver cannot connect with these options")
	}
	if err != nil {
		t.Fatalf("Connect returns %v", err)
	}
	defer conn.Close()
	end, _ := ctx.Deadline()
	const want = "+PONG\r\n$-1\r\n" // in version 3 the second is "_"
	reply := make([]byte, len(want))
	if err := conn.SetDeadline(end); err != nil {
		t.Error(err)
	}
	if _, err := io.WriteString(conn, "*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$19\r\nholdfast:drivertest\r\n"); err != nil {
		t.Error(err)
	}
	if n, err := io.ReadFull(conn, reply); err != nil || string(reply) != want {
		t.Errorf("the replies to PING and to GET of a key that does not exist are %q, %v; want %q", reply[:n], err, want)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	conn, err = d.Connect(ended, "")
	if conn.Free != nil {
		conn.Free()
	}
	if err == nil {
		_ = conn.Close()
		t.Error("Connect with a context that has ended returns a connection")
	}
}

// testCommand tests a command of the server's own, DELIFEQ, which deletes a key that has a certain value. A server that
// does not have the command must say so and change nothing.
func testCommand(t *testing.T, ctx context.Context, d driver.Driver, peer Peer) {
	const key, value = "{k}1", "a\r\n:b "
	do := func(command ...string) string {
		t.Helper()
		reply, err := peer.Do(command...)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	for _, urgent := range []bool{false, true} {
		run := func(ctx context.Context, value string) (string, error) {
			return d.Run(ctx, driver.Call{Script: driver.Script{Name: "delifeq", Command: "delifeq"}, Keys: []string{key}, Args: []string{value}, Urgent: urgent})
		}
		do("SET", key, value)
		known := true
		for _, step := range []struct{ value, want, exists string }{{value + "+", "0", "1"}, {value, "1", "0"}, {value, "0", "0"}} {
			got, err := run(ctx, step.value)
			var reply driver.ReplyError
			if errors.As(err, &reply) && strings.HasPrefix(string(reply), "ERR unknown command") {
				if info, err := d.Probe(ctx); err != nil || info.Server == "valkey" && !strings.HasPrefix(info.Version, "7.") && !strings.HasPrefix(info.Version, "8.") {
					t.Errorf("%+v, %v: %v", info, err, reply)
				}
				step.exists, known = "1", false
			} else if got != step.want || err != nil {
				t.Errorf("DELIFEQ of %q returns %q, %v; want %s", step.value, got, err, step.want)
			}
			if n := do("EXISTS", key); n != step.exists {
				t.Errorf("EXISTS after DELIFEQ of %q returns %s; want %s", step.value, n, step.exists)
			}
		}
		do("DEL", key)
		do("HSET", key, "field", value)
		var reply driver.ReplyError
		if got, err := run(ctx, value); known && (!errors.As(err, &reply) || !strings.HasPrefix(string(reply), "WRONGTYPE")) {
			t.Errorf("DELIFEQ of a hash returns %q, %v", got, err)
		}
		ended, stop := context.WithCancel(ctx)
		stop()
		if got, err := run(ended, value); err == nil {
			t.Errorf("Run with a context that has ended returns %q", got)
		}
		do("DEL", key)
	}
}

// testSubscribe tests that messages arrive before and after the connection is killed.
func testSubscribe(t *testing.T, d driver.Driver, peer Peer) {
	l := newListener()
	cancel := d.Subscribe(l.subscription("{c}hannel"))
	l.await(t, "up")
	// The server has the subscription, so no message published from now on is lost.
	if _, err := peer.Do("PUBLISH", "{c}hannel", "one two\r\n"); err != nil {
		t.Fatal(err)
	}
	l.await(t, "message one two\r\n")
	if _, err := peer.Do("PUBLISH", "{c}hannel2", "to others"); err != nil {
		t.Fatal(err)
	}
	if _, err := peer.Do("CLIENT", "KILL", "TYPE", "pubsub"); err == nil {
		l.await(t, "down")
		l.await(t, "up")
		if _, err := peer.Do("PUBLISH", "{c}hannel", "again"); err != nil {
			t.Fatal(err)
		}
		l.await(t, "message again")
	}
	cancel()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		n, err := peer.Do("PUBLISH", "{c}hannel", "to nobody")
		if err != nil {
			t.Fatal(err)
		}
		if n == "0" {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the server still has a subscription after cancel")
		}
	}
}

// testSubscriptions tests that many subscriptions share a connection, and that a channel can be subscribed to again.
func testSubscriptions(t *testing.T, d driver.Driver, peer Peer) {
	const many = 30
	channel := func(i int) string { return fmt.Sprint("{c}", i) }
	var listeners [many]*listener
	var cancels [many]func()
	subscribe := func(i int, channel string) {
		listeners[i] = newListener()
		cancels[i] = d.Subscribe(listeners[i].subscription(channel))
	}
	publish := func(channel, text string) {
		t.Helper()
		if _, err := peer.Do("PUBLISH", channel, text); err != nil {
			t.Fatal(err)
		}
	}
	for i := range many {
		subscribe(i, channel(i))
		listeners[i].await(t, "up")
	}
	if list, err := peer.Do("CLIENT", "LIST", "TYPE", "PUBSUB"); err == nil {
		if n := strings.Count(list, "id="); n > 2 {
			t.Errorf("%d subscriptions use %d connections, want at most 2", many, n)
		}
	}
	publish(channel(0), "to one")
	listeners[0].await(t, "message to one")
	for round := range 20 { // the end of a subscription must not end the next one
		text := fmt.Sprint("round ", round)
		cancels[1]()
		subscribe(1, channel(1))
		listeners[1].await(t, "up")
		publish(channel(1), text)
		listeners[1].await(t, "message "+text)
	}
	for _, cancel := range cancels {
		cancel()
		cancel() // calling it again does nothing
	}
}

// listener records the events of a subscription.
type listener struct {
	mu     sync.Mutex
	events chan string
}

func newListener() *listener { return &listener{events: make(chan string, 100)} }

// subscription returns a subscription whose events the listener records.
func (l *listener) subscription(channel string) driver.Subscription {
	return driver.Subscription{
		Channel: channel,
		Up:      func() { l.record("up") }, Down: func(error) { l.record("down") }, Message: func(text string) { l.record("message " + text) },
	}
}

func (l *listener) record(event string) {
	if !l.mu.TryLock() {
		l.events <- "two calls at once"
		return
	}
	defer l.mu.Unlock()
	l.events <- event
}

// await waits for an event. It ignores interruptions, which may be repeated.
func (l *listener) await(t *testing.T, want string) {
	t.Helper()
	for {
		select {
		case got := <-l.events:
			if got == want {
				return
			}
			if got != "down" {
				t.Fatalf("the event is %q, want %q", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no event %q within 10s", want)
		}
	}
}
