package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
)

// client is what a page makes of the stream.
type client struct {
	t     *testing.T
	lines *bufio.Scanner
	close func()

	rows  map[float64][]any // by id
	state *state
	last  string // event
	lock  report
	reset int
}

// listen follows the events of a handler, over a pipe, so that it works in virtual time.
func listen(t *testing.T, h *Handler, path string) *client {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := newPipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "http://localhost"+path, nil))
		w.end()
	}()
	c := &client{t: t, lines: bufio.NewScanner(w), rows: map[float64][]any{}}
	c.lines.Buffer(nil, 64<<20)
	c.close = func() {
		cancel()
		w.end()
		<-ended
	}
	t.Cleanup(c.close)
	return c
}

// next reads one event; false if the stream has ended.
func (c *client) next() bool {
	c.t.Helper()
	for c.lines.Scan() {
		line := c.lines.Text()
		if name, is := strings.CutPrefix(line, "event: "); is {
			c.last = name
		}
		data, is := strings.CutPrefix(line, "data: ")
		if !is {
			continue
		}
		var e struct {
			Rows    [][]any
			Renewed [][2]float64
			Gone    []float64
			State   *state
		}
		switch c.last {
		case "reset":
			c.reset++
			clear(c.rows)
			c.state = nil
		case "lock":
			c.lock = report{}
			if err := json.Unmarshal([]byte(data), &c.lock); err != nil {
				c.t.Fatal(err)
			}
		case "changes":
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				c.t.Fatal(err)
			}
			for _, row := range e.Rows {
				c.rows[row[0].(float64)] = row
			}
			for _, id := range e.Gone {
				delete(c.rows, id)
			}
			for _, r := range e.Renewed {
				c.rows[r[0]][11] = r[1]
			}
			if e.State != nil {
				c.state = e.State
			}
		}
		return true
	}
	return false
}

// until reads events until f is true.
func (c *client) until(what string, f func() bool) {
	c.t.Helper()
	for !f() {
		if !c.next() {
			c.t.Fatalf("the stream ended before: %s", what)
		}
	}
}

// sees waits until these locks, and no others, are listed, each as "name owner waiting".
func (c *client) sees(want ...string) {
	c.t.Helper()
	c.until(fmt.Sprint(want), func() bool {
		if len(c.rows) != len(want) || c.state == nil {
			return false
		}
		for _, w := range want {
			found := false
			for _, row := range c.rows {
				found = found || fmt.Sprintf("%s %s %v", row[1], row[5], row[13]) == w
			}
			if !found {
				return false
			}
		}
		return true
	})
}

func TestChangesReachEveryViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newLocks(heldLock("a", "ann", 1, 0))
		h := newTestHandler(t, in, nil)
		one, two := listen(t, h, "/events"), listen(t, h, "/events")
		one.sees("a ann 0")
		two.sees("a ann 0")
		in.set(heldLock("a", "bob", 2, 3))
		in.set(heldLock("b", "eve", 1, 0))
		one.sees("a bob 3", "b eve 0")
		two.sees("a bob 3", "b eve 0")
		in.drop("a")
		one.sees("b eve 0")
		two.sees("b eve 0")
		late := listen(t, h, "/events")
		late.sees("b eve 0")
		if looks := in.count(); looks > 5 {
			t.Errorf("%d looks for three viewers: they do not share them", looks)
		}
		one.close()
		two.close()
		late.close()
		time.Sleep(linger / 2)
		if before := in.count(); before < 10 {
			t.Error("it does not linger")
		}
		time.Sleep(linger)
		before := in.count()
		time.Sleep(time.Hour)
		if in.count() != before {
			t.Error("it looks though nobody does")
		}
		again := listen(t, h, "/events")
		again.sees("b eve 0")
		again.close()
		h.Close()
	})
}

// What nobody renewed makes no traffic, and what was renewed little.
func TestOnlyWhatChangesIsSent(t *testing.T) {
	in := newLocks(heldLock("a", "ann", 1, 2))
	b := newBoard(t.Context(), in, "", 10)
	v := newViewer()
	b.viewers[v] = true
	b.lookOnce()
	<-v.frames
	s := in.all["a"]
	s.Time = s.Time.Add(time.Second)
	s.Holders[0].TTL -= time.Second - 3*time.Millisecond // as the server rounds
	in.set(s)
	b.lookOnce()
	if text := string(<-v.frames); strings.Contains(text, "rows") || strings.Contains(text, "renewed") {
		t.Errorf("nothing has changed: %s", text)
	}
	s.Holders[0].TTL += 10 * time.Second
	in.set(s)
	b.lookOnce()
	if text := string(<-v.frames); strings.Contains(text, "rows") || !strings.Contains(text, `"renewed":[[1,`) {
		t.Errorf("it was renewed: %s", text)
	}
}

func TestAnOutageIsNotAnEmptyList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newLocks(heldLock("a", "ann", 1, 0))
		h := newTestHandler(t, in, nil)
		c := listen(t, h, "/events")
		c.sees("a ann 0")
		in.fail(fmt.Errorf("holdfast: redis://me:secret@h:1: %w", holdfast.ErrUnavailable))
		c.until("the outage is told", func() bool { return c.state.Error != "" })
		if len(c.rows) != 1 || strings.Contains(c.state.Error, "secret") || c.state.Why != silent || c.state.Seen == 0 {
			t.Errorf("%v, %+v", c.rows, c.state)
		}
		late := listen(t, h, "/events")
		late.until("who comes later is told, too", func() bool { return late.state != nil && late.state.Error != "" })
		in.fail(nil)
		c.until("its end is told", func() bool { return c.state.Error == "" })
		late.close()
		c.close()
		h.Close()
	})
}

// A browser that does not read keeps nobody up, and gets the whole list when it reads again.
func TestASlowViewerIsSentTheListAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newLocks(heldLock("a", "ann", 1, 0))
		h := newTestHandler(t, in, nil)
		slow, quick := listen(t, h, "/events"), listen(t, h, "/events")
		slow.sees("a ann 0")
		for i := range 5 * mostFrames {
			in.set(heldLock("a", fmt.Sprint("owner-", i), uint64(i+2), 0))
			quick.sees(fmt.Sprintf("a owner-%d 0", i))
		}
		in.drop("a")
		in.set(heldLock("b", "eve", 1, 0))
		quick.sees("b eve 0")
		slow.sees("b eve 0")
		if slow.reset != 2 || quick.reset != 1 {
			t.Errorf("%d and %d lists were sent whole", slow.reset, quick.reset)
		}
		slow.close()
		quick.close()
		h.Close()
	})
}

func TestOneLockIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newLocks(heldLock("a", "ann", 1<<60+1, 2))
		h := newTestHandler(t, in, nil)
		c, other := listen(t, h, "/events?lock=a"), listen(t, h, "/events?lock=a")
		c.until("its state", func() bool { return len(c.lock.Holders) == 1 && len(c.lock.Timeline) == 1 })
		if got := c.lock; got.Holders[0].Owner != "ann" || got.Holders[0].Grant != "grant977" || got.Holders[0].Fence != "1152921504606846977" || got.Waiting != 2 || len(got.Waiters) != 2 || got.Timeline[0].What != granted {
			t.Errorf("%+v", got)
		}
		c.until("nothing is sent anew", func() bool { return c.last == "beat" })
		in.set(heldLock("a", "bob", 1<<60+2, 1))
		c.until("the hand-over", func() bool { return len(c.lock.Timeline) == 2 })
		if got := c.lock.Timeline; got[0].Owner != "bob" || got[0].What != handedOver || got[0].From != "ann" {
			t.Errorf("%+v", got)
		}
		in.drop("a")
		c.until("the release", func() bool { return len(c.lock.Holders) == 0 && len(c.lock.Timeline) == 3 })
		other.until("the other sees it, too", func() bool { return len(other.lock.Timeline) == 3 })
		c.close()
		other.close()
		h.Close()
	})
}

func TestThereIsAMostOfViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHandler(t, newLocks(), &Options{MaxViewers: 2})
		one, two := listen(t, h, "/events"), listen(t, h, "/events?lock=x")
		one.next()
		two.next()
		w := ask(h, "GET", "http://localhost/events", nil)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("%d", w.Code)
		}
		two.close()
		three := listen(t, h, "/events")
		if !three.next() {
			t.Error("nobody may come though one has left")
		}
		one.close()
		three.close()
		h.Close()
	})
}

func TestCloseEndsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHandler(t, newLocks(heldLock("a", "ann", 1, 0)), nil)
		c, lock := listen(t, h, "/events"), listen(t, h, "/events?lock=a")
		c.sees("a ann 0")
		h.Close()
		for c.next() {
		}
		for lock.next() {
		}
	})
}

// A long list comes in parts.
func TestALongListIsSentWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newLocks()
		const n = 2*mostChanges + 10
		for i := range n {
			in.set(heldLock(fmt.Sprint("lock-", i), "ann", uint64(i+1), 0))
		}
		h := newTestHandler(t, in, nil)
		for range 2 { // as it is found, and all at once
			c := listen(t, h, "/events")
			c.until("all", func() bool { return len(c.rows) == n && c.state != nil && c.state.Locks == n })
			c.close()
		}
		h.Close()
	})
}

// A program's own server may have timeouts that fit its other pages.
func TestTimeoutsOfTheServerDoNotEndStreams(t *testing.T) {
	t.Parallel()
	in := newLocks(heldLock("a", "ann", 1, 0))
	web := httptest.NewUnstartedServer(newTestHandler(t, in, nil))
	web.Config.ReadTimeout, web.Config.WriteTimeout = time.Second, time.Second
	web.Start()
	t.Cleanup(web.Close)
	var response *http.Response
	for { // A machine that stands still may not send the request in time.
		var err error
		if response, err = http.Get(web.URL + "/events"); err == nil {
			break
		}
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	c := &client{t: t, lines: bufio.NewScanner(response.Body), rows: map[float64][]any{}}
	c.sees("a ann 0")
	for i := range 3 {
		looks := in.count()
		c.until("another look", func() bool { return in.count() > looks })
		in.set(heldLock("a", fmt.Sprint("owner-", i), uint64(i+2), 0))
		c.sees(fmt.Sprintf("a owner-%d 0", i))
	}
}
