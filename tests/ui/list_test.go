package ui_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect/ui"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

func TestTheListFollowsTheLocks(t *testing.T) {
	s := newStage(t, nil)
	page := open(t, s.url, 1280, 800)
	page.sees("No locks")
	page.until("it is live", `document.querySelector("#live").dataset.state === "live"`)
	lease := s.hold(s.newClient("ann").Mutex("orders/1"))
	page.lists("orders/1")
	page.sees("ann")
	s.wait("bob", mutex("orders/1"))
	page.until("bob waits", `document.querySelector("#rows .badge")?.textContent === "1"`)
	page.until("figures", `document.querySelector("#n-held").textContent === "1" && document.querySelector("#n-waiting").textContent === "1"`)
	backend.Release(t, lease)
	page.sees("bob")
	s.hold(s.client.Mutex("orders/0"))
	page.lists("orders/0", "orders/1")
	s.letGo("bob")
	page.lists("orders/0")
}

func TestAPageOfAnotherIsOnlyText(t *testing.T) {
	s := newStage(t, nil)
	name, owner := `<img src=x onerror="document.title='owned'">`, "<script>document.title='owned'</script>\u202egpj.exe"
	s.hold(s.newClient(owner).Mutex(name, holdfast.Meta("<b>", "</dd><h1>note")))
	page := open(t, s.url, 1280, 800)
	page.lists(name)
	page.sees(`<script>document.title='owned'</script>\u{202e}gpj.exe`)
	page.click("#rows a")
	page.sees("</dd><h1>note")
	page.sees(`\u{202e}`)
	if got := eval[int](page, `document.querySelectorAll("#lock script, #lock img, #rows img, #lock h1").length`); got != 1 { // its own title
		t.Errorf("%d elements were made of text", got)
	}
	if title := eval[string](page, "document.title"); title == "owned" {
		t.Error("a script ran")
	}
}

func TestFilterAndOrder(t *testing.T) {
	s := newStage(t, nil)
	s.hold(s.newClient("zoe").Mutex("a", holdfast.Meta("job", "Weekend Backup")))
	s.hold(s.newClient("yan").Mutex("b"))
	s.hold(s.newClient("xia").Semaphore("c", 3).Permits(2))
	s.wait("w1", mutex("b"))
	page := open(t, s.url, 1280, 800)
	page.lists("a", "b", "c")
	column := func(name string) { page.click(fmt.Sprintf("[data-column=%s] button", name)) }
	sorted := func(column, order string) {
		t.Helper()
		page.until(column+" is sorted", `document.querySelector("[data-column=%s]").getAttribute("aria-sort") === %s && document.querySelectorAll("[aria-sort]").length === 1`, column, quote(order))
	}
	sorted("name", "ascending")
	column("name")
	page.lists("c", "b", "a")
	sorted("name", "descending")
	column("holder")
	page.lists("c", "b", "a")
	column("kind")
	page.lists("a", "b", "c")
	column("waiting")
	page.lists("b", "a", "c")
	column("held")
	page.lists("a", "b", "c") // the oldest first
	column("name")
	page.lists("a", "b", "c")
	column("name")
	page.lists("c", "b", "a")
	page.press("1")
	page.lists("a", "b", "c")

	page.write("#filter", "Y")
	page.lists("b")
	page.sees("1 of 3")
	page.write("#filter", "semaphore xia")
	page.lists("c")
	page.write("#filter", "weekend job=")
	page.lists("a")
	page.write("#filter", s.grant("b"))
	page.lists("b")
	page.write("#filter", "nothing like it")
	page.sees("No lock matches")
	page.press(kb.Escape)
	page.lists("a", "b", "c")
	page.click("input[value=waiting] + span")
	page.lists("b")

	// All of it is in the address.
	page.press("6")
	expect.Equal(t, "the address ends in", eval[string](page, "location.search"), "?sort=waiting&show=waiting")
	page.do(chromedp.Reload())
	page.lists("b")
	sorted("waiting", "descending")
}

func TestEverythingCanBeDoneByKeyboard(t *testing.T) {
	s := newStage(t, nil)
	for i := range 3 {
		s.hold(s.client.Mutex(fmt.Sprint("lock-", i)))
	}
	page := open(t, s.url, 1280, 800)
	page.lists("lock-0", "lock-1", "lock-2")
	active := func(name string) {
		t.Helper()
		page.until(name+" is active", `document.getElementById(document.querySelector("#grid").getAttribute("aria-activedescendant"))?.querySelector("a").textContent === %s`, quote(name))
		page.until("it alone is selected", `document.querySelectorAll("[aria-selected=true]").length === 1`)
	}
	page.press("j")
	active("lock-0")
	page.press("jj" + kb.ArrowUp + kb.ArrowDown + "k")
	active("lock-1")
	page.press(kb.End)
	active("lock-2")
	page.press(kb.Home)
	active("lock-0")
	page.press("/")
	page.until("the focus is in the filter", `document.activeElement.id === "filter"`)
	page.write("#filter", "lock-2") // the protocol types the /, too, where a keyboard would not
	page.lists("lock-2")
	page.press(kb.ArrowDown)
	active("lock-2")
	page.press(kb.Enter)
	page.until("its page is open", `document.querySelector("#lock-name")?.textContent === "lock-2" && location.search === "?lock=lock-2"`)
	page.press(kb.Escape)
	page.lists("lock-2")
	expect.Equal(t, "the focus is at", eval[string](page, "document.activeElement.id"), "grid")
	page.press(kb.Escape)
	page.lists("lock-0", "lock-1", "lock-2")
	page.press("1")
	page.lists("lock-2", "lock-1", "lock-0")
	page.press("1")
	page.lists("lock-0", "lock-1", "lock-2")
	page.press("?")
	page.until("the help is open", `document.querySelector("#help").open && document.querySelector("#help").contains(document.activeElement)`)
	page.press(kb.Escape)
	page.until("it is closed", `!document.querySelector("#help").open`)
	page.lists("lock-0", "lock-1", "lock-2")
}

// The way of the focus through the page is that of the eyes, and it is seen where it is.
func TestTheFocusGoesInOrder(t *testing.T) {
	s := newStage(t, nil)
	s.hold(s.client.Mutex("orders/1"))
	page := open(t, s.url, 1280, 800)
	page.lists("orders/1")
	var way []string
	for range 10 {
		page.press(kb.Tab)
		way = append(way, eval[string](page, `document.activeElement.id || document.activeElement.value || document.activeElement.dataset.list || document.activeElement.className`))
		if outlined := eval[bool](page, `[document.activeElement, document.activeElement.nextElementSibling].some((e) => e && parseFloat(getComputedStyle(e).outlineWidth) >= 2 && getComputedStyle(e).outlineStyle !== "none")`); !outlined {
			t.Errorf("nobody sees the focus at %q", way[len(way)-1])
		}
		if way[len(way)-1] == "grid" {
			break
		}
	}
	expect.Equal(t, "the way of the focus", fmt.Sprint(way), "[skip all keys filter all grid]")
}

// On a phone, each lock is a card of two lines. The heads of the columns by which the list can be sorted stand above their cells.
func TestTheHeadFitsTheCardsOfAPhone(t *testing.T) {
	s := newStage(t, nil)
	s.hold(s.client.Mutex("orders/1"))
	s.wait("w1", mutex("orders/1"))
	page := open(t, s.url, 390, 780)
	page.lists("orders/1")
	page.until("the head fits", `(() => {
		const seen = [...document.querySelectorAll("[data-column]")].filter((h) => h.offsetParent);
		return seen.length === 4 && seen.every((h) => {
			const head = h.getBoundingClientRect(), cell = document.querySelector("#rows ." + h.dataset.column).getBoundingClientRect();
			return head.left >= 0 && head.right <= innerWidth && (head.left === cell.left || head.right === cell.right);
		});
	})()`)
}

// Of 10,000 locks only the rows exist that are seen.
func TestTenThousandLocks(t *testing.T) {
	s := newStage(t, nil)
	rdb := s.b.Redis(t)
	pipe := rdb.Pipeline()
	const n = 10_000
	for i := range n {
		pipe.Set(t.Context(), fmt.Sprintf("holdfast:{lock-%05d}", i), fmt.Sprintf(`hf2:AAAAAAAAAAAAAAAAAAAAAA:%d:1700000000000:0:{"o":"owner-%d"}`, i+1, i%100), 0)
	}
	expect.OK(t, expect.ErrOf(pipe.Exec(t.Context())))
	page := open(t, s.url, 1280, 800)
	page.until("all are there", `document.querySelector("#n-locks").textContent === "10,000"`)
	few := func(when string) {
		t.Helper()
		expect.Between(t, when+": rows", eval[int](page, `document.querySelectorAll("#rows [role=row]").length`), 1, 60)
	}
	few("at first")
	expect.Equal(t, "the rows count", eval[string](page, `document.querySelector("#grid").getAttribute("aria-rowcount")`), "10001")
	for _, at := range []int{100, 5000, 9999} {
		eval[bool](page, `(document.querySelector("#grid").scrollTop = %d * 42, true)`, at)
		page.until("what is there is seen", `[...document.querySelectorAll("#rows a")].some((a) => a.textContent === "lock-%05d")`, at)
		few(fmt.Sprint("at lock ", at))
	}
	page.press(kb.Tab) // anywhere
	page.write("#filter", "owner-42")
	page.sees("100 of 10,000")
	few("filtered")
	page.write("#filter", "lock-07777")
	page.lists("lock-07777")
	s.hold(s.newClient("newcomer").Mutex("lock-07777b"))
	page.lists("lock-07777", "lock-07777b")
	// Three keys within one frame: the last of them goes to the end of what the first one brings back.
	eval[bool](page, `["Escape", "Escape", "End"].every((key) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true })) || true)`)
	page.until("the last is seen", `[...document.querySelectorAll("#rows a")].some((a) => a.textContent === "lock-09999")`)
	few("at the end")
}

func TestItWorksBelowAPath(t *testing.T) {
	s := newStage(t, &ui.Options{Prefix: "/ops/locks"})
	s.hold(s.client.Mutex("a/b?c&d"))
	page := open(t, s.url, 1280, 800)
	page.lists("a/b?c&d")
	page.click("#rows a")
	page.until("its page is open", `document.querySelector("#lock-name")?.textContent === "a/b?c&d"`)
	page.sees("Granted to")
	page.do(chromedp.Reload())
	page.sees("Granted to")
	page.click(".back")
	page.lists("a/b?c&d")
}
