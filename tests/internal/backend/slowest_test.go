package backend

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
)

// failing is a test that has failed. It keeps what is logged.
type failing struct {
	testing.TB
	cleanups []func()
	log      strings.Builder
}

func (f *failing) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }
func (f *failing) Failed() bool     { return true }
func (f *failing) Log(args ...any)  { f.log.WriteString(args[0].(string) + "\n") }

// end runs the cleanups, the latest first, as at the end of a test.
func (f *failing) end() string {
	for i := len(f.cleanups) - 1; i >= 0; i-- {
		f.cleanups[i]()
	}
	return f.log.String()
}

// A test that fails logs which request was late and which was not answered, including those on the driver's own
// connections. It shows no token.
func TestAFailedTestTellsItsSlowestRequests(t *testing.T) {
	t.Parallel()
	b := One(t)
	p := proxy.New(t, b.Server.Addr())
	f := &failing{TB: t}
	c := Open(f, nil, &redis.Options{Addr: p.Addr()})
	lease, err := c.Mutex("m").Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, delay := range []time.Duration{0, time.Second} { // the first makes the driver's own connection
		p.DelayReplies(delay)
		if err := lease.Extend(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	p.DelayReplies(0)
	p.SwallowReplies(true)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // long enough to send the request
	defer cancel()
	if _, err := c.Mutex("unanswered", holdfast.Meta("k", "canary")).TryAcquire(ctx); err == nil {
		t.Fatal("acquired without a reply")
	}
	said := f.end()
	for _, line := range []string{`(?m)^  answered after [1-9].*, sent at \+.*: (batch_renew|renew) holdfast:\{m\}$`, `(?m)^  (closed unanswered after|not answered for) .*: MULTI$`} {
		if !regexp.MustCompile(line).MatchString(said) {
			t.Errorf("it does not say %s", line)
		}
	}
	if strings.Contains(said, "canary") || strings.Contains(said, "hf2:") {
		t.Error("it shows arguments")
	}
	if t.Failed() {
		t.Log(said)
	}
}

// It logs the requests of a few clients, however many there are.
func TestAFailedTestTellsOfFewClients(t *testing.T) {
	t.Parallel()
	f := &failing{TB: t}
	for range 3 * reported {
		tellSlowest(f)
	}
	if n := strings.Count(f.end(), "the slowest requests"); n != reported {
		t.Errorf("it tells of %d clients, want %d", n, reported)
	}
}
