package quorum

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/inspect/ui"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// page is a page of the inspector as its events keep it up to date: that of a lock, or the list. tests/ui tests them in a browser.
type page struct {
	t  *testing.T
	mu sync.Mutex

	lock struct {
		Key, Error, Why string
		Holders         []struct{ Owner, Grant string }
		Timeline        []struct{ What, Reason string }
	}
	rows  map[float64][]any // by numbers of the list's own
	state struct{ Error, Why string }
}

// openPage follows a page until the test ends.
func openPage(t *testing.T, url string) *page {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %+v, %v", url, resp, err)
	}
	p, ended := &page{t: t, rows: map[float64][]any{}}, make(chan struct{})
	go func() {
		defer close(ended)
		event := ""
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if name, is := strings.CutPrefix(lines.Text(), "event: "); is {
				event = name
			}
			if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
				if err := p.hear(event, []byte(data)); err != nil {
					t.Errorf("%s %s: %v", event, data, err)
				}
			}
		}
	}()
	t.Cleanup(func() {
		_ = resp.Body.Close() // ends the scan
		<-ended
		if t.Failed() {
			t.Logf("%s shows %+v, %v, %+v", url, p.lock, p.rows, p.state)
		}
	})
	return p
}

func (p *page) hear(event string, data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list struct {
		Rows  [][]any
		Gone  []float64
		State *struct{ Error, Why string }
	}
	switch event {
	case "lock":
		p.lock.Holders, p.lock.Timeline, p.lock.Error, p.lock.Why = nil, nil, "", ""
		return json.Unmarshal(data, &p.lock)
	case "reset":
		clear(p.rows)
		p.state.Error, p.state.Why = "", ""
	case "changes":
		if err := json.Unmarshal(data, &list); err != nil {
			return err
		}
		for _, r := range list.Rows {
			if len(r) != 16 {
				return fmt.Errorf("%d columns", len(r))
			}
			p.rows[r[0].(float64)] = r
		}
		for _, number := range list.Gone {
			delete(p.rows, number)
		}
		if list.State != nil {
			p.state = *list.State
		}
	}
	return nil
}

// until waits until the page shows what is asks for.
func (p *page) until(what string, is func() bool) {
	p.t.Helper()
	backend.Eventually(p.t, what, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return is()
	})
}

// lists returns a function that asks for just these locks with their owners, as "name owner". Each has a grant id.
func (p *page) lists(want ...string) func() bool {
	return func() bool {
		for _, r := range p.rows {
			if r[2] != "mutex" || r[12] == "" || !slices.Contains(want, fmt.Sprint(r[1], " ", r[5])) {
				return false
			}
		}
		return len(p.rows) == len(want) && p.state.Error == ""
	}
}

// An operator sees what a majority has granted, and breaks it. Without a majority the pages say so, and nothing is broken.
func TestTheInspectorsPagesOfAQuorum(t *testing.T) {
	t.Parallel()
	each(t, 3, age, func(t *testing.T, s *site) {
		inspector := inspect.NewQuorum(s.quorum())
		handler, err := ui.New(inspector, &ui.Options{AllowBreak: true, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(handler)
		t.Cleanup(func() {
			handler.Close()
			web.Close()
		})
		list, lock := openPage(t, web.URL+"/events"), openPage(t, web.URL+"/events?lock=a")
		type answer struct{ Fence, Warning, Error string }
		order := func(verb, name, grant, reason string) (code int, a answer) {
			t.Helper()
			text, _ := json.Marshal(map[string]string{"name": name, "grant": grant, "reason": reason})
			resp, err := http.Post(web.URL+"/"+verb, "application/json", bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
				t.Fatalf("%s %s: %s: %v", verb, name, resp.Status, err)
			}
			return resp.StatusCode, a
		}
		lease, kept := acquire(t, s.quorum().Mutex("a", holdfast.Identity("worker"))), acquire(t, s.quorum().Mutex("b", holdfast.Identity("worker")))
		agree(t, lease, 3)
		agree(t, kept, 3)
		// The page may show a round before it, in which some nodes were too slow.
		status, err := inspector.Get(t.Context(), "a")
		if err != nil || !status.Held() {
			t.Fatalf("Get: %+v, %v", status, err)
		}
		grant := status.Holders[0].Grant
		lock.until("the holder is seen", func() bool {
			l := lock.lock
			return l.Error == "" && l.Key == "holdfast:{a}" && len(l.Holders) == 1 && l.Holders[0].Owner == "worker" && l.Holders[0].Grant == grant
		})
		list.until("what a majority holds is listed", list.lists("a worker", "b worker"))
		if code, a := order("revoke", "a", grant, "a deployment"); code != http.StatusOK || a.Warning != "" {
			t.Fatalf("Revoke: %d, %+v", code, a)
		}
		backend.Told(t, "the holder is asked to let go", lease.Revoked())
		next := backend.Start(t, s.quorum().Mutex("a", holdfast.Identity("next")))
		if code, a := order("break", "a", grant, "it hangs"); code != http.StatusOK || a.Fence == "" || a.Warning != "" {
			t.Fatalf("Break: %d, %+v", code, a)
		}
		backend.Receive(t, next)
		lock.until("the waiter has it, and why", func() bool {
			l := lock.lock
			broken := slices.Contains(l.Timeline, struct{ What, Reason string }{"broken", "it hangs"})
			return len(l.Holders) == 1 && l.Holders[0].Owner == "next" && broken
		})
		list.until("it is listed with its new holder", list.lists("a next", "b worker"))
		if testing.Short() { // each look would wait for nodes that are down
			return
		}
		s.nodes[1].Kill()
		s.nodes[2].Kill()
		list.until("the list says that it is out of date", func() bool { return list.state.Why == "silent" && len(list.rows) == 2 })
		lock.until("the page says so", func() bool { return lock.lock.Why == "silent" })
		for _, verb := range []string{"break", "revoke"} {
			if code, a := order(verb, "b", grant, "no majority"); code != http.StatusBadGateway || a.Error == "" {
				t.Errorf("%s without a majority: %d, %+v", verb, code, a)
			}
		}
	})
}
