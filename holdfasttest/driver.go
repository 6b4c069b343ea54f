package holdfasttest

import (
	"context"
	"errors"
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
	t.Run("Subscribe", func(t *testing.T) {
		testSubscribe(t, d, peer)
	})
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
