package adapters

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/pki"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// promptly is a driver of which a test counts the prompt calls.
type promptly struct {
	drivertest.Driver
	sent chan error // what each call that was sent met
}

func (d *promptly) RunPrompt(ctx context.Context, deadline time.Time, c driver.Call) (string, error) {
	reply, err := d.Driver.(driver.Prompt).RunPrompt(ctx, deadline, c)
	if !errors.Is(err, driver.ErrNotSent) {
		d.sent <- err
	}
	return reply, err
}

// Fault: A caller gives up while its request for a lock is under way, in its own goroutine. It returns at once. The lock,
// which it was granted meanwhile, is given back, and the connection is replaced.
func TestACallerThatSendsItselfGivesUp(t *testing.T) {
	t.Parallel()
	each(t, aCallerThatSendsItselfGivesUp)
}

func aCallerThatSendsItselfGivesUp(t *testing.T, a adapter) {
	s := server.Start(t, server.One(t))
	p := proxy.New(t, s.Addr())
	d := &promptly{a.single(t, 3, to(p.Addr())), make(chan error, 100)}
	l := client(t, d).Mutex("a", holdfast.TTL(2*time.Minute)) // longer than Eventually waits
	cycle := func() (prompt bool) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		lease, err := l.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		backend.Release(t, lease)
		sent := len(d.sent)
		for range sent {
			<-d.sent
		}
		return sent == 2
	}
	for range 2 {
		backend.Eventually(t, "both calls are sent in the caller's goroutine", cycle)
		trap := p.LoseReply(proxy.Containing("evalsha", script.BatchAcquire().SHA1), proxy.Hang)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := l.Acquire(ctx)
			gone <- err
		}()
		trap.Wait(t)
		trap.Reply(t) // the server has granted it
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := <-d.sent; err == nil || errors.Is(err, driver.ErrNotSent) {
			t.Errorf("the call of the caller that gave up: %v", err)
		}
		other := client(t, a.single(t, 3, to(s.Addr()))).Mutex("a")
		backend.Eventually(t, "the lock is given back", func() bool {
			lease, err := other.TryAcquire(t.Context())
			if err == nil {
				backend.Release(t, lease)
			}
			return err == nil
		})
	}
}

// Fault: The server closes a lone caller's connection between acquire and release, as a restart or CLIENT KILL does. The
// release notices it, also with TLS, and goes by another one.
func TestALoneCallerNoticesThatItsConnectionIsClosed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, a adapter) {
		s := server.Start(t, server.One(t))
		authority := pki.NewAuthority(t, "authority")
		hour := time.Now().Add(time.Hour)
		encrypted := pki.Listen(t, s, authority.Issue("redis.test", hour), authority)
		secure := &tls.Dialer{Config: &tls.Config{
			ServerName: "redis.test", RootCAs: authority.Pool(),
			Certificates: []tls.Certificate{authority.Issue("client", hour).Load(t)},
		}}
		for what, dial := range map[string]dialer{
			"plain": to(s.Addr()),
			"TLS":   func(ctx context.Context) (net.Conn, error) { return secure.DialContext(ctx, "tcp", encrypted) },
		} {
			t.Run(what, func(t *testing.T) { aLoneCallerNoticesThatItsConnectionIsClosed(t, s, a.single(t, 3, dial)) })
		}
	})
}

func aLoneCallerNoticesThatItsConnectionIsClosed(t *testing.T, s *server.Server, over drivertest.Driver) {
	d := &promptly{over, make(chan error, 100)}
	l := client(t, d).Mutex("a", holdfast.TTL(2*time.Minute))
	prompt := func() (n int) { // how many calls were, since the last time
		t.Helper()
		n = len(d.sent)
		for range n {
			if err := <-d.sent; err != nil {
				t.Errorf("a call was sent on a connection that is closed: %v", err)
			}
		}
		return n
	}
	var held *holdfast.Lease
	backend.Eventually(t, "an acquire is sent in the caller's goroutine", func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		lease, err := l.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if prompt() == 1 {
			held = lease
			return true
		}
		backend.Release(t, lease)
		prompt()
		return false
	})
	if _, err := s.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(150 * time.Millisecond) // without this, the connection is trusted, and the release asks again
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
	prompt()
}

// Fault: A call of a lone caller times out, and is answered later. The next call does not take that answer for its own.
func TestALateReplyToALoneCallerIsNobodyElses(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, a adapter) {
		s := server.Start(t, server.One(t))
		d := a.single(t, 3, to(s.Addr()))
		t.Cleanup(func() { _ = d.Close() })
		send := func(patience time.Duration, c driver.Call) (reply string, err error) {
			backend.Eventually(t, "a call is sent", func() bool {
				reply, err = d.(driver.Prompt).RunPrompt(t.Context(), time.Now().Add(patience), c)
				return !errors.Is(err, driver.ErrNotSent)
			})
			return reply, err
		}
		wait := driver.Call{Script: driver.Script{Command: "brpoplpush"}, Keys: []string{"from", "to"}, Args: []string{"0"}}
		var timeout net.Error
		if reply, err := send(50*time.Millisecond, wait); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Fatalf("%q, %v", reply, err)
		}
		if _, err := s.Do("RPUSH", "from", "late"); err != nil {
			t.Fatal(err)
		}
		if reply, err := send(time.Minute, driver.Call{Script: driver.Script{Command: "echo"}, Args: []string{"own"}}); reply != "own" || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
	})
}

// Calls on connections of their own travel side by side. If a caller gives up, it disturbs no other, and each of the others gets its
// own reply.
func TestCallsSideBySideGetTheirOwnReplies(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, a adapter) {
		const calls = 8
		s := server.Start(t, server.One(t))
		d := a.single(t, 3, to(s.Addr()))
		t.Cleanup(func() { _ = d.Close() })
		type result struct {
			reply string
			err   error
		}
		ctx, cancel := context.WithCancel(t.Context())
		var results [calls]chan result
		for n := range results {
			results[n] = make(chan result, 1)
			mine := t.Context()
			if n == 0 {
				mine = ctx
			}
			from := fmt.Sprint("from", n)
			go func() {
				c := driver.Call{Script: driver.Script{Command: "brpoplpush"}, Keys: []string{from, "to"}, Args: []string{"0"}}
				for {
					reply, err := d.(driver.Prompt).RunPrompt(mine, time.Now().Add(time.Minute), c)
					if !errors.Is(err, driver.ErrNotSent) {
						results[n] <- result{reply, err}
						return
					}
					time.Sleep(time.Millisecond) // a connection is being made
				}
			}()
		}
		blocked := func(want int) {
			t.Helper()
			backend.Eventually(t, fmt.Sprintf("the server has %d calls", want), func() bool {
				info, err := s.Do("INFO", "clients")
				return err == nil && strings.Contains(fmt.Sprint(info), fmt.Sprintf("blocked_clients:%d\r", want))
			})
		}
		blocked(calls)
		cancel()
		if got := <-results[0]; got.err == nil {
			t.Errorf("the caller that gave up: %q", got.reply)
		}
		blocked(calls - 1)
		for n := calls - 1; n > 0; n-- {
			own := fmt.Sprint("own", n)
			if _, err := s.Do("RPUSH", fmt.Sprint("from", n), own); err != nil {
				t.Fatal(err)
			}
			if got := <-results[n]; got.reply != own || got.err != nil {
				t.Errorf("call %d: %q, %v", n, got.reply, got.err)
			}
		}
	})
}

// Two calls that began together time out one after the other. The go-redis client for renewals and releases is replaced after the
// first, and not again after the second.
func TestCallsThatTimeOutReplaceAClientOnce(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.One(t))
	d := adapters["go-redis"].single(t, 3, to(s.Addr()))
	t.Cleanup(func() { _ = d.Close() })
	hang := func(patience time.Duration) {
		c := driver.Call{Script: driver.Script{Command: "brpoplpush"}, Keys: []string{"from", "to"}, Args: []string{"0"}, Urgent: true}
		backend.Eventually(t, "a call is sent", func() bool {
			_, err := d.(driver.Prompt).RunPrompt(t.Context(), time.Now().Add(patience), c)
			var timeout net.Error
			if !errors.Is(err, driver.ErrNotSent) && (!errors.As(err, &timeout) || !timeout.Timeout()) {
				t.Error(err)
			}
			return !errors.Is(err, driver.ErrNotSent)
		})
	}
	client := func(args ...string) string {
		reply, err := d.Run(t.Context(), driver.Call{Script: driver.Script{Command: "client"}, Args: args, Urgent: true})
		if err != nil {
			t.Errorf("CLIENT %v: %v", args, err)
		}
		return reply
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		hang(2 * time.Second) // more than a second after the other: a client is not replaced more often
	}()
	backend.Eventually(t, "the first call has begun", func() bool {
		select {
		case <-over: // the machine stood still
			return true
		default:
		}
		info, err := s.Do("INFO", "clients")
		return err == nil && strings.Contains(fmt.Sprint(info), "blocked_clients:1\r")
	})
	hang(300 * time.Millisecond)
	client("setname", "new")
	<-over
	if name := client("getname"); name != "new" {
		t.Errorf("the client was replaced again: %q", name)
	}
}
