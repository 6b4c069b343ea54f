// Package pages is what the inspector tells its pages, as a program reads it: the list, the page of a lock, what a break
// answers. The pages themselves are tested in a browser, by tests/ui.
package pages

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/inspect/ui"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// Inspector is an inspector that is served, and may break locks.
type Inspector struct {
	tb  testing.TB
	url string
}

// Serve serves an inspector until the test ends.
func Serve(tb testing.TB, in *inspect.Inspector) *Inspector {
	tb.Helper()
	handler, err := ui.New(in, &ui.Options{AllowBreak: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
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
	order, err := json.Marshal(map[string]string{"name": name, "grant": grant, "reason": reason})
	if err != nil {
		i.tb.Fatal(err)
	}
	resp, err := http.Post(i.url+"/"+verb, "application/json", bytes.NewReader(order))
	if err != nil {
		i.tb.Fatal(err)
	}
	defer resp.Body.Close()
	a := Answer{Code: resp.StatusCode}
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		i.tb.Fatalf("%s %s: %d: %v", verb, name, resp.StatusCode, err)
	}
	return a
}

// Page is a page that is kept up to date. T is what it shows.
type Page[T any] struct {
	tb testing.TB

	mu   sync.Mutex
	show T
	end  error // why it is not kept up to date any more
}

// Until waits until the page shows what f asks for.
func (p *Page[T]) Until(what string, f func(T) bool) {
	p.tb.Helper()
	defer func() {
		if p.tb.Failed() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.tb.Logf("the page shows %+v; %v", p.show, p.end)
		}
	}()
	backend.Eventually(p.tb, what, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return f(p.show)
	})
}

// open follows the events of a path until the test ends. hear changes what the page shows.
func open[T any](i *Inspector, path string, show T, hear func(show *T, event string, data []byte) error) *Page[T] {
	i.tb.Helper()
	resp, err := http.Get(i.url + path)
	if err != nil {
		i.tb.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		i.tb.Fatalf("%s: %s", path, resp.Status)
	}
	p := &Page[T]{tb: i.tb, show: show}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		lines, event := bufio.NewScanner(resp.Body), ""
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			if name, is := strings.CutPrefix(lines.Text(), "event: "); is {
				event = name
			}
			if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
				p.mu.Lock()
				if err := hear(&p.show, event, []byte(data)); err != nil {
					p.end = fmt.Errorf("%s %s: %w", event, data, err)
				}
				p.mu.Unlock()
			}
		}
	}()
	i.tb.Cleanup(func() {
		_ = resp.Body.Close() // ends the scan
		<-ended
		if p.end != nil {
			i.tb.Error(p.end)
		}
	})
	return p
}

// Lock is what the page of a lock shows.
type Lock struct {
	Key, Kind, Fence string
	Holders          []struct{ Owner, Grant, Fence string }
	Waiting          int
	Timeline         []struct{ What, Owner, Grant, Fence, By, Reason string }
	Error, Why       string
}

// Lock opens the page of a lock.
func (i *Inspector) Lock(name string) *Page[Lock] {
	i.tb.Helper()
	return open(i, "/events?lock="+url.QueryEscape(name), Lock{}, func(l *Lock, event string, data []byte) error {
		if event != "lock" {
			return nil
		}
		*l = Lock{}
		return json.Unmarshal(data, l)
	})
}

// IsHeldBy reports whether an owner is the only holder, by that grant and with that fence.
func (l Lock) IsHeldBy(owner, grant, fence string) bool {
	return l.Error == "" && len(l.Holders) == 1 && l.Holders[0].Owner == owner && l.Holders[0].Grant == grant && l.Holders[0].Fence == fence
}

// IsBroken reports whether a break for this reason is in the timeline.
func (l Lock) IsBroken(reason string) bool {
	for _, h := range l.Timeline {
		if h.What == "broken" && h.Reason == reason {
			return true
		}
	}
	return false
}
