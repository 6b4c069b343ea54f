package ui_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/inspect/ui"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// programs are what packages call the browser. They are the same as in tests/ensure-chromium.sh.
var programs = []string{
	"chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
	"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome", "/Applications/Chromium.app/Contents/MacOS/Chromium",
}

var errNoBrowser = errors.New("there is no Chromium: tests/ensure-chromium.sh installs one, or name one in HOLDFAST_TEST_CHROMIUM")

func findBrowser() (string, error) {
	if path := os.Getenv("HOLDFAST_TEST_CHROMIUM"); path != "" {
		return exec.LookPath(path)
	}
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNoBrowser
}

// browser is shared by all tests; it is started by the first.
var browser = sync.OnceValues(func() (context.Context, error) {
	path, err := findBrowser()
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.Flag("lang", "en-GB"))
	if os.Geteuid() == 0 { // as in containers: Chromium refuses to run with its sandbox
		options = append(options, chromedp.NoSandbox)
	}
	launched = true
	ctx, _ := chromedp.NewExecAllocator(ending, options...)
	ctx, _ = chromedp.NewContext(ctx)
	return ctx, chromedp.Do(ctx, chromedp.Navigate("about:blank"))
})

// launched reports whether a test has used the browser.
var launched bool

// ending ends when all tests have ended, and the browser with it.
var ending, endAll = context.WithCancel(context.Background())

func TestMain(m *testing.M) {
	code := m.Run()
	if launched {
		ctx, _ := browser()
		_ = chromedp.Cancel(ctx)
	}
	endAll()
	os.Exit(code)
}

// tab is a page of the browser.
type tab struct {
	tb  testing.TB
	ctx context.Context

	mu     sync.Mutex
	faults []string // what the page complained of
}

// open opens an address in a window of that size.
func open(tb testing.TB, url string, width, height int64) *tab {
	tb.Helper()
	parent, err := browser()
	switch {
	case errors.Is(err, errNoBrowser):
		tb.Skipf("SKIPPED, NOTHING TESTED IN A BROWSER: %v", err)
	case err != nil:
		tb.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(parent)
	t := &tab{tb: tb, ctx: ctx}
	tb.Cleanup(func() {
		if tb.Failed() {
			t.save("failed.png")
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, fault := range t.faults {
			tb.Errorf("the page says: %s", fault)
		}
		cancel()
	})
	t.do(chromedp.EmulateViewport(width, height))
	expect.OK(tb, chromedp.Listen(ctx, t.hear))
	t.do(chromedp.Navigate(url))
	return t
}

// hear notes exceptions, and refusals by the policy for contents.
func (t *tab) hear(event any) {
	e, is := event.(*runtime.EventExceptionThrown)
	if !is {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	text, _ := json.Marshal(e.ExceptionDetails)
	t.faults = append(t.faults, string(text))
}

func (t *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	t.tb.Helper()
	expect.OK(t.tb, chromedp.Do(t.ctx, actions...))
}

func eval[T any](t *tab, expression string, args ...any) T {
	t.tb.Helper()
	value, err := chromedp.Run(t.ctx, chromedp.Evaluate[T](fmt.Sprintf(expression, args...), chromedp.EvalAwaitPromise))
	if err != nil {
		t.tb.Fatalf("%.300s: %v", fmt.Sprintf(expression, args...), err)
	}
	return value
}

func (t *tab) until(what, expression string, args ...any) {
	t.tb.Helper()
	backend.Eventually(t.tb, what, func() bool { return eval[bool](t, "Boolean("+expression+")", args...) })
}

func (t *tab) sees(text string) {
	t.tb.Helper()
	t.until("the page says "+text, "document.body.innerText.includes(%s)", quote(text))
}

// press presses keys, as kb names those that write nothing.
func (t *tab) press(keys string) {
	t.tb.Helper()
	t.do(chromedp.KeyEvent(keys))
}

func (t *tab) click(selector string) {
	t.tb.Helper()
	t.until(selector+" is there", "document.querySelector(%s)?.offsetParent", quote(selector))
	t.do(chromedp.Click(chromedp.CSS(selector)))
}

func (t *tab) write(selector, text string) {
	t.tb.Helper()
	t.until(selector+" is there", "document.querySelector(%s)?.offsetParent", quote(selector))
	eval[bool](t, "(document.querySelector(%s).select(), document.querySelector(%[1]s).focus(), true)", quote(selector))
	t.press(kb.Delete)
	t.press(text)
}

// names are the locks whose rows exist, from the top.
func (t *tab) names() []string {
	t.tb.Helper()
	return eval[[]string](t, `[...document.querySelectorAll("#rows [role=row]")].sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map((r) => r.querySelector("a").textContent)`)
}

// lists waits until these locks are listed, in this order.
func (t *tab) lists(names ...string) {
	t.tb.Helper()
	want, _ := json.Marshal(names)
	backend.Eventually(t.tb, fmt.Sprintf("%q are listed, not %q", names, t.names()), func() bool {
		got, _ := json.Marshal(t.names())
		return string(got) == string(want)
	})
}

// emulate sets what the system prefers, such as prefers-color-scheme: dark.
func (t *tab) emulate(feature, value string) {
	t.tb.Helper()
	_, err := chromedp.Call(t.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: feature, Value: value}},
	})
	expect.OK(t.tb, err)
}

// save writes a picture of the page beside the test.
func (t *tab) save(name string) {
	picture, err := chromedp.Run(t.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.tb.Log(err)
		return
	}
	if dir := os.Getenv("HOLDFAST_TEST_PICTURES"); dir != "" {
		name = dir + "/" + strings.ReplaceAll(t.tb.Name(), "/", "-") + "-" + name
		if err := os.WriteFile(name, picture, 0o644); err != nil {
			t.tb.Log(err)
		}
	}
}

func quote(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

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
