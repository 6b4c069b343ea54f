package ui_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

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
