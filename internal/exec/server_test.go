package exec

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// fake is a driver that answers with what a test sets.
type fake struct {
	mu     sync.Mutex
	calls  int
	answer func(call int) (string, error) // the nth, from 1
	probes int
	probe  func(ctx context.Context, probe int) error // what the nth meets, or nil
	info   driver.ServerInfo
}

func (f *fake) Run(context.Context, driver.Call) (string, error) {
	f.mu.Lock()
	f.calls++
	n := f.calls
	f.mu.Unlock()
	return f.answer(n)
}

func (f *fake) Probe(ctx context.Context) (driver.ServerInfo, error) {
	f.mu.Lock()
	f.probes++
	n := f.probes
	f.mu.Unlock()
	if f.probe != nil {
		if err := f.probe(ctx, n); err != nil {
			return driver.ServerInfo{}, err
		}
	}
	info := f.info
	info.Time = time.Now()
	return info, nil
}

func (*fake) Subscribe(driver.Subscription) func() { return func() {} }
func (*fake) Addr() string                         { return "fake:1" }
func (*fake) Close() error                         { return nil }

// equal requires that what was got is what was wanted.
func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v; want %v", what, got, want)
	}
}

// durable is a fake that says how many replicas have a write.
type durable struct {
	fake
	replicas int
}

func (d *durable) RunDurably(ctx context.Context, c driver.Call, _ driver.Durability) (string, driver.Confirmation, error) {
	reply, err := d.Run(ctx, c)
	return reply, driver.Confirmation{Replicas: d.replicas}, err
}

// world is a Server in virtual time.
type world struct {
	*Server
	closing chan struct{}
	tasks   Tasks
}

func within(t *testing.T, d driver.Driver, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(clock.SetBoot(func() time.Duration { return 0 }))
		w := &world{closing: make(chan struct{})}
		w.Server = New(d, Config{CommandTimeout: 2 * time.Second, RetryTimeout: 3 * time.Second, Tasks: &w.tasks, Closing: w.closing})
		f(t, w)
		w.tasks.Wait()
	})
}

var (
	loading   = driver.ReplyError("LOADING Redis is loading the dataset in memory")
	errBroken = errors.New("connection reset")
)

// failing answers n calls with err, and then with a reply.
func failing(n int, err error) func(int) (string, error) {
	return func(call int) (string, error) {
		if call <= n {
			return "", err
		}
		return "done 1700000000000000 7", nil
	}
}

// word is the word with which an answer begins.
func word(a Answer) string {
	first, _, _ := strings.Cut(a.Text, " ")
	return first
}

// The last try comes at the end of RetryTimeout.
func TestDoGivesUpAfterRetryTimeout(t *testing.T) {
	f := &fake{answer: failing(1e9, loading)}
	within(t, f, func(t *testing.T, w *world) {
		began := time.Now()
		_, _, err := w.Do(t.Context(), Request{Op: "acquire", Name: "a"})
		if took := time.Since(began); KindOf(err) != ErrLoading || took != 3*time.Second {
			t.Errorf("after %s: %v", took, err)
		}
		began = time.Now()
		if _, _, err := w.Do(t.Context(), Request{Op: "acquire", Name: "a", Began: began.Add(-3 * time.Second)}); err == nil || time.Since(began) > 0 {
			t.Errorf("what has been tried for long enough was tried for another %s: %v", time.Since(began), err)
		}
	})
}

// What was sent may be carried out, although nobody waits for its answer any more.
func TestDoReturnsWhenItsContextEnds(t *testing.T) {
	f := &fake{}
	within(t, f, func(t *testing.T, w *world) {
		answer := make(chan struct{})
		f.answer = func(int) (string, error) { <-answer; return "done 1700000000000000", nil }
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		_, unanswered, err := w.Do(ctx, Request{Op: "acquire", Name: "a", Met: func(err error) { t.Errorf("cancelled: the attempt met %v", err) }})
		if err != context.Canceled || !unanswered {
			t.Errorf("cancelled: %v, unanswered %v", err, unanswered)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, unanswered, err = w.Do(ctx, Request{Op: "acquire", Name: "a"})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnavailable) || !unanswered {
			t.Errorf("past its deadline: %v, unanswered %v", err, unanswered)
		}
		if _, unanswered, err = w.Do(ctx, Request{Op: "acquire", Name: "a"}); !errors.Is(err, context.DeadlineExceeded) || unanswered {
			t.Errorf("ended before: %v, unanswered %v", err, unanswered)
		}
		if _, _, err = w.Do(ctx, Request{Op: "acquire", Name: "a", Began: time.Now().Add(-2 * time.Second)}); !strings.Contains(fmt.Sprint(err), "no answer for 2s") {
			t.Errorf("ended before, of a request that another way was tried for: %v", err)
		}
		close(answer)
	})
}

func TestOnlyReleasesAreRepeatedWhileTheClientCloses(t *testing.T) {
	f := &fake{answer: failing(3, loading)}
	within(t, f, func(t *testing.T, w *world) {
		close(w.closing)
		if _, _, err := w.Do(t.Context(), Request{Op: "acquire", Name: "a"}); err != ErrClosed || f.calls != 1 {
			t.Errorf("an acquire: %v, after %d calls", err, f.calls)
		}
		if _, _, err := w.Do(t.Context(), Request{Op: OpRelease, Name: "a"}); err != nil || f.calls != 4 {
			t.Errorf("a release: %v, after %d calls", err, f.calls)
		}
	})
}

func TestScriptsThatClearAwayAreSentAgain(t *testing.T) {
	f := &fake{answer: func(call int) (string, error) {
		if call < 5 {
			return "error AGAIN there is more to clear away", nil
		}
		return "done 1700000000000000", nil
	}}
	within(t, f, func(t *testing.T, w *world) {
		if a, err := w.Send(t.Context(), Request{Op: "acquire", Name: "a"}); err != nil || word(a) != "done" || f.calls != 5 {
			t.Errorf("%q, %v, after %d calls", a.Text, err, f.calls)
		}
	})
}

func TestWhatWasAchievedHasToBeConfirmed(t *testing.T) {
	durability := func() *driver.Durability {
		return &driver.Durability{Replicas: 2, Timeout: time.Second, Counts: func(text string) bool { return strings.HasPrefix(text, "granted ") }}
	}
	for reply, want := range map[string]error{"granted": ErrReplicas, "held": nil} {
		d := &durable{fake: fake{answer: func(int) (string, error) { return reply + " 1700000000000000", nil }}, replicas: 1}
		within(t, d, func(t *testing.T, w *world) {
			a, unanswered, err := w.Do(t.Context(), Request{Op: "acquire", Name: "a", Durability: durability()})
			if KindOf(err) != want || want != nil && !unanswered {
				t.Errorf("%s: %q, unanswered %v, %v", reply, a.Text, unanswered, err)
			}
			d.replicas = 2
			if a, _, err := w.Do(t.Context(), Request{Op: "acquire", Name: "a", Durability: durability()}); err != nil || word(a) != reply {
				t.Errorf("confirmed: %q, %v", a.Text, err)
			}
		})
	}
}

func TestConnectRefusesWhatIsUnfit(t *testing.T) {
	f := &fake{info: driver.ServerInfo{Server: "redis", Version: "6.2.1"}}
	within(t, f, func(t *testing.T, w *world) {
		equal(t, "an old one", KindOf(w.Connect(t.Context(), "a")), ErrUnsupported)
		f.info.Version = "7.2.0"
		w.cfg.Accept = func(driver.ServerInfo) error { return errors.New("not this one") }
		if err := w.Connect(t.Context(), "a"); KindOf(err) != ErrUnsupported || w.Info() != nil {
			t.Errorf("one that the client refuses: %v", err)
		}
	})
}

// A server's clock is as it was in the answer to the latest request, whatever order the answers come in.
func TestTheServersClock(t *testing.T) {
	within(t, &fake{}, func(t *testing.T, w *world) {
		equal(t, "before any answer it shows", w.Time(0), 0)
		early := clock.Now()
		time.Sleep(time.Second)
		late := clock.Now()
		w.note(0, late, clock.Mono(), 5_000_000)
		w.note(0, early, clock.Mono(), 1_000_000)
		time.Sleep(time.Second)
		equal(t, "it shows", w.Time(0), 6_000_000)
		equal(t, "that of a slot which was never asked shows", w.Time(77), 6_000_000)
		w.note(77, clock.Now(), clock.Mono(), 9_000_000)
		equal(t, "that of a slot shows", w.Time(77), 9_000_000)
	})
}

// A request that its caller gave up before it was sent does not count as unanswered.
func TestWhatWasGivenUpBeforeItWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		s := New(&fake{}, Config{CommandTimeout: time.Second, RetryTimeout: time.Second, Tasks: &Tasks{}})
		_, unanswered, err := Persist(ctx, s, "acquire", "a", time.Time{}, func(work context.Context) (int, error) {
			<-work.Done()
			return 0, Unsent(work.Err())
		})
		if unanswered || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("unanswered: %t, %v", unanswered, err)
		}
	})
}

func TestOldServersAreRefused(t *testing.T) {
	for named, ok := range map[string]bool{
		"redis/7.0.0": true, "redis/7.0.15": true, "redis/8.2.1": true, "redis/10.0.0": true, "redis/6.2.14": false, "redis/2.8": false, "redis/unstable": true,
		"valkey/7.2.4": true, "valkey/9.0.0": true, "valkey/7.1.9": false, "something else/1.0": true, // it does not say what it can do
	} {
		server, version, _ := strings.Cut(named, "/")
		err := supported(driver.ServerInfo{Server: server, Version: version})
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), version) {
			t.Errorf("%s: %v", named, err)
		}
	}
}

func TestWhichServersHaveDelifeq(t *testing.T) {
	for named, has := range map[string]bool{
		"valkey/9.0.0": true, "valkey/9.1.2": true, "valkey/10.0": true, "valkey/8.1.4": false, "valkey/unstable": false, "valkey/": false,
		"redis/9.0.0": false, "/9.0.0": false,
	} {
		server, version, _ := strings.Cut(named, "/")
		is, known := isAsNew(driver.ServerInfo{Server: server, Version: version}, delifeq)
		equal(t, named, is && known, has)
	}
}

// unlike is a Connector that cannot be compared. It says that it connects to itself.
type unlike struct {
	driver.Driver
	driver.Connector
	_ []int
}

func (u unlike) Connects() driver.Driver { return u }

func TestADriverThatCannotBeComparedHasNoPipe(t *testing.T) {
	equal(t, "its pipe", New(unlike{}, Config{}).Pipe("k"), nil)
}
