package drivertest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// RunWrapper tests that a wrapper hides no ability of the driver that it wraps. The library must find Batcher, Durable and Cluster
// exactly where the wrapped driver has them, and calls and results must pass through unchanged. wrap returns a wrapper of
// the driver that it is given: see driver.Wrapper. RunWrapper needs no server.
func RunWrapper(t *testing.T, wrap func(driver.Driver) driver.Driver) {
	t.Run("a driver with all interfaces", func(t *testing.T) {
		inner := &echo{}
		testWrapper(t, wrap(inner), inner, true)
	})
	t.Run("a driver without optional interfaces", func(t *testing.T) {
		inner := &echo{}
		testWrapper(t, wrap(struct{ driver.Driver }{inner}), inner, false)
	})
}

func testWrapper(t *testing.T, d driver.Driver, inner *echo, full bool) {
	ctx := t.Context()
	call := driver.Call{Script: driver.NewScript("test", "return 1"), Keys: []string{"k"}, Args: []string{"a"}, Urgent: true}
	if got, err := d.Run(ctx, call); got != "k" || err != errEcho {
		t.Errorf("Run = %q, %v; want %q, %v", got, err, "k", errEcho)
	}
	if got, err := d.Probe(ctx); got != echoInfo || err != errEcho {
		t.Errorf("Probe = %+v, %v; want %+v, %v", got, err, echoInfo, errEcho)
	}
	if got := d.Addr(); got != "echo" {
		t.Errorf("Addr = %q, want %q", got, "echo")
	}
	message := ""
	cancel := d.Subscribe(driver.Subscription{Channel: "c", Message: func(text string) { message = text }})
	if message != "c" {
		t.Errorf("a subscription gets the message %q, want %q", message, "c")
	}
	cancel()
	if !inner.cancelled {
		t.Error("the subscription's cancel does not reach the wrapped driver")
	}

	batcher, is := driver.As[driver.Batcher](d)
	if has(t, "Batcher", is, full) {
		replies := make([]string, 2)
		batcher.RunAll(ctx, []driver.Call{call, {Keys: []string{"other"}}}, func(i int, reply string, err error) {
			if replies[i] = reply; err != errEcho {
				t.Errorf("RunAll tells the error %v, want %v", err, errEcho)
			}
		})
		if want := []string{"k", "other"}; !slices.Equal(replies, want) {
			t.Errorf("RunAll tells %q, want %q", replies, want)
		}
	}
	durable, is := driver.As[driver.Durable](d)
	if has(t, "Durable", is, full) {
		reply, reached, err := durable.RunDurably(ctx, call, driver.Durability{Replicas: 3, Fsync: true, Timeout: time.Second})
		if want := (driver.Confirmation{Replicas: 3, Fsync: true}); reply != "k" || reached != want || err != errEcho {
			t.Errorf("RunDurably = %q, %+v, %v; want %q, %+v, %v", reply, reached, err, "k", want, errEcho)
		}
	}
	cluster, is := driver.As[driver.Cluster](d)
	if has(t, "Cluster", is, full) && cluster.Node("k") != "node of k" {
		t.Errorf("Node = %q, want %q", cluster.Node("k"), "node of k")
	}

	if err := d.Close(); err != errEcho || !inner.closed {
		t.Errorf("Close = %v, want %v; the wrapped driver is closed: %t", err, errEcho, inner.closed)
	}
}

// has requires that the library finds an interface of the wrapper if wanted, and only then. It reports whether to test it.
func has(t *testing.T, name string, is, want bool) bool {
	t.Helper()
	switch {
	case want && !is:
		t.Errorf("the wrapper hides that the driver is a driver.%s: it needs Unwrap, or that interface", name)
	case is && !want:
		t.Errorf("the wrapper is a driver.%s although the driver is not: it needs Unwrap", name)
	}
	return is && want
}

var (
	errEcho  = errors.New("echo")
	echoInfo = driver.ServerInfo{Server: "redis", Version: "7.0.15"}
)

// echo is a driver that answers each call with the call's first key, and with an error.
type echo struct{ cancelled, closed bool }

func (e *echo) Run(_ context.Context, c driver.Call) (string, error) { return c.Keys[0], errEcho }

func (e *echo) RunAll(ctx context.Context, calls []driver.Call, tell func(int, string, error)) {
	for i, c := range calls {
		reply, err := e.Run(ctx, c)
		tell(i, reply, err)
	}
}

func (e *echo) RunDurably(ctx context.Context, c driver.Call, d driver.Durability) (string, driver.Confirmation, error) {
	reply, err := e.Run(ctx, c)
	return reply, driver.Confirmation{Replicas: d.Replicas, Fsync: d.Fsync}, err
}

func (e *echo) Subscribe(s driver.Subscription) (cancel func()) {
	s.Message(s.Channel)
	return func() { e.cancelled = true }
}

func (e *echo) Probe(context.Context) (driver.ServerInfo, error) { return echoInfo, errEcho }
func (e *echo) Node(key string) string                           { return "node of " + key }
func (e *echo) Addr() string                                     { return "echo" }

func (e *echo) Close() error {
	e.closed = true
	return errEcho
}
