package ui_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/inspect/ui"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// An operator frees the lock of a holder that hangs, and no other.
func TestALockIsBrokenByItsGrant(t *testing.T) {
	t.Parallel()
	s := newStage(t, &ui.Options{AllowBreak: true, Authenticate: func(user, password string) bool { return user == "eve" && password == "of-call" }})
	lease := backend.Acquire(t, s.newClient("hung").Mutex("nightly"))
	s.wait("next", mutex("nightly"))
	page := open(t, strings.Replace(s.url, "http://", "http://eve:of-call@", 1)+"?lock=nightly", 1280, 800)
	page.sees("Waiting (1 process)")

	page.click(".break .danger")
	if eval[bool](page, `document.querySelector("#grant").validity.valid`) {
		t.Error("the grant id need not be typed")
	}
	grant := s.grant("nightly")
	page.write("#grant", grant[:7])
	if eval[bool](page, `document.querySelector("#grant").validity.valid`) {
		t.Error("seven characters of a grant id will do")
	}
	page.write("#grant", "k3v9x2ab")
	page.write("#reason", "hangs since 3 am")
	page.click(".break .danger")
	page.sees("is gone, and another holder has the lock")
	if lease.Err() != nil {
		t.Fatalf("it is broken: %v", lease.Err())
	}

	page.write("#grant", grant)
	page.click(".break .danger")
	page.sees("The lock was taken away. Its fence is ")
	page.until("the next has it", `document.querySelector(".holders strong")?.textContent === "next"`)
	page.until("the form is empty, for the next holder", `document.querySelector("#grant").value === "" && document.querySelector("#reason").value === ""`)
	page.sees("Broken, and taken from hung")
	page.sees("by inspector · eve: hangs since 3 am")
	backend.Eventually(t, "the holder is told", func() bool { return lease.Err() != nil })
	var lost *holdfast.LostError
	if !errors.As(lease.Err(), &lost) || lost.Reason != holdfast.LossBroken {
		t.Errorf("%v", lease.Err())
	}

	page.write("#grant", grant) // once more, too late
	page.write("#reason", "hangs since 3 am")
	page.click(".break .danger")
	page.sees("is gone, and another holder has the lock")
	if h, _ := s.status("nightly").Holder(); h.Owner != "next" {
		t.Errorf("%+v holds it", h)
	}
	n := 0
	for b, err := range inspect.New(s.client).History(t.Context()) {
		n++
		if err != nil || b.Name != "nightly" || b.Reason != "eve: hangs since 3 am" || b.Holder.Owner != "hung" {
			t.Errorf("%+v, %v", b, err)
		}
	}
	if n != 1 {
		t.Errorf("%d breaks are on record", n)
	}
}

func TestAHolderIsAskedToLetGo(t *testing.T) {
	t.Parallel()
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
	if err := lease.Err(); err != nil {
		t.Errorf("it does not hold the lock any more: %v", err)
	}
}

// Nobody holds the lock any more by the time that the operator has typed.
func TestALockThatIsFreeIsNotBroken(t *testing.T) {
	t.Parallel()
	s := newStage(t, &ui.Options{AllowBreak: true})
	lease := s.hold(s.newClient("worker").Mutex("nightly"))
	page := open(t, s.url+"?lock=nightly", 1280, 800)
	page.sees("Granted to")
	grant := s.grant("nightly")
	backend.Release(t, lease)
	page.write("#grant", grant)
	page.write("#reason", "x")
	page.click(".break .danger")
	page.sees(`nobody holds "nightly" any more`)
}

// A page elsewhere, in the browser of somebody who may break locks, can neither read nor break one.
func TestAnotherSiteCanDoNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t, &ui.Options{AllowBreak: true})
	lease := s.hold(s.newClient("worker").Mutex("nightly"))
	elsewhere := newStage(t, nil) // another origin
	page := open(t, elsewhere.url, 1280, 800)
	page.sees("No locks")
	page.do(chromedp.Navigate("about:blank"))
	grant := s.grant("nightly")
	order := quote(fmt.Sprintf(`{"name":"nightly","grant":%q,"reason":"x"}`, grant))
	for what, attempt := range map[string]string{
		"fetch":    `fetch(%[1]s + "break", {method: "POST", headers: {"Content-Type": "application/json"}, body: %[2]s}).then(() => "answered", () => "refused")`,
		"no-cors":  `fetch(%[1]s + "break", {method: "POST", mode: "no-cors", body: %[2]s}).then((r) => r.type === "opaque" ? "refused" : "answered", () => "refused")`,
		"read":     `fetch(%[1]s + "metrics").then(() => "answered", () => "refused")`,
		"stream":   `new Promise((done) => { const e = new EventSource(%[1]s + "events"); e.onopen = () => done("answered"); e.onerror = () => done("refused"); })`,
		"resource": `new Promise((done) => { const i = new Image(); i.onload = () => done("answered"); i.onerror = () => done("refused"); i.src = %[1]s + "assets/icon.svg"; })`,
	} {
		if got := eval[string](page, attempt, quote(s.url), order); got != "refused" {
			t.Errorf("%s is %s", what, got)
		}
	}
	if lease.Err() != nil {
		t.Errorf("it is broken: %v", lease.Err())
	}
	if h, held := s.status("nightly").Holder(); !held || h.Grant != grant {
		t.Errorf("%+v holds it", h)
	}
}
