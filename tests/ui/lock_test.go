package ui_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect/ui"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

func TestThePageOfALock(t *testing.T) {
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
	expect.Equal(t, "there is a form though nothing may be broken", eval[bool](page, `document.querySelector("form") !== null`), false)
}

func TestALossIsInTheTimeline(t *testing.T) {
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
	s := newStage(t, nil)
	page := open(t, s.url+"?lock=a%0ab", 1280, 800)
	page.sees("This cannot be looked at")
}

func TestWhatHappenedBetweenTwoLooks(t *testing.T) {
	page := open(t, newStage(t, nil).url, 1280, 800)
	const (
		ann  = `{owner: "ann", grant: "aaaaaaaa", since: 900000, until: 1010000}`
		bob  = `{owner: "bob", grant: "bbbbbbbb", since: 999500, until: 1030000}`
		dead = `{owner: "ann", grant: "aaaaaaaa", since: 900000, until: 999000}`
	)
	for name, c := range map[string]struct {
		before, after string
		waited        int
		apart         int // ms
		want          string
	}{
		"a grant":                         {"", bob, 0, 1000, "granted bob 999500"},
		"a renewal":                       {dead, ann, 0, 1000, ""},
		"a release":                       {ann, "", 0, 1000, "released ann 1000000"},
		"a lease that ran out":            {dead, "", 0, 1000, "expired ann 1000000"},
		"a loss that nobody saw":          {dead, "", 0, 60000, "gone ann 1000000"}, // it may have been renewed meanwhile, and released
		"a hand-over":                     {ann, bob, 1, 1000, "handed over bob 999500 ann"},
		"a loss, after which another had": {dead, bob, 1, 1000, "expired ann 999500, handed over bob 999500 ann"},
		"a release and a newcomer":        {ann, bob, 0, 1000, "released ann 999500, granted bob 999500"},
		"one of several":                  {ann + "," + bob, bob, 0, 1000, "released ann 1000000"},
	} {
		got := eval[string](page, `import(new URL("assets/timeline.js", location.href)).then(({ note, timelineOf }) => {
			const [before, after] = [{ t: 1000000 - %d, waiting: %d, holders: [%s] }, { t: 1000000, waiting: 0, holders: [%s] }];
			note(%[5]s, before, after);
			note(%[5]s, before, after); // as the list and the page of a lock may
			return timelineOf(%[5]s).map((h) => [h.what, h.owner, h.t, h.from].filter(Boolean).join(" ")).join(", ");
		})`, c.apart, c.waited, c.before, c.after, quote(name))
		expect.Equal(t, name, got, c.want)
	}
}

func TestTimelinesAreBounded(t *testing.T) {
	page := open(t, newStage(t, nil).url, 1280, 800)
	got := eval[[]int](page, `import(new URL("assets/timeline.js", location.href)).then(({ note, timelineOf }) => {
		const granted = (name, i) => note(name, { t: i, waiting: 0, holders: [] }, { t: i, waiting: 0, holders: [{ owner: "ann", grant: "g" + i }] });
		for (let i = 0; i < 300; i++) granted("busy", i);
		const busy = timelineOf("busy");
		for (let i = 0; i < 1000; i++) granted("lock-" + i, i);
		return [busy.length, busy[0].t, timelineOf("busy").length, timelineOf("lock-0").length];
	})`)
	expect.Equal(t, "the timelines", fmt.Sprint(got), "[100 200 0 1]")
}

// An operator frees the lock of a holder that hangs, and no other.
func TestALockIsBrokenByItsGrant(t *testing.T) {
	s := newStage(t, &ui.Options{AllowBreak: true, Authenticate: func(user, password string) bool { return user == "eve" && password == "of-call" }})
	lease := backend.Acquire(t, s.newClient("hung").Mutex("nightly"))
	s.wait("next", mutex("nightly"))
	page := open(t, strings.Replace(s.url, "http://", "http://eve:of-call@", 1)+"?lock=nightly", 1280, 800)
	page.sees("Waiting (1 process)")

	page.click(".break .danger")
	expect.Equal(t, "no grant id will do", eval[bool](page, `document.querySelector("#grant").validity.valid`), false)
	grant := s.grant("nightly")
	page.write("#grant", grant[:7])
	expect.Equal(t, "seven characters of a grant id will do", eval[bool](page, `document.querySelector("#grant").validity.valid`), false)
	page.write("#grant", "k3v9x2ab")
	page.write("#reason", "hangs since 3 am")
	page.click(".break .danger")
	page.sees("is gone, and another holder has the lock")
	expect.OK(t, lease.Err())

	page.write("#grant", grant)
	page.click(".break .danger")
	page.sees("The lock was taken away. Its fence is ")
	page.until("the next has it", `document.querySelector(".holders strong")?.textContent === "next"`)
	page.until("the form is empty, for the next holder", `document.querySelector("#grant").value === "" && document.querySelector("#reason").value === ""`)
	page.sees("Broken, and taken from hung")
	page.sees("by inspector · eve: hangs since 3 am")
	backend.Eventually(t, "the holder is told", func() bool { return lease.Err() != nil })
	page.write("#grant", grant) // once more, too late
	page.write("#reason", "hangs since 3 am")
	page.click(".break .danger")
	page.sees("is gone, and another holder has the lock")
	if h, _ := s.status("nightly").Holder(); h.Identity != "next" {
		t.Errorf("%+v holds it", h)
	}
}

func TestAHolderIsAskedToLetGo(t *testing.T) {
	s := newStage(t, &ui.Options{AllowBreak: true})
	lease := s.hold(s.newClient("worker").Mutex("nightly"))
	page := open(t, s.url+"?lock=nightly", 1280, 800)
	page.sees("Granted to")
	page.write("#grant", s.grant("nightly"))
	page.write("#reason", "deployment")
	page.click(".break button[type=button]")
	page.sees("The holder was asked to let go.")
	page.sees("Asked to let go: worker")
	page.sees("by inspector · deployment")
	<-lease.Revoked()
	expect.Err(t, "it does not hold the lock any more", lease.Err(), nil)
}
