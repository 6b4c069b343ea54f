package ui_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/inspect/ui"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
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
	page.write("#grant", grant) // once more, too late
	page.write("#reason", "hangs since 3 am")
	page.click(".break .danger")
	page.sees("is gone, and another holder has the lock")
	if h, _ := s.status("nightly").Holder(); h.Identity != "next" {
		t.Errorf("%+v holds it", h)
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
	expect.Err(t, "it does not hold the lock any more", lease.Err(), nil)
}
