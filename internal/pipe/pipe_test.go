package pipe

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/internal/script"
)

// world is a pipe to a made-up server, whose connections are net.Pipes: what is written blocks until the server reads it. The
// server answers ECHO with its argument, after its second one if it has that; HANG never. The test answers the others.
type world struct {
	Pipe
	answer  func(words []string) string   // the reply to another command
	deaf    atomic.Pointer[chan struct{}] // the server does not read on until this is closed; or nil
	opened  atomic.Int64
	freed   atomic.Int64
	maxIdle time.Duration // of connections
	maxAge  time.Duration
	servers chan net.Conn

	mu       sync.Mutex
	commands []string // that were received, joined by spaces
}

func newWorld() *world {
	w := &world{servers: make(chan net.Conn, 100)}
	w.OpenTimeout, w.Timeout = time.Second, 2*time.Second
	w.Go = func(f func()) { go f() }
	w.Open = func(context.Context) (driver.Connection, error) {
		w.opened.Add(1)
		client, server := net.Pipe()
		go w.serve(server)
		w.servers <- server
		return driver.Connection{Conn: client, Free: func() { w.freed.Add(1) }, MaxIdle: w.maxIdle, MaxAge: w.maxAge}, nil
	}
	return w
}

// serve reads ahead of what it carries out, as a server's kernel does.
func (w *world) serve(conn net.Conn) {
	commands := make(chan []string, 10_000)
	go func() {
		defer close(commands)
		in := bufio.NewReader(conn)
		for i := 0; ; i++ {
			if hears := w.deaf.Load(); hears != nil && i > 0 { // it is asked for its time first
				<-*hears
			}
			words, err := readCommandWords(in)
			if err != nil {
				_ = conn.Close()
				return
			}
			commands <- words
		}
	}()
	asked := false
	for words := range commands {
		w.mu.Lock()
		w.commands = append(w.commands, strings.Join(words, " "))
		w.mu.Unlock()
		var reply string
		switch {
		case words[0] == "ECHO":
			if len(words) > 2 {
				after, _ := time.ParseDuration(words[2])
				time.Sleep(after)
			}
			reply = "+" + words[1] + "\r\n"
		case words[0] == "EVALSHA" && !asked:
			asked = true
			now := strconv.FormatInt(time.Now().UnixMicro(), 10)
			reply = "*2\r\n" + bulk(now[:len(now)-6]) + bulk(now[len(now)-6:])
		case words[0] == "HANG":
			for range commands { // until the connection is closed
			}
		case w.answer != nil:
			reply = w.answer(words)
		}
		_, _ = io.WriteString(conn, reply)
	}
}

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

func readCommandWords(in *bufio.Reader) (words []string, err error) {
	command, err := resp.Read(in)
	if err != nil {
		return nil, err
	}
	for _, word := range command.([]any) {
		words = append(words, word.(string))
	}
	return words, nil
}

func (w *world) run(ctx context.Context, words ...string) (string, error) {
	c := &Call{Words: words}
	if err := w.Send(ctx, c); err != nil {
		return "", err
	}
	return c.Text, nil
}

// serves requires that a call is answered.
func (w *world) serves(t *testing.T) {
	t.Helper()
	if got, err := w.run(t.Context(), "ECHO", "served"); got != "served" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// deafen makes the server read one more command, and then none until hear is called.
func (w *world) deafen() (hear func()) {
	hears := make(chan struct{})
	w.deaf.Store(&hears)
	return func() {
		w.deaf.CompareAndSwap(&hears, nil)
		close(hears)
	}
}

// start is run by Start and Leave, if there is a connection.
func (w *world) start(ctx context.Context, words ...string) (string, error) {
	c, answered := &Call{Words: words}, make(chan error, 1)
	if !w.Start(c, func(err error) { answered <- err }) {
		return w.run(ctx, words...)
	}
	select {
	case err := <-answered:
		return c.Text, err
	case <-ctx.Done():
		if left, _ := c.Leave(); left {
			return "", ctx.Err()
		}
		return c.Text, <-answered
	}
}

func (w *world) received(prefix string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, command := range w.commands {
		if strings.HasPrefix(command, prefix) {
			n++
		}
	}
	return n
}

// inVirtualTime runs a test in a bubble, with a world that is closed at its end.
func inVirtualTime(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		defer clock.SetBoot(func() time.Duration { return time.Since(begun) })() // a real one gains on the bubble's
		w := newWorld()
		defer func() {
			w.Close()
			close(w.servers)
			for conn := range w.servers {
				_ = conn.Close()
			}
		}()
		f(t, w)
	})
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v; want %v", what, got, want)
	}
}

// wantErr requires that err matches target.
func wantErr(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: %v; want %v", what, err, target)
	}
}

func errOf[T any](_ T, err error) error { return err }

// connections requires how many connections were opened, and how many of these are freed.
func (w *world) connections(t *testing.T, opened, freed int64) {
	t.Helper()
	equal(t, "connections that were opened", w.opened.Load(), opened)
	equal(t, "connections that were freed", w.freed.Load(), freed)
}

// Callers give up at any moment. The others get the replies to their own calls, on one connection.
func TestEachGetsItsOwnReply(t *testing.T) {
	for seed := range uint64(50) {
		inVirtualTime(t, func(t *testing.T, w *world) {
			w.Timeout = time.Hour
			random := rand.New(rand.NewPCG(seed, 0))
			var all sync.WaitGroup
			answered, left, late := atomic.Int64{}, atomic.Int64{}, atomic.Int64{}
			for i := range 20 {
				patience := time.Duration(random.IntN(40)) * time.Millisecond
				pauses := [20]time.Duration{}
				for j := range pauses {
					pauses[j] = time.Duration(random.IntN(3)) * time.Millisecond
				}
				all.Go(func() {
					for j, pause := range pauses {
						ctx, cancel := context.Background(), func() {}
						if i%2 == 0 {
							ctx, cancel = context.WithTimeout(ctx, patience)
						}
						want := fmt.Sprintf("%d-%d", i, j)
						var got string
						var err error
						switch {
						case i%5 == 0:
							got, err = w.start(ctx, "ECHO", want, pause.String())
						case i%4 == 0:
							c := &Call{Words: []string{"ECHO", want, pause.String()}, Late: func(err error) {
								if err != nil {
									t.Errorf("seed %d: told of %v", seed, err)
								}
								late.Add(1)
							}}
							if err = w.Send(ctx, c); err == nil {
								got = c.Text
							} else if !errors.Is(err, driver.ErrNotSent) {
								late.Add(-1)
							}
						default:
							got, err = w.run(ctx, "ECHO", want, pause.String())
						}
						cancel()
						switch {
						case err == nil && got == want:
							answered.Add(1)
						case i%2 == 0 && errors.Is(err, context.DeadlineExceeded):
							left.Add(1)
						default:
							t.Errorf("seed %d: %q, %v, want %q", seed, got, err, want)
						}
					}
				})
			}
			all.Wait()
			if _, err := w.run(t.Context(), "ECHO", "end"); err != nil { // after it, the late ones are answered, too
				t.Error(err)
			}
			synctest.Wait()
			if n := late.Load(); n != 0 {
				t.Errorf("seed %d: told of %d too many", seed, n)
			}
			if w.opened.Load() != 1 || answered.Load() < 200 || left.Load() == 0 {
				t.Errorf("seed %d: %d connections, %d calls answered, %d given up", seed, w.opened.Load(), answered.Load(), left.Load())
			}
		})
	}
}

// A caller that gives up returns at once, whatever it does just then; what it has begun to write is written by the next.
func TestACallerThatGivesUpReturnsAtOnce(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		hear := w.deafen()
		began := time.Now()
		for _, want := range []error{context.DeadlineExceeded, driver.ErrNotSent} { // the first writes, the second could not
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			wantErr(t, "a call", errOf(w.run(ctx, "ECHO", "x")), want)
			began = began.Add(100 * time.Millisecond)
			equal(t, "how late it returned", time.Since(began), 0)
		}
		time.AfterFunc(time.Second, hear)
		w.serves(t)
		if w.opened.Load() != 1 || w.received("ECHO") != 2 {
			t.Errorf("%d connections, %d commands", w.opened.Load(), w.received("ECHO"))
		}
	})
}

// What becomes of a call whose caller has given up is told when it is known, even if nobody else uses the connection.
func TestACallIsToldOfWhoseCallerGaveUp(t *testing.T) {
	broken := errors.New("refused")
	for name, c := range map[string]struct {
		words  []string
		opens  time.Duration // how long that takes
		broken error         // why it fails
		want   error         // the caller's error
		told   error
		after  time.Duration
	}{
		"answered late":             {words: []string{"ECHO", "x", "500ms"}, want: context.DeadlineExceeded, after: 500 * time.Millisecond},
		"never answered":            {words: []string{"HANG"}, want: context.DeadlineExceeded, told: errDeadline, after: 2 * time.Second},
		"a connection is made late": {words: []string{"HANG"}, opens: 500 * time.Millisecond, want: driver.ErrNotSent, after: 500 * time.Millisecond},
		"none can be made":          {words: []string{"HANG"}, opens: 500 * time.Millisecond, broken: broken, want: driver.ErrNotSent, told: broken, after: 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, w *world) {
				open := w.Open
				w.Open = func(ctx context.Context) (driver.Connection, error) {
					time.Sleep(c.opens)
					if c.broken != nil {
						return driver.Connection{}, c.broken
					}
					return open(ctx)
				}
				began, told := time.Now(), make(chan error, 2)
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				if err := w.Send(ctx, &Call{Words: c.words, Late: func(err error) { told <- err }}); !errors.Is(err, c.want) || time.Since(began) != 100*time.Millisecond {
					t.Errorf("%v after %s", err, time.Since(began))
				}
				if c.opens > 0 {
					w.WhenOpened(func(err error) { told <- err })
				}
				if err := <-told; !errors.Is(err, c.told) || time.Since(began) != c.after {
					t.Errorf("it was told %v after %s", err, time.Since(began))
				}
				if c.told == nil {
					if got, err := w.run(t.Context(), "ECHO", "y"); got != "y" || err != nil || w.opened.Load() != 1 {
						t.Errorf("%q, %v, on connection %d", got, err, w.opened.Load())
					}
				}
				synctest.Wait()
				equal(t, "how often it was told again", len(told), 0)
			})
		})
	}
}

// What was to interrupt the caller that gave up may come late. It does not interrupt whoever reads the answer then.
func TestACallWhoseCallerGaveUpIsNotInterruptedLater(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		const use = 1
		told := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		c := &Call{Words: []string{"ECHO", "x", "500ms"}, Late: func(err error) { told <- err }}
		equal(t, "a call that was given up", w.Send(ctx, c), context.DeadlineExceeded)
		synctest.Wait()
		w.line.Load().interrupt(c, use)
		equal(t, "it was told", <-told, nil)
	})
}

// A call may be used again as soon as Send has returned, also if another caller has read the answer and is about to read on.
func TestACallIsUsedAgainWhileAnotherReads(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			for ctx.Err() == nil {
				_, _ = w.run(ctx, "ECHO", "x")
			}
		}()
		for range 300 {
			c := &Call{Words: []string{"ECHO", "a"}}
			if err := w.Send(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			c.Words = []string{"ECHO", "b"}
			got := make(chan string, 2)
			if !w.Start(c, func(error) { got <- c.Text }) {
				t.Fatal("there is no connection")
			}
			if text := <-got; text != "b" {
				t.Fatalf("it was told of %q", text)
			}
		}
	})
}

// Calls that nobody waits for are written and read all the same. Each is told of once, unless it was left; what it is told with may
// start others.
func TestCallsThatAreStarted(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		told := map[string]int{}
		var mu sync.Mutex
		start := func(text string, then func()) *Call {
			c := &Call{Words: []string{"ECHO", text, "1ms"}}
			if !w.Start(c, func(err error) {
				mu.Lock()
				told[fmt.Sprint(c.Text == text, " ", err)]++
				mu.Unlock()
				then()
			}) {
				return nil
			}
			return c
		}
		if start("x", nil) != nil {
			t.Error("a call was started without a connection")
		}
		w.serves(t)
		for i := range 100 {
			start(strconv.Itoa(i), func() { start(strconv.Itoa(i)+"b", func() {}) })
		}
		time.Sleep(time.Second)
		mu.Lock()
		if told["true <nil>"] != 200 || len(told) != 1 {
			t.Errorf("told: %v", told)
		}
		mu.Unlock()

		hear := w.deafen()
		start("y", func() {}) // whose driver writes
		synctest.Wait()
		queued := start("z", func() { t.Error("a call that was left is told of") })
		if left, sent := queued.Leave(); !left || sent {
			t.Errorf("a call that was not written: left %t, sent %t", left, sent)
		}
		if left, _ := queued.Leave(); left {
			t.Error("it was left twice")
		}
		hear()
		time.Sleep(time.Second)
		late := start("late", func() { t.Error("a call that was left is told of") })
		synctest.Wait()
		if left, sent := late.Leave(); !left || !sent {
			t.Errorf("a call that was written: left %t, sent %t", left, sent)
		}
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if told["true <nil>"] != 201 || w.received("ECHO z") != 0 || !late.IsSettled() || w.opened.Load() != 1 {
			t.Errorf("told: %v, %d connections; the late one is settled: %t", told, w.opened.Load(), late.IsSettled())
		}
		if left, sent := late.Leave(); left || !sent {
			t.Errorf("a call that was answered: left %t, sent %t", left, sent)
		}
	})
}

// If the connection breaks, calls that were started are told, and so are those that were not written.
func TestStartedCallsOnAConnectionThatBreaks(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		w.serves(t)
		errs := make(chan error, 4)
		tell := func(err error) { errs <- err }
		w.Start(&Call{Words: []string{"HANG"}}, tell)
		synctest.Wait()
		hear := w.deafen()
		w.Start(&Call{Words: []string{"ECHO", "read"}}, tell) // the server reads one more command ahead
		synctest.Wait()
		w.Start(&Call{Words: []string{"ECHO", "written"}}, tell)
		synctest.Wait()
		w.Start(&Call{Words: []string{"ECHO", "queued"}}, tell)
		began := time.Now()
		unsent := 0
		for range 4 {
			err := <-errs
			if errors.Is(err, driver.ErrNotSent) {
				unsent++
			} else if err == nil || !strings.Contains(err.Error(), "in time") {
				t.Errorf("told: %v", err)
			}
		}
		equal(t, "calls that were not sent", unsent, 1)
		if d := time.Since(began); d > w.Timeout {
			t.Errorf("told after %s", d)
		}
		hear()
	})
}

// A connection that does not answer in time fails all that is on it, once; the next call has another.
func TestAHungConnectionIsReplaced(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		var all sync.WaitGroup
		began := time.Now()
		for i := range 5 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				_, err := w.run(t.Context(), "HANG")
				if took := time.Since(began); err == nil || errors.Is(err, driver.ErrNotSent) || took != w.Timeout {
					t.Errorf("call %d: %v after %s", i, err, took)
				}
			})
		}
		all.Wait()
		w.serves(t)
		synctest.Wait()
		w.connections(t, 2, 1)
	})
}

// If an answer does not come, new calls take another connection. Those that wait on the first go on waiting; it is closed once nobody
// does.
func TestASlowConnectionIsLeft(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		w.Timeout = time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			equal(t, "a call that was given up", errOf(w.run(ctx, "ECHO", "x", "10s")), context.Canceled)
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		began := time.Now()
		all.Go(func() {
			if got, err := w.run(t.Context(), "ECHO", "y"); got != "y" || err != nil || time.Since(began) != 10*time.Second {
				t.Errorf("%q, %v after %s", got, err, time.Since(began))
			}
		})
		time.Sleep(patience + time.Nanosecond)
		if got, err := w.run(t.Context(), "ECHO", "z"); got != "z" || err != nil || time.Since(began) > 2*patience {
			t.Errorf("%q, %v after %s", got, err, time.Since(began))
		}
		w.connections(t, 2, 0)
		all.Wait()
		synctest.Wait()
		w.connections(t, 2, 1)
	})
}

// A connection that is never idle keeps nothing of the calls that were answered.
func TestAConnectionThatIsNeverIdleForgetsItsCalls(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		w.Timeout = time.Hour
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				for range 300 {
					equal(t, "a call", errOf(w.run(t.Context(), "ECHO", "x", "10ms")), nil)
				}
			})
			time.Sleep(5 * time.Millisecond)
		}
		all.Wait()
		if n := cap(w.line.Load().flight); n > 20 || w.opened.Load() != 1 {
			t.Errorf("there is room for %d calls in flight; %d connections", n, w.opened.Load())
		}
	})
}

// A caller gives up while it writes for others. One of them goes on, even if the only one reads for all just then.
func TestAWriterThatGivesUpIsFollowedByTheReader(t *testing.T) {
	for others := range 3 {
		inVirtualTime(t, func(t *testing.T, w *world) {
			var all sync.WaitGroup
			call := func(ctx context.Context, words ...string) {
				all.Go(func() {
					if got, err := w.run(ctx, words...); got != words[1] || err != nil {
						t.Errorf("%d others: %q, %v", others, got, err)
					}
				})
				synctest.Wait()
			}
			call(t.Context(), "ECHO", "reads first", "500ms")
			hear := w.deafen()
			call(t.Context(), "ECHO", "is read before the server looks")
			ctx, cancel := context.WithCancel(t.Context())
			call(ctx, "ECHO", "writes")
			for i := range others {
				call(t.Context(), "ECHO", strconv.Itoa(i))
			}
			hearAgain := w.deafen()
			hear() // it reads one more
			time.Sleep(600 * time.Millisecond)
			cancel()
			synctest.Wait()
			hearAgain()
			all.Wait()
			equal(t, "connections", w.opened.Load(), 1)
		})
	}
}

// A caller gives up just when it is answered, and its call is used again. That is not interrupted.
func TestACallIsUsedAgainWhenItsCallerHasGivenUp(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		var cancel func()
		w.answer = func([]string) string {
			pause := func() {
				for range 10 {
					runtime.Gosched()
				}
			}
			l := w.line.Load()
			for l.mu.Lock(); l.reader == nil; l.mu.Lock() {
				l.mu.Unlock()
				pause()
			}
			go func() {
				pause() // until the reply waits for the line
				cancel()
				pause() // until the end of ctx does
				l.mu.Unlock()
			}()
			return "+OK\r\n"
		}
		w.serves(t)
		for range 100 {
			synctest.Wait()
			hear := w.deafen()
			var ctx context.Context
			ctx, cancel = context.WithCancel(t.Context())
			c := &Call{Words: []string{"GET"}}
			err := w.Send(ctx, c)
			cancel()
			time.AfterFunc(time.Millisecond, hear)
			if err == nil {
				c.Words = []string{"ECHO", "x"}
				if err := w.Send(t.Context(), c); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// No caller waits longer than its own timeout, even if a later caller reads for all.
func TestTheReaderWaitsForTheFirst(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		var all sync.WaitGroup
		call := func(hangs bool, words ...string) {
			all.Go(func() {
				began := time.Now()
				_, err := w.run(t.Context(), words...)
				if took := time.Since(began); hangs != (err != nil) || took > w.Timeout {
					t.Errorf("%s: %v after %s", words, err, took)
				}
			})
			synctest.Wait()
		}
		call(false, "ECHO", "reads first", "500ms")
		hear := w.deafen()
		call(false, "ECHO", "is read before the server looks")
		call(true, "HANG", "writes")
		time.Sleep(100 * time.Millisecond)
		call(true, "ECHO", "reads then")
		hearAgain := w.deafen()
		hear() // it reads one more
		time.Sleep(500 * time.Millisecond)
		hearAgain()
		all.Wait()
	})
}

// If callers gave up before a connection had failed to answer in time, the next call has another all the same.
func TestAConnectionIsReplacedThatHungForOthers(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithTimeout(t.Context(), w.Timeout-1)
		defer cancel()
		equal(t, "a call that was given up", errOf(w.run(ctx, "HANG")), context.DeadlineExceeded)
		time.Sleep(2 * time.Nanosecond)
		w.serves(t)
	})
}

// A user who may not send the source of scripts has no pipe. The driver can do without, if the server knows the scripts.
func TestAUserWithoutScriptsHasNoPipe(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		w.Open = func(context.Context) (driver.Connection, error) {
			client, server := net.Pipe()
			go func() {
				_, _ = readCommandWords(bufio.NewReader(server))
				_, _ = io.WriteString(server, "-NOPERM x\r\n")
			}()
			return driver.Connection{Conn: client}, nil
		}
		_, err := w.run(t.Context(), "ECHO", "x")
		if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, driver.ErrNotSent) || !strings.Contains(err.Error(), "NOPERM x") {
			t.Error(err)
		}
	})
}

// A connection that was closed at once does not mean that there is no pipe. The next call has another connection.
func TestAConnectionThatIsClosedAtOnce(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		open := w.Open
		w.Open = func(ctx context.Context) (driver.Connection, error) {
			w.Open = open
			conn, err := open(ctx)
			(<-w.servers).Close()
			return conn, err
		}
		if err := errOf(w.run(t.Context(), "ECHO", "x")); !errors.Is(err, driver.ErrNotSent) || errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
		w.serves(t)
	})
}

// What is no reply breaks the connection: nobody could tell whose the next one is.
func TestRepliesThatBreakTheConnection(t *testing.T) {
	for _, reply := range []string{"+a\r\n+b\r\n", "hello\r\n", "\r\n", "$x\r\n", "$-2\r\n", "*99999999999999999999\r\n", "$99999999999\r\n", "+" + strings.Repeat("a", maxLine+1), "%1\r\n+a\r\n+b\r\n"} {
		inVirtualTime(t, func(t *testing.T, w *world) {
			w.answer = func([]string) string { return reply }
			for range 2 {
				_, err := w.run(t.Context(), "GET")
				if refused := driver.ReplyError(""); errors.As(err, &refused) || errors.Is(err, driver.ErrNotSent) || err == nil && reply[0] != '+' {
					t.Errorf("%.20q: %v", reply, err)
				}
			}
			equal(t, "connections", w.opened.Load(), 2)
		})
	}
}

// Replies arrive in pieces of any size.
func TestRepliesInPieces(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		long := strings.Repeat("x", 3*minBuffer)
		var server net.Conn
		w.answer = func(words []string) string {
			reply := "$" + strconv.Itoa(len(long)) + "\r\n" + long + "\r\n"
			if words[0] == "FAIL" {
				reply = "-WRONGTYPE no\r\n"
			}
			for ; len(reply) > 1; reply = reply[1:] {
				_, _ = io.WriteString(server, reply[:1])
			}
			return reply
		}
		w.serves(t)
		server = <-w.servers
		for range 3 {
			if got, err := w.run(t.Context(), "GET"); got != long || err != nil {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			equal(t, "a refusal", errOf(w.run(t.Context(), "FAIL")), error(driver.ReplyError("WRONGTYPE no")))
		}
		equal(t, "connections", w.opened.Load(), 1)
	})
}

// A server that closes the connection leaves a call unanswered; one that closed it while it was idle does not.
func TestAServerThatCloses(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		w.answer = func([]string) string { _ = (<-w.servers).Close(); return "" }
		if _, err := w.run(t.Context(), "QUIT"); err == nil || errors.Is(err, driver.ErrNotSent) {
			t.Error(err)
		}
		w.serves(t)
	})
}

// A server that refuses a call as a replica would is not asked again on that connection. Whoever uses it already has their answers.
func TestAServerThatIsNoMaster(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		w.answer = func([]string) string { return "-READONLY x\r\n" }
		var all sync.WaitGroup
		all.Go(func() {
			if got, err := w.run(t.Context(), "ECHO", "a", "1s"); got != "a" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
		all.Go(func() {
			equal(t, "a refusal", errOf(w.run(t.Context(), "SET")), error(driver.ReplyError("READONLY x")))
			w.serves(t)
		})
		all.Wait()
		equal(t, "connections", w.opened.Load(), 2)
	})
}

// Callers that come while a connection is made wait for that, and share its failure. None is made without a caller.
func TestNoConnection(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		refused := errors.New("refused")
		open := w.Open
		w.Open = func(context.Context) (driver.Connection, error) {
			w.opened.Add(1)
			time.Sleep(time.Second)
			return driver.Connection{Free: func() { w.freed.Add(1) }}, refused
		}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if _, err := w.run(t.Context(), "ECHO", "x"); !errors.Is(err, refused) || !errors.Is(err, driver.ErrNotSent) {
					t.Error(err)
				}
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := w.run(ctx, "ECHO", "x"); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, driver.ErrNotSent) {
			t.Error(err)
		}
		all.Wait()
		time.Sleep(time.Minute)
		w.connections(t, 1, 1)
		w.Open = open
		w.serves(t)
	})
}

// A server that never greets does not get a new connection for each call with a short timeout.
func TestConnectionsThatAreNotMadeAreFew(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		w.OpenTimeout, w.Timeout = 10*time.Second, 5*time.Millisecond
		w.Open = func(ctx context.Context) (driver.Connection, error) {
			w.opened.Add(1)
			<-ctx.Done()
			return driver.Connection{}, ctx.Err()
		}
		for range 1000 {
			wantErr(t, "a call", errOf(w.run(t.Context(), "ECHO", "x")), driver.ErrNotSent)
		}
		if w.opened.Load() > 5 {
			t.Errorf("%d were begun in 5 s", w.opened.Load())
		}
	})
}

// A connection that took long to make serves those, too, that wait for the next.
func TestAConnectionThatIsMadeLate(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		w.OpenTimeout = time.Minute
		open, made := w.Open, atomic.Int64{}
		w.Open = func(ctx context.Context) (driver.Connection, error) {
			if made.Add(1) > 1 {
				<-ctx.Done()
				return driver.Connection{}, ctx.Err()
			}
			time.Sleep(w.Timeout + time.Second)
			return open(ctx)
		}
		wantErr(t, "a call", errOf(w.run(t.Context(), "ECHO", "x")), driver.ErrNotSent)
		began := time.Now()
		if got, err := w.run(t.Context(), "ECHO", "y"); got != "y" || err != nil || time.Since(began) != time.Second || made.Load() != 2 {
			t.Errorf("%q, %v after %s, with %d connections", got, err, time.Since(began), made.Load())
		}
	})
}

// A connection that is old, or has been idle for long, is replaced before it is used; so is every one after Close.
func TestOldConnections(t *testing.T) {
	for name, limit := range map[string]func(w *world){
		"idle": func(*world) {}, "MaxIdle": func(w *world) { w.maxIdle = time.Second }, "MaxAge": func(w *world) { w.maxAge = time.Second },
	} {
		inVirtualTime(t, func(t *testing.T, w *world) {
			limit(w)
			rest := maxIdle
			if name != "idle" {
				rest = time.Second
			}
			for want, after := range []time.Duration{0, 0, rest + 1, 0} {
				time.Sleep(after)
				if _, err := w.run(t.Context(), "ECHO", "x"); err != nil || w.opened.Load() != int64(1+want/2) {
					t.Errorf("%s: call %d on connection %d: %v", name, want, w.opened.Load(), err)
				}
			}
			w.Close()
			wantErr(t, "a call", errOf(w.run(t.Context(), "ECHO", "x")), driver.ErrNotSent)
		})
	}
}

// A connection that is old takes no more calls, even while it is in use.
func TestAConnectionThatIsNeverIdleGetsOldToo(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		w.maxAge = time.Second
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				if got, err := w.run(t.Context(), "ECHO", "x", "250ms"); got != "x" || err != nil {
					t.Errorf("call %d: %q, %v", i, got, err)
				}
			})
			time.Sleep(200 * time.Millisecond)
		}
		all.Wait()
		synctest.Wait()
		w.connections(t, 2, 1)
	})
}

// Fault: A connection is being made when the client closes. It is given up at once, and so are the calls that wait for it.
func TestCloseDoesNotWaitForAConnection(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		w.Open = func(ctx context.Context) (driver.Connection, error) {
			<-ctx.Done()
			return driver.Connection{}, ctx.Err()
		}
		began := time.Now()
		var all sync.WaitGroup
		all.Go(func() {
			wantErr(t, "a call", errOf(w.run(t.Context(), "ECHO", "x")), driver.ErrNotSent)
			equal(t, "after how long it returns", time.Since(began), 0)
		})
		synctest.Wait()
		w.Close()
		all.Wait()
	})
}

// together sends calls in the order given, so that they leave together: the server is deaf until all have come.
func (w *world) together(ctx context.Context, calls []*Call) []error {
	errs := make([]error, len(calls))
	if _, err := w.run(ctx, "ECHO", "x"); err != nil {
		return []error{err}
	}
	hear := w.deafen()
	var all sync.WaitGroup
	for range 2 { // the server still reads the first; the second is being written
		all.Go(func() { _, _ = w.run(ctx, "ECHO", "x") })
		synctest.Wait()
	}
	for i, c := range calls {
		all.Go(func() { errs[i] = w.Send(ctx, c) })
		synctest.Wait()
	}
	hear()
	all.Wait()
	return errs
}

func acquires(n int) (calls []*Call) {
	for i := range n {
		key := string(rune('a' + i))
		calls = append(calls, &Call{Kind: Acquire, Lock: key, Queue: key + ":q", Fences: "fences", Head: "h" + key + ":", Info: "i", TTL: time.Minute})
	}
	return calls
}

func TestAcquiresShareATransaction(t *testing.T) {
	const queued = "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n"
	const rest = "$5\r\n123-4\r\n:1\r\n*2\r\n$2\r\n17\r\n$2\r\n18\r\n"
	type outcome struct {
		done bool
		err  error
	}
	refused := driver.ReplyError("EXECABORT x")
	for name, test := range map[string]struct {
		reply string
		want  [2]outcome
	}{
		"granted, and held":     {queued + "*5\r\n+OK\r\n$-1\r\n" + rest, [2]outcome{{done: true}, {}}},
		"refused":               {"+OK\r\n-OOM x\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n-EXECABORT x\r\n", [2]outcome{{err: driver.ReplyError("OOM x")}, {err: driver.ReplyError("OOM x")}}},
		"refused at the end":    {queued + "-EXECABORT x\r\n", [2]outcome{{err: refused}, {err: refused}}},
		"a lock refused":        {queued + "*5\r\n-ASK x\r\n+OK\r\n" + rest, [2]outcome{{err: driver.ReplyError("ASK x")}, {done: true}}},
		"the counter is none":   {queued + "*5\r\n+OK\r\n$-1\r\n-WRONGTYPE x\r\n:0\r\n*2\r\n$2\r\n17\r\n$2\r\n18\r\n", [2]outcome{{true, driver.ReplyError("WRONGTYPE x")}, {err: driver.ReplyError("WRONGTYPE x")}}},
		"no transaction":        {"-NOPERM x\r\n+OK\r\n$-1\r\n" + rest + "-ERR EXEC without MULTI\r\n", [2]outcome{{true, driver.ReplyError("NOPERM x")}, {err: driver.ReplyError("NOPERM x")}}},
		"no end":                {"+OK\r\n+OK\r\n$-1\r\n" + rest + "-ERR x\r\n", [2]outcome{{true, driver.ReplyError("ERR x")}, {err: driver.ReplyError("ERR x")}}},
		"too few results":       {queued + "*1\r\n+OK\r\n", [2]outcome{{err: errForm}, {err: errForm}}},
		"none":                  {queued + "*-1\r\n", [2]outcome{{err: errForm}, {err: errForm}}},
		"an id that is none":    {queued + "*5\r\n+OK\r\n+OK\r\n$5\r\n123x4\r\n:1\r\n*2\r\n$2\r\n17\r\n$2\r\n18\r\n", [2]outcome{{true, errForm}, {true, errForm}}},
		"a time that is none":   {queued + "*5\r\n+OK\r\n+OK\r\n$5\r\n123-4\r\n:1\r\n*2\r\n$2\r\n1x\r\n$2\r\n18\r\n", [2]outcome{{true, errForm}, {true, errForm}}},
		"a number that is none": {queued + "*5\r\n+OK\r\n+OK\r\n$5\r\n123-4\r\n$1\r\n1\r\n*2\r\n$2\r\n17\r\n$2\r\n18\r\n", [2]outcome{{true, errForm}, {true, errForm}}},
	} {
		inVirtualTime(t, func(t *testing.T, w *world) {
			w.answer = func(words []string) string {
				if words[0] == "EXEC" {
					return test.reply
				}
				return ""
			}
			calls := acquires(2)
			errs := w.together(t.Context(), calls)
			set := fmt.Sprintf("SET a ha:0:%d:0:i NX PXAT %d", calls[0].Granted, calls[0].Granted+time.Minute.Milliseconds())
			if now := time.Now().UnixMilli(); calls[0].Granted > now || calls[0].Granted < now-1000 || calls[0].Expiry != calls[0].Granted+time.Minute.Milliseconds() {
				t.Errorf("%s: the server is told %d and %d", name, calls[0].Granted, calls[0].Expiry)
			}
			for i, err := range errs {
				c := calls[i]
				if c.Done != test.want[i].done || err != test.want[i].err {
					t.Errorf("%s: call %d: %t, %v", name, i, c.Done, err)
				}
				if err == nil && c.Done && (c.Fence != ID{123, 4} || c.Queues != 1 || c.Now != 17_000_018) {
					t.Errorf("%s: call %d: %v", name, i, c)
				}
			}
			if w.received("MULTI") != 1 || w.received(set) != 1 || w.received("XADD fences MAXLEN ~ 1 * g ") != 1 || w.received("EXISTS a:q b:q") != 1 {
				t.Errorf("%s: %q", name, w.commands)
			}
		})
	}
}

// A server without EXEC leaves the transaction open, and queues whatever is sent to it from then on. Calls that it has queued are not
// answered; the next has another connection.
func TestAServerWithoutEXEC(t *testing.T) {
	const refused = "-ERR unknown command 'EXEC'\r\n"
	inVirtualTime(t, func(t *testing.T, w *world) {
		w.answer = func(words []string) string {
			switch {
			case words[0] == "GET" && w.opened.Load() == 2:
				return "+a\r\n"
			case words[0] == "MULTI":
				return "+OK\r\n"
			case words[0] == "EXEC":
				return refused
			}
			return "+QUEUED\r\n"
		}
		calls := append(acquires(1), &Call{Words: []string{"GET", "b"}})
		errs := w.together(t.Context(), calls)
		if calls[0].Done || errs[0] != driver.ReplyError(refused[1:len(refused)-2]) || errs[1] != errQueues {
			t.Errorf("%t, %v", calls[0].Done, errs)
		}
		if got, err := w.run(t.Context(), "GET", "c"); got != "a" || err != nil || w.opened.Load() != 2 {
			t.Errorf("%q, %v, on connection %d", got, err, w.opened.Load())
		}
	})
}

// Releases that leave together share a script, whose source is sent to a server that does not know it.
//
// Fault: SCRIPT FLUSH at any moment. The next release sends the script's source.
func TestReleasesShareAScript(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		known, sources := false, 0
		w.answer = func(words []string) string {
			switch {
			case words[0] == "EVAL" && words[1] == script.BatchRelease().Source:
				sources++
				known = true
			case words[0] != "EVALSHA" || words[1] != script.BatchRelease().SHA1:
				return "-ERR unknown command\r\n"
			case !known:
				return "-NOSCRIPT x\r\n"
			}
			return "$7\r\nfreed 2\r\n"
		}
		for round, flushed := range []bool{false, false, true, false} {
			known = known && !flushed
			calls := acquires(2)
			for _, c := range calls {
				c.Kind = Release
			}
			for i, err := range w.together(t.Context(), calls) {
				want := error(nil)
				if flushed {
					want = driver.ReplyError("NOSCRIPT x")
				}
				if err != want || calls[i].Done != (i == 0 && err == nil) {
					t.Errorf("round %d, call %d: %t, %v", round, i, calls[i].Done, err)
				}
			}
		}
		if hashes := w.received("EVALSHA " + script.BatchRelease().SHA1); sources != 2 || hashes != 2 {
			t.Errorf("%d times by its source, %d times by its hash", sources, hashes)
		}
	})
}

// A lock whose whole value is known is deleted by a command of its own.
func TestReleasesByCommand(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		w.answer = func(words []string) string {
			switch strings.Join(words[:2], " ") {
			case "DELIFEQ a":
				return ":1\r\n"
			case "DELIFEQ b":
				return ":0\r\n"
			case "DELIFEQ c":
				return "-ERR unknown command\r\n"
			}
			return "$5\r\nfreed\r\n"
		}
		calls := acquires(4)
		for i, c := range calls {
			c.Kind = Release
			if i < 3 {
				c.Kind, c.Granted = Delete, 17
			}
		}
		errs := w.together(t.Context(), calls)
		if !calls[0].Done || calls[1].Done || errs[1] != nil || errs[2] != driver.ReplyError("ERR unknown command") || !calls[3].Done || w.received("EVAL "+script.BatchRelease().Source) != 1 || w.received("DELIFEQ a ha:0:17:0:i") != 1 {
			t.Errorf("%v, %q", errs, w.commands)
		}
	})
}

// Calls of different groups share nothing: their keys are in different slots of a Cluster.
func TestGroupsShareNothing(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		w.answer = func(words []string) string {
			if words[0] == "EXEC" {
				return "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n+OK\r\n$3\r\n1-0\r\n:0\r\n*2\r\n$1\r\n1\r\n$1\r\n1\r\n"
			}
			return ""
		}
		calls := acquires(2)
		calls[1].Fences = "other"
		if errs := w.together(t.Context(), calls); errs[0] != nil || errs[1] != nil || w.received("MULTI") != 2 {
			t.Errorf("%v, %q", errs, w.commands)
		}
	})
}

// In a Cluster, where calls are of thousands of groups, a call shares commands with those that come soon after it. Not all are searched
// for others of its group.
func TestSharersAreNear(t *testing.T) {
	for inCluster, want := range map[bool]int{false: maxShared + 1, true: maxShared + 2} {
		l := &line{pipe: &Pipe{InCluster: inCluster}}
		for i := range maxShared + 3 {
			c := &Call{Kind: Acquire, Fences: strconv.Itoa(i)}
			if i == 1 || i == maxShared+2 {
				c.Fences = "0"
			}
			c.prepare(time.Time{}, time.Time{})
			l.queue = append(l.queue, c)
		}
		l.compose()
		equal(t, fmt.Sprintf("transactions, in a Cluster %t", inCluster), len(l.flight), want)
	}
}

// A large buffer is kept while much of it is used now and then, and no longer.
func TestLargeBuffersAreKeptWhileTheyAreUsed(t *testing.T) {
	var u use
	b := make([]byte, 0, 1<<20)
	for range 20 {
		if b = u.kept(b[:cap(b)]); cap(b) == 0 {
			t.Fatal("a buffer was dropped that was used in full")
		}
		if b = u.kept(b[:100]); cap(b) == 0 {
			t.Fatal("a buffer was dropped after it was used little once")
		}
	}
	uses := 0
	for ; cap(b) > 0 && uses < 1000; uses++ {
		b = u.kept(b[:100])
	}
	if uses < 5 || uses > 100 {
		t.Errorf("a buffer was dropped after it was used little %d times", uses)
	}
	if small := u.kept(make([]byte, 1, 64<<10)); cap(small) == 0 {
		t.Error("a small buffer was dropped")
	}
}

// No bytes make the reader panic, or let it take a reply that is not whole.
func FuzzReplies(f *testing.F) {
	for _, seed := range []string{"+OK\r\n", "*2\r\n$1\r\na\r\n:1\r\n", "*2\r\n*1\r\n+a\r\n$-1\r\n", "$0\r\n\r\n", "*0\r\n", "*-1\r\n", "-ERR\r\n"} {
		f.Add([]byte(seed), uint8(3))
	}
	f.Fuzz(func(t *testing.T, text []byte, piece uint8) {
		var in input
		for len(text) > 0 {
			n, _ := in.fill(bytes.NewReader(text[:min(len(text), int(piece)+1)]))
			text = text[n:]
			missing := 1
			r, whole, err := in.take(&missing)
			if err != nil {
				return
			}
			if whole {
				r.skip()
				if len(r.rest) != 0 {
					t.Errorf("%q is left of a reply", r.rest)
				}
			}
		}
	})
}
