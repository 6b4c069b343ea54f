package behaviour

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// journal is a client's log.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) config() *holdfast.Config {
	return &holdfast.Config{Logger: slog.New(slog.NewTextHandler(j, nil))}
}

// surveyed waits until a client has checked the server's settings: the server then has the script.
func surveyed(t testing.TB, b *backend.Backend) {
	t.Helper()
	backend.Eventually(t, "the settings were looked at", func() bool {
		known, err := b.Server.Do("SCRIPT", "EXISTS", script.Survey().SHA1)
		return err == nil && fmt.Sprint(known) == "[1]"
	})
}

// settled waits until a client does by itself nothing that a test would count: it has checked the server's settings, and
// listens to notices for operators, as it does once it has had a lease for a second. The client listens for as long as it has
// that lease: end releases it, and so does the end of the test.
func settled(t testing.TB, b *backend.Backend, c *holdfast.Client) (end func()) {
	t.Helper()
	lease := backend.Acquire(t, c.Mutex(fmt.Sprintf("settled %p", c), holdfast.TTL(5*time.Minute), holdfast.NoRenew()))
	end = func() { _ = lease.Release(context.Background()) } // fails if the test has ended the client
	t.Cleanup(end)
	surveyed(t, b)
	backend.Eventually(t, "the journal was read", func() bool {
		known, err := b.Server.Do("SCRIPT", "EXISTS", script.Notes().SHA1)
		return err == nil && fmt.Sprint(known) == "[1]"
	})
	return end
}

// use acquires and releases some locks in several goroutines.
func use(t testing.TB, c *holdfast.Client) {
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "a", "b"} {
		wg.Go(func() { backend.Release(t, backend.Acquire(t, c.Mutex(name))) })
	}
	wg.Wait()
}

func expectWarnings(t testing.TB, said string, want ...string) {
	t.Helper()
	if n := strings.Count(said, "level=WARN"); n != len(want) || n != strings.Count(said, "\n") {
		t.Errorf("want %d warnings, and nothing else; heard\n%s", len(want), said)
	}
	for _, w := range want {
		if !strings.Contains(said, w) {
			t.Errorf("nobody said %q; heard\n%s", w, said)
		}
	}
	if strings.Contains(said, "canary") {
		t.Errorf("the password was said:\n%s", said)
	}
}

// Fault: The server's settings make locks unsafe, such as an eviction policy. The client warns of each once, and not
// of others.
func TestWarnsOfUnsafeSettings(t *testing.T) {
	for policy, want := range map[string][]string{
		"noeviction": nil, "volatile-lru": {`seen="maxmemory-policy volatile-lru with maxmemory 104857600"`},
	} {
		t.Run(policy, func(t *testing.T) {
			backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
				var said journal
				client := b.Client(t, said.config(), func(o *redis.Options) { o.Username, o.Password = "default", "canary" })
				use(t, client)
				surveyed(t, b)
				if want != nil { // the answer may still be on its way, and a client that closes does not wait for it
					backend.Eventually(t, "a warning", func() bool { return said.String() != "" })
				}
				noError(t, client.Close(t.Context()))
				expectWarnings(t, said.String(), want...)
				if want != nil && !strings.Contains(said.String(), "server="+b.Server.Addr()) {
					t.Errorf("the server is not named: %s", &said)
				}
			}, server.Conf("maxmemory", "100mb"), server.Conf("maxmemory-policy", policy), server.Conf("requirepass", "canary"))
		})
	}
}

// A user without INFO gets locks, no warning and no error, and leaves no entry in the server's ACL LOG.
func TestWithoutPermissionForTheSettings(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		expect.OK(t, expect.ErrOf(b.Server.Do("ACL", "SETUSER", "u", "on", ">canary", "~*", "&*", "+@all", "-info")))
		var said journal
		client := b.Client(t, said.config(), func(o *redis.Options) { o.Username, o.Password = "u", "canary" })
		use(t, client)
		surveyed(t, b)
		noError(t, client.Close(t.Context()))
		expectWarnings(t, said.String())
		log, err := b.Server.Do("ACL", "LOG")
		if entries, ok := log.([]any); err != nil || !ok || len(entries) != 0 {
			t.Errorf("ACL LOG: %v, %v", log, err)
		}
	}, server.Conf("maxmemory", "100mb"), server.Conf("maxmemory-policy", "allkeys-lru"))
}

// A replica refuses the lock, and the error also says what to do about it.
func TestWarnsOfAReplica(t *testing.T) {
	t.Parallel()
	bin := server.One(t)
	replica := server.StartReplica(t, bin, server.Start(t, bin))
	var said journal
	cfg := said.config()
	cfg.CommandTimeout, cfg.RetryTimeout = 6*time.Second, 8*time.Second // a late answer would be another warning
	client := backend.Open(t, cfg, &redis.Options{Addr: replica.Addr()})
	if _, err := client.Mutex("a").TryAcquire(t.Context()); err == nil {
		t.Error("a replica gave a lock")
	}
	backend.Eventually(t, "the warning", func() bool { return said.String() != "" })
	noError(t, client.Close(t.Context()))
	expectWarnings(t, said.String(), `seen="role slave"`)
}
