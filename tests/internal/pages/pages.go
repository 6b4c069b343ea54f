// Package pages is what the inspector tells its pages, as a program reads it: the list, the page of a lock, what a break
// answers. The pages themselves are tested in a browser, by tests/ui.
package pages

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/inspect/ui"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// Inspector is an inspector that is served, and may break locks.
type Inspector struct {
	tb  testing.TB
	url string
}

// Serve serves an inspector until the test ends.
func Serve(tb testing.TB, in *inspect.Inspector) *Inspector {
	tb.Helper()
	handler := expect.Of(ui.New(in, &ui.Options{AllowBreak: true, Logger: slog.New(slog.DiscardHandler)})).OK(tb)
	web := httptest.NewServer(handler)
	tb.Cleanup(func() {
		handler.Close()
		web.Close()
	})
	return &Inspector{tb, web.URL}
}

// Answer is what a page is told of an order.
type Answer struct {
	Code                         int // HTTP's
	Grant, Fence, Warning, Error string
}

// Order breaks or revokes the grant of a lock that has this id.
func (i *Inspector) Order(verb, name, grant, reason string) Answer {
	i.tb.Helper()
	order := expect.Of(json.Marshal(map[string]string{"name": name, "grant": grant, "reason": reason})).OK(i.tb)
	resp := expect.Of(http.Post(i.url+"/"+verb, "application/json", bytes.NewReader(order))).OK(i.tb)
	defer resp.Body.Close()
	a := Answer{Code: resp.StatusCode}
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		i.tb.Fatalf("%s %s: %d: %v", verb, name, resp.StatusCode, err)
	}
	return a
}

// Page is a page that is open. T is what it shows.
type Page[T any] struct {
	in   *Inspector
	path string
}

// Until waits until the page shows what f asks for.
func (p Page[T]) Until(what string, f func(T) bool) {
	tb := p.in.tb
	tb.Helper()
	var show T
	defer func() {
		if tb.Failed() {
			tb.Logf("the page shows %+v", show)
		}
	}()
	backend.Eventually(tb, what, func() bool {
		resp := expect.Of(http.Get(p.in.url + p.path)).OK(tb)
		defer resp.Body.Close()
		show = *new(T)
		if err := json.NewDecoder(resp.Body).Decode(&show); err != nil {
			tb.Fatalf("%s: %s: %v", p.path, resp.Status, err)
		}
		return f(show)
	})
}

// List is what the list shows. Error and Why say how the latest look at all locks ended.
type List struct {
	Locks      []Row
	Error, Why string
}

// Row is a lock in the list.
type Row struct{ Name, Kind, Owner, Grant string }

// List opens the list.
func (i *Inspector) List() Page[List] { return Page[List]{i, "/list"} }

// Lock is what the page of a lock shows.
type Lock struct {
	Key        string
	Holders    []struct{ Owner, Grant string }
	Record     []struct{ What, Reason string }
	Error, Why string
}

// Lock opens the page of a lock.
func (i *Inspector) Lock(name string) Page[Lock] {
	return Page[Lock]{i, "/lock?name=" + url.QueryEscape(name)}
}

// IsBroken reports whether a break for this reason is on record.
func (l Lock) IsBroken(reason string) bool {
	for _, b := range l.Record {
		if b.What == "broken" && b.Reason == reason {
			return true
		}
	}
	return false
}
