package quorum

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/inspect/ui"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// answer is what the inspector tells its pages: the list, the page of a lock, or what became of an order.
type answer struct {
	Locks                      []struct{ Name, Kind, Owner, Grant string }
	Key                        string
	Holders                    []struct{ Owner, Grant string }
	Record                     []struct{ What, Reason string }
	Fence, Warning, Error, Why string
}

// list returns the kinds, the names and the owners of the locks that are listed with a grant id.
func (a answer) list() string {
	var all []string
	for _, l := range a.Locks {
		if l.Grant != "" {
			all = append(all, l.Kind+" "+l.Name+" "+l.Owner)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// An operator sees what a majority has granted, and breaks it. Without a majority the pages say so, and nothing is broken.
func TestTheInspectorsPagesOfAQuorum(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		in := inspect.NewQuorum(s.quorum())
		handler := expect.Of(ui.New(in, &ui.Options{AllowBreak: true, Logger: slog.New(slog.DiscardHandler)})).OK(t)
		web := httptest.NewServer(handler)
		t.Cleanup(func() {
			handler.Close()
			web.Close()
		})
		read := func(resp *http.Response) (a answer) {
			defer resp.Body.Close()
			expect.OK(t, json.NewDecoder(resp.Body).Decode(&a))
			return a
		}
		shows := func(path, what string, f func(answer) bool) {
			t.Helper()
			backend.Eventually(t, what, func() bool { return f(read(expect.Of(http.Get(web.URL + path)).OK(t))) })
		}
		order := func(verb, name, grant, reason string) (int, answer) {
			text := expect.Of(json.Marshal(map[string]string{"name": name, "grant": grant, "reason": reason})).OK(t)
			resp := expect.Of(http.Post(web.URL+"/"+verb, "application/json", bytes.NewReader(text))).OK(t)
			return resp.StatusCode, read(resp)
		}
		lease, kept := acquire(t, s.quorum().Mutex("a", holdfast.Identity("worker"))), acquire(t, s.quorum().Mutex("b", holdfast.Identity("worker")))
		agree(t, lease, 3)
		agree(t, kept, 3)
		status := expect.Of(in.Get(t.Context(), "a")).OK(t)
		if !status.Held() {
			t.Fatalf("Get: %+v", status)
		}
		grant := status.Holders[0].Grant
		// The page may show a round before it, in which some nodes were too slow.
		shows("/lock?name=a", "the holder is seen", func(a answer) bool {
			return a.Error == "" && a.Key == "holdfast:{a}" && len(a.Holders) == 1 && a.Holders[0].Owner == "worker" && a.Holders[0].Grant == grant
		})
		shows("/list", "what a majority holds is listed", func(a answer) bool {
			return a.Error == "" && a.list() == "mutex a worker, mutex b worker"
		})
		if code, a := order("revoke", "a", grant, "a deployment"); code != http.StatusOK || a.Warning != "" {
			t.Fatalf("Revoke: %d, %+v", code, a)
		}
		backend.Told(t, "the holder is asked to let go", lease.Revoked())
		next := backend.Start(t, s.quorum().Mutex("a", holdfast.Identity("next")))
		if code, a := order("break", "a", grant, "it hangs"); code != http.StatusOK || a.Fence == "" || a.Warning != "" {
			t.Fatalf("Break: %d, %+v", code, a)
		}
		backend.Receive(t, next)
		shows("/lock?name=a", "the waiter has it, and why", func(a answer) bool {
			return len(a.Holders) == 1 && a.Holders[0].Owner == "next" && slices.Contains(a.Record, struct{ What, Reason string }{"broken", "it hangs"})
		})
		shows("/list", "it is listed with its new holder", func(a answer) bool { return a.list() == "mutex a next, mutex b worker" })
		if testing.Short() { // each look would wait for nodes that are down
			return
		}
		s.nodes[1].Kill()
		s.nodes[2].Kill()
		shows("/list", "the list says that it is out of date", func(a answer) bool { return a.Why == "silent" && len(a.Locks) == 2 })
		shows("/lock?name=a", "the page says so", func(a answer) bool { return a.Why == "silent" })
		for _, verb := range []string{"break", "revoke"} {
			if code, a := order(verb, "b", grant, "no majority"); code != http.StatusBadGateway || a.Error == "" {
				t.Errorf("%s without a majority: %d, %+v", verb, code, a)
			}
		}
	})
}
