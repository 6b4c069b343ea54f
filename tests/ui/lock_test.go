package ui_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

func TestThePageOfALock(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	lease := s.hold(s.newClient("ann").Mutex("nightly", holdfast.Meta("job", "backup")))
	s.wait("bob", mutex("nightly"))
	backend.Waiters(t, s.client.Mutex("nightly"), 1)
	s.wait("cat", mutex("nightly"))
	page := open(t, s.url+"?lock=nightly", 1280, 800)
	page.sees("Waiting (2 processes)")
	for _, text := range []string{"ann", "backup", "held", "2 processes wait", "mutex", "holdfast:{nightly}", "Granted to"} {
		page.sees(text)
	}
	page.until("the grant id", `document.querySelector(".holders .grant").textContent === %s`, quote(s.grant("nightly")))
	page.until("the fence", `[...document.querySelectorAll(".holders code")].at(-1).textContent === "%d"`, lease.Fence())
	page.until("the waiters, in order", `[...document.querySelectorAll(".waiters strong")].map((e) => e.textContent).join() === "bob,cat"`)
	eval[bool](page, `(navigator.clipboard.writeText = async (text) => { window.copied = text; }, true)`)
	page.click(".holders button")
	page.sees("Copied")
	page.until("the grant id is copied", `window.copied === %s`, quote(s.grant("nightly")))
	left := eval[string](page, `document.querySelector(".holders .facts").innerText`)
	page.until("time passes", `document.querySelector(".holders .facts").innerText !== %s`, quote(left))
	backend.Release(t, lease)
	page.until("bob has it", `document.querySelector(".holders strong")?.textContent === "bob"`)
	page.sees("Handed over to")
	page.sees("from ann, who had it for")
	s.letGo("bob")
	page.until("cat has it", `document.querySelector(".holders strong")?.textContent === "cat"`)
	page.sees("Handed over to cat") // the timeline may know it later
	s.letGo("cat")
	page.sees("It is free.")
	page.sees("Released by cat")
	if eval[bool](page, `document.querySelector("form") !== null`) {
		t.Error("there is a form though nothing may be broken")
	}
}

func TestALossIsInTheTimeline(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	page := open(t, s.url+"?lock=dead", 1280, 800)
	page.sees("Nothing has been seen to happen yet.")
	value := `hf2:AAAAAAAAAAAAAAAAAAAAAA:7:1700000000000:0:{"o":"hung"}`
	if err := s.b.Redis(t).Set(t.Context(), "holdfast:{dead}", value, 8*time.Second).Err(); err != nil { // time to be looked at
		t.Fatal(err)
	}
	page.sees("Granted to hung")
	page.sees("The lease ran out of hung")
}

// That the server does not answer does not look as if there were no locks.
func TestAnOutageIsSeen(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.hold(s.client.Mutex("orders/1"))
	list, lock, late := open(t, s.url, 1280, 800), open(t, s.url+"?lock=orders/1", 1280, 800), (*tab)(nil)
	list.lists("orders/1")
	lock.sees("Granted to")
	s.b.Server.Pause()
	list.sees("The server does not answer. What you see is as of")
	list.until("it looks out of date", `document.body.classList.contains("outdated") && document.querySelector("#live").dataset.state === "down"`)
	list.lists("orders/1")
	lock.sees("The server does not answer")
	late = open(t, s.url+"?q=x", 1280, 800)
	late.sees("The server does not answer")
	s.b.Server.Resume()
	for _, page := range []*tab{list, lock, late} {
		page.until("it is live again", `!document.body.classList.contains("outdated") && document.querySelector("#live").dataset.state === "live"`)
	}
	list.until("without the banner", `document.querySelector("#banner").hidden`)
}

// A page finds back to an inspector that was away.
func TestAPageConnectsAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.hold(s.client.Mutex("orders/1"))
	page := open(t, s.url, 1280, 800)
	page.lists("orders/1")
	s.web.CloseClientConnections()
	s.hold(s.client.Mutex("orders/2"))
	page.lists("orders/1", "orders/2")
	page.until("it is live", `document.querySelector("#live").dataset.state === "live"`)
}

// The list ranks the locks under contention by what it is sorted by.
func TestContention(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.hold(s.client.Mutex("long"))
	s.wait("w1", mutex("long"))
	backend.Waiters(t, s.client.Mutex("long"), 1)
	s.hold(s.client.Mutex("broad"))
	s.wait("w2", mutex("broad"))
	s.wait("w3", mutex("broad"))
	s.hold(s.client.Mutex("calm"))
	page := open(t, s.url+"?sort=waiting", 1280, 800)
	page.lists("broad", "long", "calm")
	page.press("7") // by the longest wait
	page.lists("long", "broad", "calm")
	page.until("the wait is told", `/^\d+s$/.test(document.querySelector("#rows .waited").textContent)`)
	page.press("4") // by how long it is held
	page.lists("long", "broad", "calm")
	page.press("6")
	page.lists("broad", "long", "calm")
}

// What happened to a lock while the list was shown is on its page, once.
func TestTheTimelineBeginsWithTheList(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	page := open(t, s.url, 1280, 800)
	page.sees("No locks")
	lease := s.hold(s.newClient("ann").Mutex("nightly"))
	page.lists("nightly")
	s.wait("bob", mutex("nightly"))
	page.until("bob waits", `document.querySelector("#rows .badge")?.textContent === "1"`)
	backend.Release(t, lease)
	page.sees("bob")
	page.click("#rows a")
	page.sees("from ann, who had it for")
	page.until("each is told once", `[...document.querySelectorAll(".timeline b")].map((e) => e.textContent).join() === "bob,ann"`)
}

// The candidates of an election stand by while somebody leads. They wait if nobody does.
func TestAnElectionIsNoContention(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	rdb := s.b.Redis(t)
	candidate := redis.Z{Score: 1.6e15, Member: "token\n60000\nnowhere\n" + `{"o":"bob","k":"election"}`}
	err := errors.Join(
		rdb.Set(t.Context(), "holdfast:{boss}", `hf2:AAAAAAAAAAAAAAAAAAAAAA:7:1600000000000:0:{"o":"ann","k":"election"}+`, time.Hour).Err(),
		rdb.ZAdd(t.Context(), "holdfast:{boss}:q", candidate).Err())
	expect.OK(t, err)
	list, lock := open(t, s.url, 1280, 800), open(t, s.url+"?lock=boss", 1280, 800)
	list.lists("boss")
	list.sees("leader · ann")
	list.sees("1 standby")
	list.until("nobody waits", `document.querySelector("#n-waiting").textContent === "0" && document.querySelector("#n-longest").textContent === "–"`)
	list.until("nor for how long", `document.querySelector("#rows .waited").textContent === "–"`)
	lock.sees("Standing by (1 process)")
	lock.sees("Leader")
	expect.OK(t, rdb.Del(t.Context(), "holdfast:{boss}").Err())
	list.sees("no leader")
	list.until("it waits", `document.querySelector("#n-waiting").textContent === "1" && document.querySelector("#n-longest").textContent === "–"`)
	lock.sees("Waiting (1 process)")
	lock.sees("Nobody leads at the moment.")
}

// What cannot be a lock's name is no outage.
func TestANameThatIsNoneIsNoOutage(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	page := open(t, s.url+"?lock=a%0ab", 1280, 800)
	page.sees("This cannot be looked at")
}
