package prompt

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// world is a server whose connections are pipes, and a Keeper of such connections. The server answers ECHO at once, SLOW after a
// second, FAIL with the error that follows, and HANG never.
type world struct {
	Keeper
	opened, closed atomic.Int64
}

func newWorld(t *testing.T) *world {
	w := &world{}
	w.Ctx, w.Timeout = t.Context(), time.Second
	w.Spawn = func(f func()) bool { go f(); return true }
	w.Open = func(context.Context) (net.Conn, func(), error) {
		w.opened.Add(1)
		client, server := net.Pipe()
		go func() {
			in := bufio.NewReader(server)
			for {
				text, err := in.ReadString('\n')
				switch {
				case err != nil:
					_ = server.Close()
					return
				case text == "SLOW\r\n":
					time.Sleep(time.Second)
					fallthrough
				case text == "ECHO\r\n":
					_, _ = io.WriteString(server, "+a\r\n")
				case strings.HasPrefix(text, "FAIL "):
					_, _ = io.WriteString(server, "-"+strings.TrimPrefix(text, "FAIL "))
				}
			}
		}()
		return client, func() { w.closed.Add(1) }, nil
	}
	return w
}

// wrap makes the Keeper's connections those that f returns.
func (w *world) wrap(f func(net.Conn) net.Conn) {
	open := w.Open
	w.Open = func(ctx context.Context) (net.Conn, func(), error) {
		conn, free, err := open(ctx)
		return f(conn), free, err
	}
}

// call sends a command and returns its error.
func (w *world) call(ctx context.Context, command string) error {
	reply, err := w.Run(ctx, time.Now().Add(time.Minute), &driver.Call{Script: driver.Script{Command: command}})
	if err == nil && reply != "a" {
		return errors.New(reply)
	}
	return err
}

// hang makes n calls that never get a reply; the function it returns waits until their deadlines have ended them.
func (w *world) hang(t *testing.T, n int) (wait func()) {
	t.Helper()
	done := make(chan error, n)
	for range n {
		started := time.Now()
		go func() {
			for {
				err := w.call(context.Background(), "HANG")
				if err != driver.ErrNotSent {
					done <- err
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		time.Sleep(10*time.Millisecond - time.Since(started))
	}
	return func() {
		t.Helper()
		for range n {
			if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
		}
	}
}

// The number of connections is limited. When one fails, the idle ones are closed too, and no new one is made for a while.
func TestConnectionsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		end := w.hang(t, most)
		err := w.call(context.Background(), "ECHO")
		synctest.Wait()
		if err != driver.ErrNotSent || w.opened.Load() != most {
			t.Errorf("%v; %d connections", err, w.opened.Load())
		}
		end()
		if err := w.call(context.Background(), "ECHO"); err != driver.ErrNotSent || w.closed.Load() != most {
			t.Errorf("%v; %d connections were closed", err, w.closed.Load())
		}
		time.Sleep(pause + time.Millisecond)
		for _, want := range []error{driver.ErrNotSent, nil, nil} {
			if err := w.call(context.Background(), "ECHO"); err != want {
				t.Errorf("%v, want %v", err, want)
			}
			synctest.Wait()
		}
		end = w.hang(t, 2)
		if err := w.call(context.Background(), "ECHO"); err != driver.ErrNotSent {
			t.Error(err)
		}
		synctest.Wait()
		if opened := w.opened.Load() - most; opened != 3 {
			t.Errorf("%d connections, want the two that hang and one that is idle", opened)
		}
		time.Sleep(pause)
		end()
		synctest.Wait()
		if w.closed.Load() != w.opened.Load() {
			t.Errorf("%d of %d connections were closed", w.closed.Load(), w.opened.Load())
		}
		w.Close()
	})
}

// An error that concerns one call closes no connection. Any other error closes the call's connection and the idle ones.
func TestErrorsOfOneCall(t *testing.T) {
	for refusal, kept := range map[string]bool{
		"WRONGTYPE Operation against a key holding the wrong kind of value": true,
		"NOPERM User app has no permissions to run the 'delifeq' command":   true,
		"OOM command not allowed when used memory > 'maxmemory'.":           true,
		"ERR unknown command 'delifeq', with args beginning with: 'a' 'b' ": true,
		"ERR something else": false,
		"OOMPH":              false,
		"LOADING Redis is loading the dataset in memory":                         false,
		"READONLY You can't write against a read only replica.":                  false,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is no": false,
		"NOAUTH Authentication required.":                                        false,
		"NOREPLICAS Not enough good replicas to write.":                          false,
		"MISCONF Errors writing to the AOF file":                                 false,
		"BUSY Redis is busy running a script.":                                   false,
		"MOVED 1 127.0.0.1:7000":                                                 false,
		"CLUSTERDOWN The cluster is down":                                        false,
		"UNBLOCKED force unblock from blocking operation":                        false,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			defer w.Close()
			_ = w.call(context.Background(), "ECHO")
			synctest.Wait()
			go func() { _ = w.call(context.Background(), "SLOW") }()
			synctest.Wait()
			_ = w.call(context.Background(), "ECHO")
			time.Sleep(2 * time.Second) // now there are two connections
			if err := w.call(context.Background(), "FAIL "+refusal); err != driver.ReplyError(refusal) {
				t.Errorf("%q: %v", refusal, err)
			}
			err := w.call(context.Background(), "ECHO")
			synctest.Wait()
			if kept && (err != nil || w.closed.Load() != 0) {
				t.Errorf("after %q: %v; %d connections were closed", refusal, err, w.closed.Load())
			}
			if !kept && (err != driver.ErrNotSent || w.closed.Load() != 2) {
				t.Errorf("after %q: %v; %d of 2 connections were closed", refusal, err, w.closed.Load())
			}
		})
	}
}

// shut is a connection that refuses the deadlines of calls, as if it was closed after it was made.
type shut struct{ net.Conn }

func (s shut) SetDeadline(deadline time.Time) error {
	if deadline.IsZero() {
		return nil
	}
	return net.ErrClosed
}

// A call whose deadline cannot be set was not sent. Its connection is closed.
func TestACallThatIsNotBegunIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.Close()
		w.wrap(func(conn net.Conn) net.Conn { return shut{conn} })
		for range 2 {
			if err := w.call(context.Background(), "ECHO"); err != driver.ErrNotSent {
				t.Error(err)
			}
			synctest.Wait()
		}
		if w.opened.Load() != 1 || w.closed.Load() != 1 {
			t.Errorf("%d connections were opened and %d closed", w.opened.Load(), w.closed.Load())
		}
	})
}

// timeless is a connection that has no deadlines.
type timeless struct{ net.Conn }

func (timeless) SetDeadline(time.Time) error { return errors.ErrUnsupported }

// No connection is used if connections have no deadlines, and none is made after the first.
func TestConnectionsWithoutDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.Close()
		w.wrap(func(conn net.Conn) net.Conn { return timeless{conn} })
		for range 3 {
			if err := w.call(context.Background(), "ECHO"); err != driver.ErrNotSent {
				t.Error(err)
			}
			time.Sleep(2 * pause)
		}
		if w.opened.Load() != 1 || w.closed.Load() != 1 {
			t.Errorf("%d connections were opened and %d closed", w.opened.Load(), w.closed.Load())
		}
	})
}

// endless is a connection that forgets its deadlines.
type endless struct{ net.Conn }

func (endless) SetDeadline(time.Time) error { return nil }

// A call ends soon after its deadline even if the connection does not keep it.
func TestConnectionsThatForgetTheirDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.Close()
		w.wrap(func(conn net.Conn) net.Conn { return endless{conn} })
		_ = w.call(context.Background(), "ECHO")
		synctest.Wait()
		began := time.Now()
		err := w.call(context.Background(), "HANG")
		if took := time.Since(began); !errors.Is(err, io.ErrClosedPipe) || took != time.Minute+grace {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// A caller that gives up closes only its own connection. For a while afterwards, other callers that can give up get no
// connection. Callers that cannot give up still do.
func TestCallersThatGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.Close()
		w.hang(t, 1)
		_ = w.call(context.Background(), "ECHO") // a second connection is made
		synctest.Wait()
		can, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, ctx := range []context.Context{can, context.Background()} {
			if err := w.call(ctx, "ECHO"); err != nil {
				t.Errorf("while another call is under way: %v", err)
			}
		}
		time.Sleep(2 * time.Minute) // the call that hangs has ended
		for _, want := range []error{driver.ErrNotSent, nil} {
			if err := w.call(can, "ECHO"); err != want {
				t.Errorf("%v, want %v", err, want)
			}
			synctest.Wait()
		}
		go func() { _ = w.call(context.Background(), "SLOW") }()
		synctest.Wait()
		_ = w.call(context.Background(), "ECHO")
		time.Sleep(2 * time.Second) // now there are two connections
		closed := w.closed.Load()
		time.AfterFunc(suspicious, cancel)
		if err := w.call(can, "HANG"); !errors.Is(err, io.ErrClosedPipe) || w.closed.Load() != closed+1 {
			t.Errorf("%v; %d connections were closed", err, w.closed.Load()-closed)
		}
		again, cancel := context.WithCancel(t.Context())
		defer cancel()
		if err := w.call(again, "ECHO"); err != driver.ErrNotSent {
			t.Errorf("right after another caller gave up: %v", err)
		}
		if err := w.call(context.Background(), "ECHO"); err != nil {
			t.Errorf("a call that nobody can give up, after a caller gave up: %v", err)
		}
	})
}

// echoes makes n calls at the same time, for which the Keeper has then n connections.
func (w *world) echoes(n int) {
	for range n {
		for range n {
			go func() { _ = w.call(context.Background(), "SLOW") }()
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
	}
}

// If the server does not answer any more, one caller that gives up after a while closes all connections. Otherwise each of them would
// cost a caller its time.
func TestACallerThatGivesUpLateClosesAllConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.Close()
		w.echoes(most)
		if w.opened.Load() != most || w.closed.Load() != 0 {
			t.Fatalf("%d connections were opened and %d closed", w.opened.Load(), w.closed.Load())
		}
		ctx, cancel := context.WithTimeout(t.Context(), suspicious+time.Millisecond)
		defer cancel()
		if err := w.call(ctx, "HANG"); !errors.Is(err, io.ErrClosedPipe) || w.closed.Load() != most {
			t.Errorf("%v; %d connections were closed", err, w.closed.Load())
		}
	})
}

// Callers that give up together, again and again, cost each connection once in a pause, and no more.
func TestCallersThatOftenGiveUpTogetherCostFewConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.Close()
		w.echoes(most)
		const pauses = 5
		for end := time.Now().Add(pauses * pause); time.Now().Before(end); {
			for range 2 * most {
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
					defer cancel()
					_ = w.call(ctx, "HANG")
				}()
			}
			time.Sleep(25 * time.Millisecond)
		}
		if closed := w.closed.Load(); closed < most || closed > (pauses+1)*most {
			t.Errorf("%d connections were closed", closed)
		}
	})
}

// Connections that one caller does not need are closed after their time.
func TestSpareConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.Close()
		w.echoes(most)
		for end := time.Now().Add(maxIdle + 2*most*time.Second); time.Now().Before(end); time.Sleep(time.Second) {
			if err := w.call(t.Context(), "ECHO"); err != nil {
				t.Error(err)
			}
		}
		if w.opened.Load() != most || w.closed.Load() != most-1 {
			t.Errorf("%d connections were opened and %d closed", w.opened.Load(), w.closed.Load())
		}
	})
}

// A connection that has been idle for long is not used again.
func TestIdleConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.Close()
		_ = w.call(t.Context(), "ECHO")
		synctest.Wait()
		for _, idle := range []time.Duration{maxIdle - time.Second, maxIdle + time.Second} {
			time.Sleep(idle)
			if err := w.call(context.Background(), "ECHO"); (err == nil) != (idle < maxIdle) {
				t.Errorf("idle for %v: %v", idle, err)
			}
		}
		synctest.Wait()
		if w.opened.Load() != 2 || w.closed.Load() != 1 {
			t.Errorf("%d connections were opened and %d closed", w.opened.Load(), w.closed.Load())
		}
	})
}

// A connection on which the server does not answer the greeting is closed in time.
func TestGreetedEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		silent := func(context.Context, string, string) (net.Conn, error) {
			client, _ := net.Pipe()
			return client, nil
		}
		_, err := Greeted(ctx, silent, func(dial Dialer) error {
			conn, err := dial(context.Background(), "tcp", "server")
			if err != nil {
				return err
			}
			if _, err := dial(context.Background(), "tcp", "server"); err == nil || !strings.Contains(err.Error(), "again") {
				t.Errorf("the second dial: %v", err)
			}
			_, err = conn.Read(make([]byte, 1))
			return err
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// A connection that is too old is closed even while another is being made, and even when the driver is closing.
func TestConnectionsThatAreTooOldAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.Close()
		w.MaxIdle = 10 * time.Millisecond
		open := w.Open
		w.Open = func(ctx context.Context) (net.Conn, func(), error) {
			time.Sleep(2 * time.Second)
			return open(ctx)
		}
		echo := func() { _ = w.call(context.Background(), "ECHO") }
		echo()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		go func() { _ = w.call(context.Background(), "SLOW") }()
		synctest.Wait()
		echo()
		time.Sleep(1500 * time.Millisecond)
		echo()
		synctest.Wait()
		if opened, closed := w.opened.Load(), w.closed.Load(); opened != 1 || closed != 1 {
			t.Errorf("%d connections were opened, and %d closed while another was being made", opened, closed)
		}
		time.Sleep(time.Second)
		w.Spawn = func(func()) bool { return false }
		echo()
		if opened, closed := w.opened.Load(), w.closed.Load(); opened != 2 || closed != 2 {
			t.Errorf("%d connections were opened, and %d closed when the driver is closing", opened, closed)
		}
	})
}
