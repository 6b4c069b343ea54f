package ui_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/inspect/ui"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// stage is a server with an inspector.
type stage struct {
	tb     testing.TB
	b      *backend.Backend
	client *holdfast.Client
	web    *httptest.Server
	url    string

	mu      sync.Mutex
	holders map[string]func() // ends what the holder with this owner holds
}

// newStage serves the inspector of a new server, for a test that it makes parallel.
func newStage(t *testing.T, opts *ui.Options) *stage {
	t.Helper()
	t.Parallel()
	b := backend.One(t)
	s := &stage{tb: t, b: b, holders: map[string]func(){}}
	s.client = s.newClient("inspector")
	if opts == nil {
		opts = &ui.Options{}
	}
	s.web = serve(t, inspect.New(s.client), opts)
	s.url = s.web.URL + opts.Prefix + "/"
	return s
}

// serve serves the pages of an inspector, until the test ends.
func serve(tb testing.TB, in *inspect.Inspector, opts *ui.Options) *httptest.Server {
	tb.Helper()
	opts.Logger = slog.New(slog.DiscardHandler)
	handler := expect.Of(ui.New(in, opts)).OK(tb)
	web := httptest.NewServer(handler)
	tb.Cleanup(func() {
		handler.Close()
		web.Close()
	})
	return web
}

func (s *stage) newClient(owner string) *holdfast.Client {
	return s.b.Client(s.tb, &holdfast.Config{Identity: owner, TTL: 30 * time.Second})
}

// hold acquires a lock, until the test ends.
func (s *stage) hold(l *holdfast.Lock) *holdfast.Lease {
	s.tb.Helper()
	lease := backend.Acquire(s.tb, l)
	s.tb.Cleanup(func() { _ = lease.Release(context.Background()) })
	return lease
}

// letGo lets a holder that wait has made release its lock.
func (s *stage) letGo(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders[owner]()
}

// grant returns the grant id of a mutex's holder.
func (s *stage) grant(name string) string {
	s.tb.Helper()
	h, _ := s.status(name).Holder()
	return h.Grant
}

func (s *stage) status(name string) holdfast.Status {
	s.tb.Helper()
	return expect.Of(s.client.Mutex(name).Status(s.tb.Context())).OK(s.tb)
}

// wait lets a lock be waited for by another client, which then holds it, until letGo or the test's end.
func (s *stage) wait(owner string, lock func(c *holdfast.Client) *holdfast.Lock) {
	s.tb.Helper()
	l := lock(s.newClient(owner))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		lease, err := l.Acquire(ctx)
		if err == nil {
			<-ctx.Done()
			_ = lease.Release(context.Background())
		}
	}()
	s.tb.Cleanup(func() {
		cancel()
		<-ended
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders[owner] = cancel
}

// campaign makes a new client campaign in an election until the test ends.
func (s *stage) campaign(owner, name string) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	theElection := election.New(s.newClient(owner).Mutex(name))
	go func() {
		defer close(ended)
		_ = theElection.Run(ctx, func(ctx context.Context, _ *holdfast.Lease) error {
			<-ctx.Done()
			return nil
		})
	}()
	s.tb.Cleanup(func() {
		cancel()
		<-ended
	})
}

func mutex(name string, opts ...holdfast.MutexOption) func(*holdfast.Client) *holdfast.Lock {
	return func(c *holdfast.Client) *holdfast.Lock { return c.Mutex(name, opts...) }
}

// fill makes locks of all kinds, as they might be.
func (s *stage) fill() {
	s.tb.Helper()
	for i := range 14 {
		c := s.newClient(fmt.Sprintf("checkout-%d", i%4+1))
		s.hold(c.Mutex(fmt.Sprintf("order:%d", 81390+i*7), holdfast.Meta("step", []string{"reserve", "charge", "ship"}[i%3])))
	}
	for i := range 9 {
		s.wait(fmt.Sprintf("billing-%d", i+1), mutex("invoices:2026-11", holdfast.Meta("run", fmt.Sprint(4711+i)), holdfast.Meta("stage", "render"), holdfast.TTL(time.Minute)))
		backend.Eventually(s.tb, "it holds or waits", func() bool {
			status := s.status("invoices:2026-11")
			return len(status.Holders)+status.Waiting == i+1
		})
	}
	for i := range 3 {
		s.wait(fmt.Sprintf("checkout-%d", i+5), mutex("order:81397"))
	}
	s.campaign("scheduler-a", "scheduler")
	backend.Eventually(s.tb, "it leads", func() bool { return s.status("scheduler").Held() })
	s.campaign("scheduler-b", "scheduler")
	for i := range 3 {
		s.hold(s.newClient(fmt.Sprintf("thumbs-%d", i+1)).Semaphore("thumbnails", 4).Permits(1))
	}
	for i := range 2 {
		s.hold(s.newClient(fmt.Sprintf("catalogue-%d", i+1)).RWMutex("catalogue").Reader())
	}
	s.wait("importer-1", func(c *holdfast.Client) *holdfast.Lock { return c.RWMutex("catalogue").Writer() })
	theLatch := latch.New(s.newClient("deploy-1"), "release-42:ready", 3)
	expect.OK(s.tb, theLatch.CountDown(s.tb.Context()))
}
