package ui_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/inspect/ui"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// quorum is a quorum's nodes with an inspector.
type majority struct {
	tb    testing.TB
	nodes []*backend.Backend
	url   string
}

// newQuorum serves the inspector of a new quorum of three.
func newQuorum(tb testing.TB) *majority {
	tb.Helper()
	q := &majority{tb: tb}
	for range 3 {
		q.nodes = append(q.nodes, backend.Real(tb, server.One(tb)))
	}
	locks := q.locks("inspector")
	expect.OK(tb, inspect.NewQuorum(locks).Admit(tb.Context()))
	q.url = serve(tb, inspect.NewQuorum(locks), &ui.Options{AllowBreak: true}).URL + "/"
	return q
}

// locks returns the quorum of a new process.
func (q *majority) locks(owner string) *quorum.Quorum {
	q.tb.Helper()
	var clients []*holdfast.Client
	for _, b := range q.nodes {
		cfg := &holdfast.Config{Identity: owner, Strict: true, TTL: 30 * time.Second, CommandTimeout: 6 * time.Second, RetryTimeout: time.Second}
		clients = append(clients, b.Client(q.tb, cfg))
	}
	return expect.Of(quorum.New(clients, &quorum.Config{NodeTimeout: 5 * time.Second})).OK(q.tb)
}

// hold acquires a lock, until the test ends.
func (q *majority) hold(owner, name string) *holdfast.Lease {
	q.tb.Helper()
	lease := backend.Acquire(q.tb, q.locks(owner).Mutex(name))
	q.tb.Cleanup(func() { _ = lease.Release(context.Background()) })
	return lease
}

// The nodes of a quorum keep no queue: that nobody is known to wait does not look as if nobody did.
func TestWhoWaitsForALockOfAQuorumIsNotKnown(t *testing.T) {
	q := newQuorum(t)
	q.hold("zoe", "a")
	lease := q.hold("hung", "nightly")
	next := backend.Start(t, q.locks("next").Mutex("nightly"))
	page := open(t, q.url, 1280, 800)
	page.lists("a", "nightly")
	const says = "It is not known who waits for a lock of a quorum."
	for _, figure := range []string{"#n-waiting", "#n-longest", "#rows .waiting > span"} {
		page.until(figure+" is a dash that says why", `document.querySelector(%s).textContent === "–" && document.querySelector(%[1]s).title === %s`, quote(figure), quote(says))
	}
	page.until("the choice cannot be made", `document.querySelector("input[value=waiting]").disabled && [...document.querySelectorAll("[data-column^=wait] button")].every((e) => e.disabled)`)
	page.press("2") // by kind, which is the same
	page.press("2")
	page.until("it is sorted", `document.querySelector("[data-column=kind]").getAttribute("aria-sort") === "descending"`)
	page.press("67")
	page.press("11")
	page.lists("nightly", "a")
	expect.Equal(t, "the address ends in", eval[string](page, "location.search"), "?sort=-name")
	// Addresses may come from another inspector.
	sorted := open(t, q.url+"?sort=-waiting", 1280, 800)
	sorted.lists("a", "nightly")
	open(t, q.url+"?show=waiting", 1280, 800).sees(says)

	page.click(`#rows a[title="nightly"]`)
	page.sees(says)
	page.write("#grant", eval[string](page, `document.querySelector(".holders .grant").textContent`))
	page.write("#reason", "hangs since 3 am")
	page.click(".break .danger")
	page.sees("The lock was taken away.")
	expect.Equal(t, "the page's answer", eval[string](page, `document.querySelector(".answer").textContent`), "The lock was taken away.")
	backend.Eventually(t, "the holder is told", func() bool { return lease.Err() != nil })
	got := backend.Receive(t, next)
	t.Cleanup(func() { _ = got.Release(context.Background()) })
	page.until("the next has it", `document.querySelector(".holders strong")?.textContent === "next"`)
	page.sees("Broken, and taken from hung")
	expect.Equal(t, "the page says that nobody waits", eval[bool](page, `document.body.innerText.includes("Nobody waits")`), false)
}

// A minority of a quorum's nodes is down. The list is whole all the same, and the pages name the node.
func TestANodeThatIsDownIsNamed(t *testing.T) {
	q := newQuorum(t)
	q.hold("zoe", "a")
	list, lock := open(t, q.url, 1280, 800), open(t, q.url+"?lock=a", 1280, 800)
	list.lists("a")
	lock.sees("zoe")
	expect.Equal(t, "the page says", eval[string](list, `document.querySelector("#banner").textContent`), "")
	// Whether a majority has granted it is open without the third node.
	expect.OK(t, expect.ErrOf(q.nodes[0].Server.Do("SET", "holdfast:{half}", `hf2:AAAAAAAAAAAAAAAAAAAAAA:9:1700000000000:0:{"o":"half"}`, "PX", "3600000")))
	q.nodes[2].Server.Kill()
	for _, page := range []*tab{list, lock} {
		page.sees("1 node of the quorum did not answer. The others are a majority, and know who holds which lock.")
		page.sees("(list all locks on " + q.nodes[2].Server.Addr() + ": server is unavailable")
		page.until("it is live", `document.querySelector("#live").dataset.state === "live" && document.querySelector("#banner").dataset.kind === "note"`)
	}
	list.sees("1 lock is not shown: too few nodes of the quorum said who holds it.")
	list.lists("a")
	q.nodes[1].Server.Kill()
	for _, page := range []*tab{list, lock} {
		page.sees("Too few nodes of the quorum answer")
		page.sees(q.nodes[1].Server.Addr())
		expect.Lacks(t, "the page", eval[string](page, `document.body.innerText`), "holdfast: ")
	}
	open(t, q.url+"?q=x", 1280, 800).sees("Too few nodes of the quorum answer")
	q.nodes[1].Server.Restart()
	q.nodes[2].Server.Restart()
	for _, page := range []*tab{list, lock} {
		page.until("it says no more", `document.querySelector("#banner").hidden && document.querySelector("#live").dataset.state === "live"`)
	}
}

// A master of a Cluster is down, and has no replica. The list follows the locks of the others, and says that it is not whole.
func TestAMasterThatIsDown(t *testing.T) {
	t.Parallel()
	nodes := server.StartCluster(t, server.One(t), 3)
	var addrs []string
	for _, s := range nodes {
		addrs = append(addrs, s.Addr())
	}
	locks := func(owner string) *holdfast.Client {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
		t.Cleanup(func() { _ = rdb.Close() })
		cfg := &holdfast.Config{Identity: owner, TTL: 30 * time.Second, CommandTimeout: 6 * time.Second, RetryTimeout: time.Second}
		return backend.New(t, cfg, drivertest.Of(holdfastgoredis.NewDriver(rdb)))
	}
	holder := locks("zoe")
	n := 0
	// on acquires a new lock whose key is on that master, and returns its name.
	on := func(master int) string {
		t.Helper()
		for {
			n++
			name := fmt.Sprintf("lock-%02d", n)
			if int(keys.Slot("holdfast:{"+name+"}"))*3/keys.Slots == master {
				lease := backend.Acquire(t, holder.Mutex(name))
				t.Cleanup(func() { _ = lease.Release(context.Background()) })
				return name
			}
		}
	}
	lost, second, third := on(0), on(1), on(2) // in order of names
	page := open(t, serve(t, inspect.New(locks("inspector")), &ui.Options{}).URL+"/", 1280, 800)
	page.lists(lost, second, third)
	nodes[0].Kill() // the first that is searched
	page.sees("Only some of the locks can be looked at. What you see of the others is as of")
	page.sees(nodes[0].Addr())
	page.sees("Not all")
	fourth := on(2)
	page.lists(lost, second, third, fourth)
	page.until("it does not look whole", `document.body.classList.contains("outdated")`)

	late := open(t, serve(t, inspect.New(locks("late")), &ui.Options{}).URL+"/", 1280, 800)
	late.sees("Only some of the locks can be looked at. The others are not listed")
	late.lists(second, third, fourth)
}
