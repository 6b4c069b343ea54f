package holdfasttest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Peer is another client of the server that a driver is tested with.
type Peer interface {
	// Do runs a command and returns its reply as text.
	Do(args ...string) (string, error)
}

// RunDriver tests that a driver does what holdfast.Driver says. open returns a new
// driver for a server on which nothing else goes on. Adapters run it against every kind
// of server and client that they support. That a script is sent once, whatever becomes of its reply, needs a
// way to the server that loses replies: adapters test it with one.
func RunDriver(t *testing.T, open func(*testing.T) holdfast.Driver, peer Peer) {
	d := open(t)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)

	t.Run("Probe", func(t *testing.T) {
		info, err := d.Probe(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if info.Server == "" || info.Version == "" || time.Since(time.UnixMicro(info.Time)).Abs() > time.Hour {
			t.Errorf("Probe = %+v", info)
		}
		if d.Addr() == "" {
			t.Error("Addr is empty")
		}
	})
	t.Run("Eval", func(t *testing.T) {
		s := holdfast.NewScript("return KEYS[1] .. ' ' .. ARGV[1] .. ' ' .. #KEYS .. ' ' .. #ARGV")
		for _, urgent := range []bool{false, true} {
			for range 2 { // not loaded, and loaded
				got, err := d.Eval(ctx, s, []string{"{k}1", "{k}2"}, []string{"a\r\nb", ""}, urgent)
				if want := "{k}1 a\r\nb 2 2"; got != want || err != nil {
					t.Errorf("Eval = %q, %v; want %q", got, err, want)
				}
			}
			if _, err := peer.Do("SCRIPT", "FLUSH"); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("Eval's errors", func(t *testing.T) {
		var reply holdfast.ReplyError
		_, err := d.Eval(ctx, holdfast.NewScript("return redis.error_reply('WRONGTYPE by hand')"), []string{"k"}, nil, false)
		if !errors.As(err, &reply) || !strings.HasPrefix(string(reply), "WRONGTYPE") {
			t.Errorf("an error that the server sends is %#v", err)
		}
		if errors.Is(err, holdfast.ErrNotSent) {
			t.Error("an error that the server sends is said not to be sent")
		}
		ended, cancel := context.WithTimeout(ctx, time.Nanosecond)
		defer cancel()
		<-ended.Done()
		if _, err := d.Eval(ended, holdfast.NewScript("return 'x'"), []string{"k"}, nil, true); err == nil {
			t.Error("Eval succeeds although its context has ended")
		}
	})
	t.Run("EvalAll", func(t *testing.T) {
		testEvalAll(t, ctx, d)
	})
	t.Run("Eval of a command", func(t *testing.T) {
		testCommand(t, d, peer)
	})
	t.Run("Subscribe", func(t *testing.T) {
		testSubscribe(t, d, peer)
	})
}

// testEvalAll has several scripts run at once, of which some are not loaded and some fail.
func testEvalAll(t *testing.T, ctx context.Context, d holdfast.Driver) {
	sum := holdfast.NewScript("return 'sum ' .. redis.call('INCRBY', KEYS[1], ARGV[1])")
	wrong := holdfast.NewScript("return redis.error_reply('WRONGTYPE by hand')")
	for round, urgent := range []bool{false, true} {
		var calls []holdfast.Call
		for i := range 20 {
			calls = append(calls, holdfast.Call{Script: sum, Keys: []string{fmt.Sprint("{k}", i)}, Args: []string{strconv.Itoa(i + 1)}})
		}
		calls[7] = holdfast.Call{Script: wrong, Keys: []string{"{k}"}}
		calls[11].Script = holdfast.NewScript(sum.Source + fmt.Sprintf(" .. ' %d'", round)) // never loaded before
		calls[15] = holdfast.Call{Script: holdfast.Script{Name: "delifeq", Command: "delifeq"}, Keys: []string{"{k}none"}, Args: []string{"a"}}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		for i, told := range evalAll(t, ended, d, calls, urgent) {
			if told.err == nil {
				t.Errorf("call %d is answered %q although its context has ended", i, told.reply)
			}
		}
		for i, told := range evalAll(t, ctx, d, calls, urgent) {
			want := fmt.Sprintf("sum %d", (round+1)*(i+1))
			if i == 11 {
				want += fmt.Sprintf(" %d", round)
			}
			var reply holdfast.ReplyError
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

// evalAll has a driver run calls, and returns what it told of each. It fails the test if that is not
// once.
func evalAll(t *testing.T, ctx context.Context, d holdfast.Driver, calls []holdfast.Call, urgent bool) []outcome {
	t.Helper()
	var mu sync.Mutex
	all, times := make([]outcome, len(calls)), make([]int, len(calls))
	d.EvalAll(ctx, calls, urgent, func(i int, reply string, err error) {
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
func testCommand(t *testing.T, d holdfast.Driver, peer Peer) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	do := func(want string, command ...string) {
		t.Helper()
		if got, err := peer.Do(command...); err != nil || want != "" && got != want {
			t.Fatalf("%q: %q, %v; want %q", command, got, err, want)
		}
	}
	deleteIfEqual := func(ctx context.Context, value string, urgent bool) (string, error) {
		return d.Eval(ctx, holdfast.Script{Name: "delifeq", Command: "delifeq"}, []string{"{k}1"}, []string{value}, urgent)
	}
	const value = "a\r\n:b "
	for _, urgent := range []bool{false, true} {
		do("", "SET", "{k}1", value)
		got, err := deleteIfEqual(ctx, value+"+", urgent)
		var reply holdfast.ReplyError
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
func testSubscribe(t *testing.T, d holdfast.Driver, peer Peer) {
	heard := &sink{events: make(chan string, 100)}
	sub := d.Subscribe("{c}hannel", false, heard)
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
	sub.Close()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		n, err := peer.Do("PUBLISH", "{c}hannel", "to nobody")
		if err != nil {
			t.Fatal(err)
		}
		if n == "0" {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the server still has a subscription after Close")
		}
	}
}

// sink records what a driver tells.
type sink struct {
	mu     sync.Mutex
	events chan string
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

func (s *sink) Up()                 { s.tell("up") }
func (s *sink) Down(error)          { s.tell("down") }
func (s *sink) Message(text string) { s.tell("message " + text) }

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
