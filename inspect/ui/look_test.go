package ui

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
)

// listing is what a page makes of the list.
type listing struct {
	look
	Time int64 `json:"t"`
}

// names are the locks, each as "name owner waiting".
func (l *listing) names() string {
	var all []string
	for _, r := range l.Locks {
		all = append(all, fmt.Sprint(r.Name, " ", r.Owner, " ", r.Waiting))
	}
	return strings.Join(all, ", ")
}

func list(t *testing.T, h *Handler) (l listing) {
	t.Helper()
	w := ask(h, "GET", "http://localhost/list", nil)
	if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil {
		t.Fatalf("%d, %v: %s", w.Code, err, w.Body)
	}
	return l
}

func TestEveryViewerSeesTheChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newLocks(heldLock("a", "ann", 1, 0))
		h := newTestHandler(t, in, nil)
		sees := func(want string) {
			t.Helper()
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					l := list(t, h)
					equal(t, "the list", l.names(), want)
				})
			}
			all.Wait()
		}
		sees("a ann 0")
		in.set(heldLock("a", "bob", 2, 3))
		in.set(heldLock("b", "eve", 1, 0))
		sees("a ann 0") // it has just been looked at
		time.Sleep(lookPeriod)
		sees("a bob 3, b eve 0")
		in.drop("a")
		time.Sleep(lookPeriod)
		sees("b eve 0")
		if looks := in.count(); looks != 3 {
			t.Errorf("%d looks for three viewers: they do not share them", looks)
		}
		time.Sleep(time.Hour)
		equal(t, "looks, when nobody looks any more", in.count(), 3)
	})
}

func TestTheTimeIsTheServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := heldLock("a", "ann", 1, 0)
		s.Time = s.Time.Add(time.Hour)
		h := newTestHandler(t, newLocks(s), nil)
		for range 2 { // the second time, of the same look
			if got, want := list(t, h).Time, now().Add(time.Hour).UnixMilli(); got != want {
				t.Errorf("%d, want %d", got, want)
			}
			time.Sleep(lookPeriod / 2)
		}
	})
}

func TestAnOutageIsNotAnEmptyList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newLocks(heldLock("a", "ann", 1, 0))
		h := newTestHandler(t, in, nil)
		list(t, h)
		in.fail(fmt.Errorf("holdfast: redis://me:secret@h:1: %w", holdfast.ErrUnavailable))
		time.Sleep(lookPeriod)
		if l := list(t, h); l.names() != "a ann 0" || l.Error == "" || strings.Contains(l.Error, "secret") || l.Why != silent || l.Seen == 0 || l.Partly {
			t.Errorf("%+v", l)
		}
		in.fail(nil)
		in.drop("a")
		time.Sleep(lookPeriod)
		if l := list(t, h); l.Error != "" || len(l.Locks) > 0 {
			t.Errorf("%+v", l)
		}
	})
}

// partial is a source of which some locks cannot be seen.
type partial struct {
	*locks
	errs map[string]error // by name; "" is the last
}

func (p *partial) List(ctx context.Context, pattern string) iter.Seq2[holdfast.Status, error] {
	return func(yield func(holdfast.Status, error) bool) {
		for s, err := range p.locks.List(ctx, pattern) {
			if p.errs[s.Name] != nil {
				s, err = holdfast.Status{Name: s.Name, Key: s.Key}, p.errs[s.Name]
			}
			if !yield(s, err) {
				return
			}
		}
		if err := p.errs[""]; err != nil {
			yield(holdfast.Status{}, err)
		}
	}
}

// What cannot be seen any more stays in the list as it was, and the list says so.
func TestAListThatIsNotWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &partial{newLocks(heldLock("a", "ann", 1, 0), heldLock("b", "bob", 1, 0), heldLock("c", "cat", 1, 0)), map[string]error{}}
		h := newTestHandler(t, in, nil)
		list(t, h)
		seen := list(t, h).Seen
		in.errs["a"], in.errs["b"] = holdfast.ErrDenied, holdfast.ErrUnavailable
		time.Sleep(lookPeriod)
		if l := list(t, h); l.names() != "a ann 0, b bob 0, c cat 0" || l.Hidden != 1 || l.Open != 1 || l.Error != "" || l.Seen <= seen {
			t.Errorf("%+v", l)
		}
		seen = list(t, h).Seen
		in.errs = map[string]error{"": holdfast.ErrUnavailable}
		in.drop("a") // with the master that is down
		in.set(heldLock("c", "eve", 2, 0))
		time.Sleep(lookPeriod)
		if l := list(t, h); l.names() != "a ann 0, b bob 0, c eve 0" || !l.Partly || l.Why != silent || l.Seen != seen {
			t.Errorf("%+v", l)
		}
	})
}

// slowLocks are a source whose looks take a while.
type slowLocks struct {
	*locks
	takes time.Duration
}

func (s *slowLocks) List(ctx context.Context, pattern string) iter.Seq2[holdfast.Status, error] {
	time.Sleep(s.takes)
	return s.locks.List(ctx, pattern)
}

func (s *slowLocks) Get(ctx context.Context, _ string) (holdfast.Status, error) {
	<-ctx.Done()
	return holdfast.Status{}, ctx.Err()
}

// A look that takes long is awaited for a while, then what was seen before it is shown. The server gets a pause as long as the look.
func TestASlowLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &slowLocks{newLocks(heldLock("a", "ann", 1, 0)), 3 * time.Second}
		h := newTestHandler(t, in, nil)
		list(t, h)
		time.Sleep(2 * time.Second)
		in.set(heldLock("a", "bob", 2, 0))
		l := list(t, h)
		if l.names() != "a ann 0" || in.count() != 1 {
			t.Errorf("%s after %d looks", l.names(), in.count())
		}
		if w := ask(h, "GET", fmt.Sprint("http://localhost/list?seen=", l.ID), nil); w.Code != http.StatusNoContent || w.Body.Len() > 0 {
			t.Errorf("who has seen it is answered %d: %s", w.Code, w.Body)
		}
		time.Sleep(time.Second)
		in.takes = time.Minute
		began := time.Now()
		if l := list(t, h); l.names() != "a ann 0" || time.Since(began) != patience {
			t.Errorf("%s after %s", l.names(), time.Since(began))
		}
		time.Sleep(time.Minute)
		l = list(t, h)
		equal(t, "the list", l.names(), "a bob 0")
	})
}

func TestAListIsCompressed(t *testing.T) {
	in := newLocks()
	for i := range 1000 {
		in.set(heldLock(fmt.Sprint("lock-", i), "ann", uint64(i+1), 0))
	}
	h := newTestHandler(t, in, nil)
	w := ask(h, "GET", "http://localhost/list", func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip, br") })
	if size := w.Body.Len(); size > 50<<10 || w.Header().Get("Content-Encoding") != "gzip" {
		t.Errorf("%d bytes, %v", size, w.Header())
	}
	var l listing
	if zip, err := gzip.NewReader(w.Body); err != nil || json.NewDecoder(zip).Decode(&l) != nil || len(l.Locks) != 1000 {
		t.Errorf("%d locks, %v", len(l.Locks), err)
	}
}

// show asks for one lock.
func show(t *testing.T, h *Handler, name string) (r report) {
	t.Helper()
	w := ask(h, "GET", "http://localhost/lock?name="+name, nil)
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil {
		t.Fatalf("%d, %v: %s", w.Code, err, w.Body)
	}
	return r
}

func TestOneLockIsShown(t *testing.T) {
	h := newTestHandler(t, newLocks(heldLock("a", "ann", 1<<60+1, 2)), nil)
	r := show(t, h, "a")
	if len(r.Holders) != 1 || r.Holders[0].Owner != "ann" || r.Holders[0].Grant != "grant977" || r.Holders[0].Fence != "1152921504606846977" || r.Waiting != 2 || len(r.Waiters) != 2 {
		t.Errorf("%+v", r)
	}
	if r := show(t, h, "b"); r.Error != "" || len(r.Holders) > 0 || r.Time == 0 {
		t.Errorf("%+v", r)
	}
}

// However many pages of a lock are open, the server is asked once a second.
func TestPagesOfALockShareLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newLocks(heldLock("a", "ann", 1, 0))
		h := newTestHandler(t, in, &Options{AllowBreak: true})
		sees := func(owner string, gets int) {
			t.Helper()
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					if r := show(t, h, "a"); len(r.Holders) != 1 || r.Holders[0].Owner != owner {
						t.Errorf("%+v, want %s", r.Holders, owner)
					}
				})
			}
			all.Wait()
			equal(t, "looks", in.gets, gets)
		}
		sees("ann", 1)
		in.set(heldLock("a", "bob", 2, 0))
		sees("ann", 1)
		time.Sleep(lookPeriod + 1)
		sees("bob", 2)
		in.set(heldLock("a", "eve", 3, 0))
		demand(h, "break", strings.ReplaceAll(goodOrder, "orders/1", "a"), nil)
		sees("eve", 3) // the operator sees at once what came of the break
	})
}

func TestALookAtALockIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHandler(t, &slowLocks{locks: newLocks()}, nil)
		began := time.Now()
		if r := show(t, h, "a"); r.Error == "" || time.Since(began) != lookTime {
			t.Errorf("%+v after %s", r, time.Since(began))
		}
		time.AfterFunc(time.Second, h.Close)
		began = time.Now()
		if r := show(t, h, "a"); r.Error == "" || time.Since(began) != time.Second {
			t.Errorf("%+v, %s after Close", r, time.Since(began))
		}
	})
}

// Pages share the record of breaks, which takes the server more than a lock. A break through the handler is in it at once.
func TestBreaksAreOnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := now()
		in := newLocks(heldLock("a", "bob", 2, 0))
		in.record = []inspect.Broken{
			{Name: "a", Holder: holdfast.Holder{Identity: "ann", Grant: "aaaaaaaa", Since: at.Add(-time.Second)}, By: "eve", Reason: "hangs", Time: at},
			{Name: "a", Holder: holdfast.Holder{Grant: "aaaaaaaa"}, By: "eve", Reason: "please", Time: at, Revoked: true},
			{Name: "b", Holder: holdfast.Holder{Identity: "zoe"}},
		}
		h := newTestHandler(t, in, &Options{AllowBreak: true})
		var got []string
		for _, e := range show(t, h, "a").Record {
			got = append(got, fmt.Sprintf("%s %s %s %d %s %s", e.What, e.Owner, e.Grant, e.Held, e.By, e.Reason))
		}
		if want := "broken ann aaaaaaaa 1000 eve hangs; revoked  aaaaaaaa 0 eve please"; strings.Join(got, "; ") != want {
			t.Errorf("%q, want %s", got, want)
		}
		show(t, h, "b")
		equal(t, "how often the record was read", in.asked, 1)
		if demand(h, "break", strings.ReplaceAll(goodOrder, "orders/1", "b"), nil); len(show(t, h, "b").Record) != 1 || in.asked != 2 {
			t.Errorf("after a break, the record was read %d times", in.asked)
		}
		if time.Sleep(2 * recordPeriod); len(show(t, h, "b").Record) != 1 || in.asked != 3 {
			t.Errorf("later, the record was read %d times", in.asked)
		}
	})
}

// A program's own server may have timeouts that fit its other pages.
func TestTheTimeoutOfTheServerDoesNotEndALook(t *testing.T) {
	t.Parallel()
	web := httptest.NewUnstartedServer(newTestHandler(t, &slowLocks{newLocks(heldLock("a", "ann", 1, 0)), 2 * time.Second}, nil))
	web.Config.ReadTimeout, web.Config.WriteTimeout = time.Second, time.Second
	web.Start()
	t.Cleanup(web.Close)
	for { // A machine that stands still may not send the request in time.
		response, err := http.Get(web.URL + "/list")
		if err != nil {
			continue
		}
		defer response.Body.Close()
		var l listing
		if err := json.NewDecoder(response.Body).Decode(&l); err != nil || l.names() != "a ann 0" {
			t.Errorf("%v, %s", err, l.names())
		}
		return
	}
}

// equal requires that what was got is what was wanted.
func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v; want %v", what, got, want)
	}
}
