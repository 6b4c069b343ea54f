package proxy

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/resp"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// The faults here are those that a test of a lock could miss: it would pass if they did not happen.

// silence is how long a test waits for a reply that should not come.
const silence = 150 * time.Millisecond

func start(t *testing.T) (*server.Server, *Proxy) {
	t.Helper()
	s := server.Start(t, server.One(t))
	return s, New(t, s.Addr())
}

func dial(t *testing.T, p *Proxy) *resp.Conn {
	t.Helper()
	c := expect.Of(resp.Dial(p.Addr(), 30*time.Second)).OK(t)
	t.Cleanup(func() { c.Close() })
	return c
}

func wants(t *testing.T, c interface{ Do(...any) (any, error) }, want any, args ...any) {
	t.Helper()
	expect.Of(c.Do(args...)).Is(t, fmt.Sprint(args...), want)
}

// wantsNone requires that a reply does not come, and that the connection stays open.
func wantsNone(t *testing.T, c *resp.Conn) {
	t.Helper()
	c.SetTimeout(silence)
	var e net.Error
	if got, err := c.Receive(); !errors.As(err, &e) || !e.Timeout() {
		t.Errorf("got %v, %v; want a timeout", got, err)
	}
}

// A delay is a latency: it does not bound how many requests pass in a time.
func TestDelays(t *testing.T) {
	_, p := start(t)
	c := dial(t, p)
	machine.Unhurried(t, silence, func(delay time.Duration) error {
		p.DelayRequests(delay / 2)
		p.DelayReplies(delay / 2)
		began := time.Now()
		const requests = 20
		for range requests {
			expect.OK(t, c.Send("PING"))
			time.Sleep(2 * time.Millisecond) // so that they are read one by one
		}
		for range requests {
			expect.OK(t, expect.ErrOf(c.Receive()))
		}
		if took := time.Since(began); took < delay || took > requests*delay/2 {
			return fmt.Errorf("%d requests, each delayed by %v, took %v", requests, delay, took)
		}
		return nil
	})
}

// What is held does not reach the server until it is forwarded, and neither does what the client sends after it.
func TestHold(t *testing.T) {
	s, p := start(t)
	held := p.Hold(Containing("APPEND", "first"), Hang)
	c := dial(t, p)
	wants(t, c, int64(1), "APPEND", "key", "0")
	for _, text := range []string{"first", "behind"} {
		expect.OK(t, c.Send("APPEND", "key", text))
	}
	held.Wait(t)
	wantsNone(t, c)
	wants(t, dial(t, p), int64(6), "APPEND", "key", "first") // a trap springs once
	wants(t, s, "0first", "GET", "key")
	expect.Equal(t, "the reply to the late copy", held.Forward(t), ":11\r\n")
	wants(t, s, "0firstfirst", "GET", "key")
}

func TestDeafenAndCutSubscriptions(t *testing.T) {
	_, p := start(t)
	other := dial(t, p)
	subscribe := func() *resp.Conn {
		c := dial(t, p)
		expect.OK(t, expect.ErrOf(c.Do("SUBSCRIBE", "channel")))
		return c
	}
	deaf := subscribe()
	p.Deafen(true)
	wants(t, other, int64(1), "PUBLISH", "channel", "unheard")
	wantsNone(t, deaf)
	p.Deafen(false)
	cut := subscribe()
	p.CutSubscriptions()
	var e net.Error
	if _, err := cut.Receive(); err == nil || errors.As(err, &e) && e.Timeout() {
		t.Errorf("got %v; want a broken connection", err)
	}
	wants(t, other, "PONG", "PING")
}
