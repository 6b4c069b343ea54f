package inspect_test

import (
	"context"
	"errors"
	"net"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// newClient returns a client with a prefix that no other test has, of a server that all tests share.
func newClient(t *testing.T) *holdfast.Client {
	t.Helper()
	c, err := holdfast.New(redistest.Shared(t).Driver(), &holdfast.Config{
		Prefix: redistest.Prefix(), TTL: time.Minute, CommandTimeout: 10 * time.Second, RetryTimeout: time.Minute, Identity: "me",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestBadArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	in := inspect.New(newClient(t))
	for _, err := range in.List(t.Context(), "a[") {
		if !errors.Is(err, holdfast.ErrInvalid) || !errors.Is(err, path.ErrBadPattern) {
			t.Errorf("List: %v", err)
		}
	}
	if _, err := in.Get(t.Context(), "a\nb"); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("Get: %v", err)
	}
}

// An error about many locks names no lock, but what was tried, and where.
func TestErrorsSayWhatWasTried(t *testing.T) {
	t.Parallel()
	c, err := holdfast.New(adapter.Bare("127.0.0.1:1", func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:1")
	}), &holdfast.Config{RetryTimeout: 20 * time.Millisecond, Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	in := inspect.New(c)
	tried := map[string]error{"init": in.Admit(t.Context()), "list all locks": nil, `watch locks that match "orders/*"`: nil, "list breaks": nil}
	for _, err := range in.List(t.Context(), "") {
		tried["list all locks"] = err
	}
	for _, err := range in.Watch(t.Context(), "orders/*") {
		tried[`watch locks that match "orders/*"`] = err
		break
	}
	for _, err := range in.History(t.Context()) {
		tried["list breaks"] = err
	}
	for task, err := range tried {
		want := "holdfast: " + task + " on 127.0.0.1:1: server is unavailable: "
		var server *holdfast.ServerError
		if !errors.As(err, &server) || !errors.Is(err, holdfast.ErrUnavailable) || !strings.HasPrefix(err.Error(), want) || strings.Contains(server.Name, ":") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
