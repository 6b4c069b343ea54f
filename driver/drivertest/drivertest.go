// Package drivertest has the suite that every driver of Holdfast passes.
package drivertest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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

// Run tests that a driver does what driver.Driver says, and driver.Batcher if it is one. open returns a new driver
// for a server on which nothing else happens. Adapters run it against every kind of server and client that they
// support. Whether a script is sent only once when its reply is lost takes a network that loses replies: adapters
// test that with one of their own.
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
			for range 2 { // not loaded, and loaded
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
	t.Run("Run's errors", func(t *testing.T) {
		for source, want := range map[string]string{
			"return redis.error_reply('WRONGTYPE by hand')": "WRONGTYPE by hand",
			"return redis.error_reply('ERR by hand')":       "ERR by hand", // some client libraries take ERR away
		} {
			_, err := d.Run(ctx, driver.Call{Script: driver.NewScript("test", source), Keys: []string{"k"}})
			if err != driver.ReplyError(want) {
				t.Errorf("an error that the server sends is %#v, want %#v, not wrapped", err, driver.ReplyError(want))
			}
		}
		ended, cancel := context.WithTimeout(ctx, time.Nanosecond)
		defer cancel()
		<-ended.Done()
		if _, err := d.Run(ended, driver.Call{Script: driver.NewScript("test", "return 'x'"), Keys: []string{"k"}, Urgent: true}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run with a context that has ended: %v", err)
		}
	})
	t.Run("RunAll", func(t *testing.T) {
		b, ok := d.(driver.Batcher)
		if !ok {
			t.Skip("it is no Batcher")
		}
		testRunAll(t, ctx, b)
	})
	t.Run("Run of a command", func(t *testing.T) {
		testCommand(t, d, peer)
	})
	t.Run("RunDurably", func(t *testing.T) {
		durable, ok := d.(driver.Durable)
		if !ok {
			t.Skip("it is not Durable")
		}
		if _, err := peer.Do("WAIT", "0", "1"); err != nil {
			t.Skipf("the server has no WAIT: %v", err)
		}
		testRunDurably(t, ctx, durable)
	})
	t.Run("Subscribe", func(t *testing.T) {
		testSubscribe(t, d, peer)
	})
	t.Run("many subscriptions", func(t *testing.T) {
		testSubscriptions(t, d, peer)
	})
}

// testRunDurably waits for a replica that does not exist.
func testRunDurably(t *testing.T, ctx context.Context, d driver.Durable) {
	count := driver.NewScript("test", "return 'durably ' .. redis.call('INCR', KEYS[1])")
	call := driver.Call{Script: count, Keys: []string{"{k}durably"}}
	for round := 1; round <= 2; round++ { // not loaded, and loaded
		reply, reached, err := d.RunDurably(ctx, call, driver.Durability{Replicas: 1, Timeout: 10 * time.Millisecond})
		if reply != fmt.Sprint("durably ", round) || reached != (driver.Confirmation{}) || err != nil {
			t.Errorf("RunDurably = %q, %+v, %v", reply, reached, err)
		}
	}
	// It would outlast ctx if it waited for what does not count.
	reply, reached, err := d.RunDurably(ctx, call, driver.Durability{Replicas: 1, Timeout: time.Hour, Counts: func(reply string) bool { return reply != "durably 3" }})
	if reply != "durably 3" || reached != (driver.Confirmation{}) || err != nil {
		t.Errorf("RunDurably of a reply that does not count = %q, %+v, %v", reply, reached, err)
	}
	call.Script = driver.NewScript("test", "return redis.error_reply('WRONGTYPE by hand')")
	if reply, _, err := d.RunDurably(ctx, call, driver.Durability{Replicas: 1, Timeout: 10 * time.Millisecond}); reply != "" || err != driver.ReplyError("WRONGTYPE by hand") {
		t.Errorf("RunDurably of a script that fails = %q, %#v", reply, err)
	}
}

// testRunAll has several scripts run at once, of which some are not loaded and some fail.
func testRunAll(t *testing.T, ctx context.Context, d driver.Batcher) {
	sum := driver.NewScript("test", "return 'sum ' .. redis.call('INCRBY', KEYS[1], ARGV[1])")
	wrong := driver.NewScript("test", "return redis.error_reply('WRONGTYPE by hand')")
	for round, urgent := range []bool{false, true} {
		var calls []driver.Call
		for i := range 20 {
			calls = append(calls, driver.Call{Script: sum, Keys: []string{fmt.Sprint("{k}", i)}, Args: []string{strconv.Itoa(i + 1)}, Urgent: urgent})
		}
		calls[7] = driver.Call{Script: wrong, Keys: []string{"{k}"}}
		calls[11].Script = driver.NewScript("test", sum.Source+fmt.Sprintf(" .. ' %d'", round)) // never loaded before
		calls[15] = driver.Call{Script: driver.Script{Name: "delifeq", Command: "delifeq"}, Keys: []string{"{k}none"}, Args: []string{"a"}}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		for i, told := range runAll(t, ended, d, calls) {
			if told.err == nil {
				t.Errorf("call %d is answered %q although its context has ended", i, told.reply)
			}
		}
		for i, told := range runAll(t, ctx, d, calls) {
			want := fmt.Sprintf("sum %d", (round+1)*(i+1))
			if i == 11 {
				want += fmt.Sprintf(" %d", round)
			}
			var reply driver.ReplyError
			switch {
			case i == 7 && (!errors.As(told.err, &reply) || !strings.HasPrefix(string(reply), "WRONGTYPE")):
				t.Errorf("an error that the server sends is %#v", told.err)
			case i == 15:
				if told.reply != "0" && (!errors.As(told.err, &reply) || !strings.HasPrefix(string(reply), "ERR unknown command")) {
					t.Errorf("a command of the server's own: %q, %v", told.reply, told.err)
				}
			case i != 7 && (told.reply != want || told.err != nil):
				t.Errorf("call %d: %q, %v; want %q", i, told.reply, told.err, want)
			}
		}
	}
}

// outcome is what became of a Call.
type outcome struct {
	reply string
	err   error
}

// runAll has a driver run calls, and returns what it told of each. It fails the test if that is not
// once.
func runAll(t *testing.T, ctx context.Context, d driver.Batcher, calls []driver.Call) []outcome {
	t.Helper()
	var mu sync.Mutex
	all, times := make([]outcome, len(calls)), make([]int, len(calls))
	d.RunAll(ctx, calls, func(i int, reply string, err error) {
		mu.Lock()
		defer mu.Unlock()
		all[i] = outcome{reply, err}
		times[i]++
	})
	mu.Lock()
	defer mu.Unlock()
	for i, n := range times {
		if n != 1 {
			t.Errorf("of call %d was told %d times", i, n)
		}
	}
	return all
}

// testCommand deletes a key by its value, with a command of the server's own; or expects to be told that it does
// not have that, and that it has done nothing.
func testCommand(t *testing.T, d driver.Driver, peer Peer) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	do := func(want string, command ...string) {
		t.Helper()
		if got, err := peer.Do(command...); err != nil || want != "" && got != want {
			t.Fatalf("%q: %q, %v; want %q", command, got, err, want)
		}
	}
	deleteIfEqual := func(ctx context.Context, value string, urgent bool) (string, error) {
		return d.Run(ctx, driver.Call{Script: driver.Script{Name: "delifeq", Command: "delifeq"}, Keys: []string{"{k}1"}, Args: []string{value}, Urgent: urgent})
	}
	const value = "a\r\n:b "
	for _, urgent := range []bool{false, true} {
		do("", "SET", "{k}1", value)
		got, err := deleteIfEqual(ctx, value+"+", urgent)
		var reply driver.ReplyError
		if errors.As(err, &reply) && strings.HasPrefix(string(reply), "ERR unknown command") {
			if info, err := d.Probe(ctx); err != nil || info.Server == "valkey" && !strings.HasPrefix(info.Version, "7.") && !strings.HasPrefix(info.Version, "8.") {
				t.Errorf("%+v, %v: %v", info, err, reply)
			}
			do("1", "EXISTS", "{k}1")
			do("1", "DEL", "{k}1")
			continue
		}
		if got != "0" || err != nil {
			t.Errorf("a key of another value: %q, %v", got, err)
		}
		do("1", "EXISTS", "{k}1")
		for _, want := range []string{"1", "0"} {
			if got, err := deleteIfEqual(ctx, value, urgent); got != want || err != nil {
				t.Errorf("the reply is %q, %v; want %s", got, err, want)
			}
			do("0", "EXISTS", "{k}1")
		}
		do("1", "HSET", "{k}1", "field", value)
		if got, err := deleteIfEqual(ctx, value, urgent); got != "" || !errors.As(err, &reply) || !strings.HasPrefix(string(reply), "WRONGTYPE") {
			t.Errorf("a key that is no string: %q, %#v", got, err)
		}
		do("1", "DEL", "{k}1")
		do("", "SET", "{k}1", value)
		ended, stop := context.WithTimeout(ctx, time.Nanosecond)
		<-ended.Done()
		if got, err := deleteIfEqual(ended, value, urgent); err == nil {
			t.Errorf("with a context that has ended: %q, %v", got, err)
		}
		stop()
		do("1", "DEL", "{k}1")
	}
}

// testSubscribe subscribes, is interrupted, and hears messages before and after.
func testSubscribe(t *testing.T, d driver.Driver, peer Peer) {
	heard := &sink{events: make(chan string, 100)}
	cancel := d.Subscribe(heard.of("{c}hannel"))
	heard.await(t, "up")
	// Up is told when the server has it, so nothing published now is lost.
	if _, err := peer.Do("PUBLISH", "{c}hannel", "one two\r\n"); err != nil {
		t.Fatal(err)
	}
	heard.await(t, "message one two\r\n")
	if _, err := peer.Do("PUBLISH", "{c}hannel2", "to others"); err != nil {
		t.Fatal(err)
	}
	if _, err := peer.Do("CLIENT", "KILL", "TYPE", "pubsub"); err == nil {
		heard.await(t, "down")
		heard.await(t, "up")
		if _, err := peer.Do("PUBLISH", "{c}hannel", "again"); err != nil {
			t.Fatal(err)
		}
		heard.await(t, "message again")
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

// testSubscriptions has many subscriptions, which share a connection, and some to one channel.
func testSubscriptions(t *testing.T, d driver.Driver, peer Peer) {
	const many = 30
	// go-redis 9.20 keeps the confirmation of a shorter name back for seconds, with RESP3.
	channel := func(i int) string { return fmt.Sprint("holdfast:{c}hannel-of-many-", i) }
	var heard [many]*sink
	var cancels [many]func()
	subscribe := func(i int, channel string) {
		heard[i] = &sink{events: make(chan string, 100)}
		cancels[i] = d.Subscribe(heard[i].of(channel))
	}
	publish := func(channel, text string) {
		t.Helper()
		if _, err := peer.Do("PUBLISH", channel, text); err != nil {
			t.Fatal(err)
		}
	}
	for i := range many {
		subscribe(i, channel(i))
		heard[i].await(t, "up")
	}
	if list, err := peer.Do("CLIENT", "LIST", "TYPE", "PUBSUB"); err == nil {
		if n := strings.Count(list, "id="); n > 2 {
			t.Errorf("%d subscriptions have %d connections", many, n)
		}
	}
	other := &sink{events: make(chan string, 100)}
	cancel := d.Subscribe(other.of(channel(0)))
	other.await(t, "up")
	publish(channel(0), "to both")
	heard[0].await(t, "message to both")
	other.await(t, "message to both")
	cancel()
	publish(channel(0), "to one")
	heard[0].await(t, "message to one")
	for round := range 20 { // the end of a subscription does not end the next
		text := fmt.Sprint("round ", round)
		cancels[1]()
		subscribe(1, channel(1))
		heard[1].await(t, "up")
		publish(channel(1), text)
		heard[1].await(t, "message "+text)
	}
	for _, cancel := range cancels {
		cancel()
		cancel() // again
	}
}

// sink records what a driver tells.
type sink struct {
	mu     sync.Mutex
	events chan string
}

// of is a subscription of which the sink is told.
func (s *sink) of(channel string) driver.Subscription {
	return driver.Subscription{
		Channel: channel,
		Up:      func() { s.tell("up") }, Down: func(error) { s.tell("down") }, Message: func(text string) { s.tell("message " + text) },
	}
}

func (s *sink) tell(event string) {
	// Calls must not overlap; the race detector sees those that do.
	if !s.mu.TryLock() {
		s.events <- "two calls at once"
		return
	}
	defer s.mu.Unlock()
	s.events <- event
}

func (s *sink) await(t *testing.T, want string) {
	t.Helper()
	for {
		select {
		case got := <-s.events:
			if got == want {
				return
			}
			if got != "down" { // interruptions may come in pairs
				t.Fatalf("the sink hears %q; want %q", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("the sink does not hear %q", want)
		}
	}
}
