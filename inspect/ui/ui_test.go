package ui

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
)

// locks are a source that tests change.
type locks struct {
	mu    sync.Mutex
	all   map[string]holdfast.Status
	err   error
	looks int
	gets  int // looks at single locks

	record []inspect.Broken
	asked  int // for it

	did    []string // breaks and revocations
	broken inspect.Broken
	refuse error
}

func (l *locks) Break(_ context.Context, h holdfast.Holder, reason string) (inspect.Broken, error) {
	l.did = append(l.did, fmt.Sprint("break ", h.Name, " ", h.Grant, " ", reason))
	return l.broken, l.refuse
}

func (l *locks) Revoke(_ context.Context, h holdfast.Holder, reason string) error {
	l.did = append(l.did, fmt.Sprint("revoke ", h.Name, " ", h.Grant, " ", reason))
	return l.refuse
}

func newLocks(all ...holdfast.Status) *locks {
	l := &locks{all: map[string]holdfast.Status{}}
	for _, s := range all {
		l.all[s.Name] = s
	}
	return l
}

func (l *locks) List(context.Context, string) iter.Seq2[holdfast.Status, error] {
	return func(yield func(holdfast.Status, error) bool) {
		l.mu.Lock()
		l.looks++
		err := l.err
		var all []holdfast.Status
		for _, s := range l.all {
			all = append(all, s)
		}
		l.mu.Unlock()
		if err != nil {
			yield(holdfast.Status{}, err)
			return
		}
		for _, s := range all {
			if !yield(s, nil) {
				return
			}
		}
	}
}

func (l *locks) Get(_ context.Context, name string) (holdfast.Status, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gets++
	s, is := l.all[name]
	if !is {
		s = holdfast.Status{Name: name, Time: now()}
	}
	return s, l.err
}

func (l *locks) Deadlocks(context.Context) ([]*holdfast.DeadlockError, error) { return nil, nil }

func (l *locks) History(context.Context) iter.Seq2[inspect.Broken, error] {
	return func(yield func(inspect.Broken, error) bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.asked++
		for _, b := range l.record {
			if !yield(b, nil) {
				return
			}
		}
	}
}

func (l *locks) set(s holdfast.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[s.Name] = s
}

func (l *locks) drop(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, name)
}

func (l *locks) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

func (l *locks) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.looks
}

// now is a time without nanoseconds, as servers tell it.
func now() time.Time { return time.Now().Truncate(time.Millisecond) }

// heldLock is a mutex that is held, and waited for.
func heldLock(name, owner string, fence uint64, waiting int) holdfast.Status {
	s := holdfast.Status{Name: name, Key: "k:" + name, Kind: holdfast.KindMutex, Fence: fence, Waiting: waiting, Time: now()}
	s.Holders = []holdfast.Holder{{Identity: owner, Host: "host", PID: 7, Mode: holdfast.ModeExclusive, Grant: fmt.Sprintf("grant%03d", fence%1000), Fence: fence, Since: s.Time.Add(-time.Minute), TTL: 30 * time.Second}}
	for i := range waiting {
		s.Waiters = append(s.Waiters, holdfast.Waiter{Identity: fmt.Sprint("waiter-", i), Since: s.Time.Add(-time.Duration(i) * time.Second)})
	}
	return s
}

func newTestHandler(t *testing.T, in source, opts *Options) *Handler {
	t.Helper()
	if opts == nil {
		opts = &Options{}
	}
	opts.Logger = slog.New(slog.DiscardHandler)
	h, err := newHandler(in, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// ask answers a request, to whose header change may add.
func ask(h http.Handler, method, url string, change func(r *http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, url, nil)
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestOptionsAreChecked(t *testing.T) {
	for _, opts := range []*Options{
		{Pattern: "a["}, {Prefix: "locks"}, {Prefix: "/a/../b"}, {Hosts: []string{"a:80"}}, {Hosts: []string{""}},
	} {
		if _, err := New(nil, opts); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
}

func TestEveryAnswerHasTheHeadersThatGuardIt(t *testing.T) {
	h := newTestHandler(t, newLocks(), nil)
	for _, c := range []struct {
		method, path string
		code         int
	}{
		{"GET", "/", 200}, {"HEAD", "/", 200}, {"GET", "/assets/app.js", 200}, {"GET", "/assets/style.css", 200}, {"GET", "/assets/icon.svg", 200}, {"GET", "/metrics", 200}, {"GET", "/list", 200}, {"GET", "/lock?name=a", 200},
		{"GET", "/assets/", 404}, {"GET", "/assets/../ui.go", 404}, {"GET", "/other", 404}, {"POST", "/", 405}, {"POST", "/list", 405}, {"POST", "/break", 403},
	} {
		w := ask(h, c.method, "http://localhost"+c.path, nil)
		equal(t, c.method+" "+c.path, w.Code, c.code)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; " +
				"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
			"Cross-Origin-Resource-Policy": "same-origin", "Access-Control-Allow-Origin": "",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s %s: %s is %q", c.method, c.path, name, got)
			}
		}
		if kind := w.Header().Get("Content-Type"); c.code == 200 && kind == "" {
			t.Errorf("%s has no type", c.path)
		}
	}
}

// No page has anything inline, which the policy would refuse, nor anything from elsewhere, nor an address from the root.
func TestAssetsKeepToThePolicy(t *testing.T) {
	all, err := files.ReadDir("assets")
	if err != nil || len(all) < 6 {
		t.Errorf("%d assets, %v", len(all), err)
	}
	for _, file := range all {
		text, err := files.ReadFile("assets/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"<style", " style=", "<script>", " onclick=", "innerHTML", "javascript:", "eval(", `="/`, "https:", "setAttribute(\"style"} {
			if strings.Contains(string(text), word) {
				t.Errorf("%s has %s", file.Name(), word)
			}
		}
	}
}

func TestTheIconIsTheLogo(t *testing.T) {
	logo, err := os.ReadFile("../../docs/pictures/logo.svg")
	if icon, _ := files.ReadFile("assets/icon.svg"); err != nil || string(logo) != string(icon) {
		t.Errorf("assets/icon.svg differs from docs/pictures/logo.svg: %v", err)
	}
}

func TestOnlyAllowedHostsAreServed(t *testing.T) {
	h := newTestHandler(t, newLocks(), &Options{Hosts: []string{"Locks.example.com"}})
	for host, code := range map[string]int{
		"localhost": 200, "LOCALHOST.:4041": 200, "127.0.0.1:4041": 200, "[::1]:4041": 200, "10.1.2.3": 200, "": 200, "locks.example.com:443": 200,
		"evil.example": 421, "evil.example:4041": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421, "sub.locks.example.com": 421,
	} {
		for _, path := range []string{"/", "/list", "/metrics", "/break"} {
			if code == 200 && path != "/" {
				continue
			}
			equal(t, path, ask(h, "GET", "http://x"+path, func(r *http.Request) { r.Host = host }).Code, code)
		}
	}
	any := newTestHandler(t, newLocks(), &Options{Hosts: []string{"*"}})
	equal(t, "the answer for any host", ask(any, "GET", "http://anything.example/", nil).Code, 200)
}

func TestUsersAreAskedForTheirPasswords(t *testing.T) {
	h := newTestHandler(t, newLocks(), &Options{Authenticate: func(user, password string) bool { return user == "ann" && password == "right" }})
	for _, path := range []string{"/", "/assets/app.js", "/metrics", "/list", "/lock?name=a"} {
		for password, code := range map[string]int{"": 401, "wrong": 401, "right": 200} {
			w := ask(h, "GET", "http://localhost"+path, func(r *http.Request) {
				if password != "" {
					r.SetBasicAuth("ann", password)
				}
			})
			if w.Code != code || (code == 401) != (w.Header().Get("WWW-Authenticate") != "") {
				t.Errorf("%s with %q: %d, want %d", path, password, w.Code, code)
			}
		}
	}
}

func TestAPrefixIsPartOfEveryPath(t *testing.T) {
	h := newTestHandler(t, newLocks(), &Options{Prefix: "/ops/locks/"})
	for path, code := range map[string]int{
		"/ops/locks": 301, "/ops/locks/": 200, "/ops/locks/assets/app.js": 200, "/ops/locks/metrics": 200, "/": 404, "/ops/locksmith": 404, "/assets/app.js": 404,
	} {
		w := ask(h, "GET", "http://localhost"+path, nil)
		equal(t, path, w.Code, code)
		if code == 301 && w.Header().Get("Location") != "locks/" { // relative, for proxies
			t.Errorf("%s leads to %q", path, w.Header().Get("Location"))
		}
	}
}

func TestAClosedHandlerServesNobody(t *testing.T) {
	h := newTestHandler(t, newLocks(), nil)
	h.Close()
	for _, path := range []string{"/", "/list"} {
		equal(t, path, ask(h, "GET", "http://localhost"+path, nil).Code, http.StatusServiceUnavailable)
	}
}
