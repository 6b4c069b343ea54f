package proxy

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/resp"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// patience is how long a test waits for a reply that should not come.
const patience = 150 * time.Millisecond

func start(t *testing.T) (*server.Server, *Proxy) {
	t.Helper()
	s := server.Start(t, server.One(t))
	return s, New(t, s.Addr())
}

func dial(t *testing.T, p *Proxy, timeout time.Duration) *resp.Conn {
	t.Helper()
	c, err := resp.Dial(p.Addr(), 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	c.SetTimeout(timeout)
	t.Cleanup(func() { c.Close() })
	return c
}

func expect(t *testing.T, c interface{ Do(...any) (any, error) }, want any, args ...any) {
	t.Helper()
	if got, err := c.Do(args...); err != nil || got != want {
		t.Errorf("%.60v: got %.60v, %v; want %.60v", args, got, err, want)
	}
}

func expectTimeout(t *testing.T, err error) {
	t.Helper()
	var e net.Error
	if !errors.As(err, &e) || !e.Timeout() {
		t.Errorf("got %v; want a timeout", err)
	}
}

func expectCut(t *testing.T, err error) {
	t.Helper()
	var e net.Error
	if err == nil || errors.As(err, &e) && e.Timeout() || errors.As(err, new(resp.Error)) {
		t.Errorf("got %v; want a broken connection", err)
	}
}

// eventually waits until the server's reply is the wanted one.
func eventually(t *testing.T, s *server.Server, want any, args ...any) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		if got, err := s.Do(args...); err == nil && got == want {
			return
		}
	}
	expect(t, s, want, args...)
}

func TestForwards(t *testing.T) {
	s, p := start(t)
	c := dial(t, p, 30*time.Second)
	big := strings.Repeat("x", 1<<20)
	expect(t, c, "OK", "SET", "big", big)
	expect(t, c, big, "GET", "big")
	for range 100 {
		if err := c.Send("INCR", "n"); err != nil {
			t.Fatal(err)
		}
	}
	for i := range int64(100) {
		if got, err := c.Receive(); err != nil || got != i+1 {
			t.Fatalf("reply %d of a pipeline: %v, %v", i+1, got, err)
		}
	}
	s.Kill()
	_, err := c.Do("PING") // EOF, or a reset if it was sent after the end
	expectCut(t, err)
}

func TestDelayReplies(t *testing.T) {
	s, p := start(t)
	c := dial(t, p, 30*time.Second)
	p.DelayReplies(patience)
	began := time.Now()
	expect(t, c, int64(1), "INCR", "n")
	if took := time.Since(began); took < patience {
		t.Errorf("answered after %v", took)
	}
	p.DelayReplies(time.Hour)
	late := dial(t, p, 30*time.Second)
	if err := late.Send("INCR", "n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, s, "2", "GET", "n") // requests are not delayed
	late.SetTimeout(patience)
	_, err := late.Receive()
	expectTimeout(t, err)
	p.DelayReplies(0)
	expect(t, c, "PONG", "PING")
}

func TestDelayIsALatencyNotARate(t *testing.T) {
	_, p := start(t)
	c := dial(t, p, 30*time.Second)
	machine.Unhurried(t, patience, func(delay time.Duration) error {
		p.DelayRequests(delay)
		began := time.Now()
		const requests = 20
		for range requests {
			if err := c.Send("PING"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Millisecond) // so that they are read one by one
		}
		for range requests {
			if _, err := c.Receive(); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < delay || took > requests*delay/2 {
			return fmt.Errorf("%d requests, each delayed by %v, took %v", requests, delay, took)
		}
		return nil
	})
}

func TestDelayedRequestOutlivesItsClient(t *testing.T) {
	s, p := start(t)
	machine.Unhurried(t, patience, func(delay time.Duration) error {
		do(t, s, "DEL", "key")
		c := dial(t, p, 30*time.Second)
		p.DelayRequests(delay)
		if err := c.Send("SET", "key", "late"); err != nil {
			t.Fatal(err)
		}
		c.Close()
		if got := do(t, s, "GET", "key"); got != nil {
			return fmt.Errorf("the request was there at once: %v", got)
		}
		eventually(t, s, "late", "GET", "key")
		return nil
	})
}

func do(t *testing.T, s *server.Server, args ...any) any {
	t.Helper()
	got, err := s.Do(args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return got
}

func TestSwallowReplies(t *testing.T) {
	s, p := start(t)
	p.SwallowReplies(true)
	lossy := dial(t, p, patience)
	_, err := lossy.Do("SET", "key", "value")
	expectTimeout(t, err)
	eventually(t, s, "value", "GET", "key")
	p.SwallowReplies(false)
	_, err = lossy.Do("GET", "key") // its reply comes after the gap
	expectTimeout(t, err)
	expect(t, dial(t, p, 30*time.Second), "value", "GET", "key")
}

func TestCut(t *testing.T) {
	s, p := start(t)
	machine.Unhurried(t, patience, func(delay time.Duration) error {
		do(t, s, "DEL", "key")
		a, b := dial(t, p, 30*time.Second), dial(t, p, 30*time.Second)
		expect(t, a, "PONG", "PING")
		expect(t, b, "PONG", "PING")
		p.DelayRequests(delay)
		if err := a.Send("SET", "key", "lost"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(delay / 5) // the request is in the proxy now
		p.DelayRequests(0)
		p.Cut()
		for _, c := range []*resp.Conn{a, b} {
			_, err := c.Receive()
			expectCut(t, err)
		}
		time.Sleep(delay * 2)
		if got := do(t, s, "GET", "key"); got != nil {
			return fmt.Errorf("the request got through: %v", got)
		}
		return nil
	})
	expect(t, dial(t, p, 30*time.Second), "PONG", "PING")
}

func TestRefuse(t *testing.T) {
	_, p := start(t)
	old := dial(t, p, 30*time.Second)
	expect(t, old, "PONG", "PING")
	p.Refuse(true)
	_, err := dial(t, p, 30*time.Second).Do("PING")
	expectCut(t, err)
	expect(t, old, "PONG", "PING")
	p.Refuse(false)
	expect(t, dial(t, p, 30*time.Second), "PONG", "PING")
}

// Neither a silent server nor a delay may hold up the end.
func TestEndsAtOnce(t *testing.T) {
	s := server.Start(t, server.One(t))
	before := runtime.NumGoroutine()
	var ending time.Time
	t.Run("busy proxy", func(t *testing.T) {
		p := New(t, s.Addr())
		p.Double(Containing("PING"))
		s.Pause()
		a, b := dial(t, p, patience), dial(t, p, patience)
		_, err := a.Do("PING")
		expectTimeout(t, err)
		p.DelayRequests(time.Hour)
		_, err = b.Do("PING")
		expectTimeout(t, err)
		ending = time.Now()
	})
	if took := time.Since(ending); took > 30*time.Second { // there is a delay of an hour
		t.Errorf("the proxy took %v to end", took)
	}
	for limit := time.Now().Add(30 * time.Second); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		if runtime.NumGoroutine() <= before {
			return
		}
	}
	t.Errorf("%d goroutines before, %d after", before, runtime.NumGoroutine())
}

func TestDeafenAndCutSubscriptions(t *testing.T) {
	s, p := start(t)
	other := dial(t, p, 30*time.Second)
	subscriber := dial(t, p, 30*time.Second)
	if _, err := subscriber.Do("SUBSCRIBE", "channel"); err != nil {
		t.Fatal(err)
	}
	p.Deafen(true)
	expect(t, other, int64(1), "PUBLISH", "channel", "unheard")
	subscriber.SetTimeout(patience)
	_, err := subscriber.Receive()
	expectTimeout(t, err)
	p.Deafen(false)

	subscriber = dial(t, p, 30*time.Second)
	if _, err := subscriber.Do("SUBSCRIBE", "channel"); err != nil {
		t.Fatal(err)
	}
	p.CutSubscriptions()
	_, err = subscriber.Receive()
	expectCut(t, err)
	eventually(t, s, int64(0), "PUBLISH", "channel", "nobody")
	expect(t, other, "PONG", "PING")
}
