package scripts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// share acquires a share of a lock of that kind and limit.
func (b bench) share(mode, token, kind string, limit, weight int) string {
	b.t.Helper()
	args := []any{mode, token, 60000, 0, 1, info, kind, limit, weight}
	if mode != "t" {
		args = append(args, claim, "channel-"+token, "")
	}
	return b.eval(script.ShareAcquire(), args...)
}

func TestFaultsOfShares(t *testing.T) {
	for name, test := range map[string]func(b bench){
		// Anybody who may publish can make a client send a release for any token.
		"a token that is the name of another field": func(b bench) {
			b.expect("granted T P T 1", b.share("t", "A", "sem", 1, 1))
			before := b.rdb.HGetAll(b.t.Context(), "{k}").Val()
			for field := range before {
				if field == "A" {
					continue
				}
				b.expect("gone T", b.eval(script.ShareRelease(), "", field, "", 0))
				b.expect("gone T", b.eval(script.ShareRenew(), "", field, 60000, 0, before["fence"]))
				b.expect("gone T", b.eval(script.ShareWeigh(), "", field, 1, before["fence"], before["fence"]))
			}
			if now := b.rdb.HGetAll(b.t.Context(), "{k}").Val(); fmt.Sprint(now) != fmt.Sprint(before) {
				b.t.Errorf("the lock has become %v; it was %v", now, before)
			}
		},
		// A counter that was set back, as by a replica that lagged, is not a fence.
		"a reader after a counter was put back": func(b bench) {
			fence := func() string { return b.rdb.HGet(b.t.Context(), "{k}", "fence").Val() }
			b.expect("granted T P T 1", b.share("t", "A", "rw", 1e9, 1e9))
			writer := fence()
			b.expect("released T", b.eval(script.ShareRelease(), "", "A", "", 0))
			b.setCounter(b.later(-time.Minute))
			b.expect("granted T P T 1", b.share("t", "B", "rw", 1e9, 1))
			if got := fence(); got < writer {
				b.t.Errorf("the reader has fence %s, and the writer before it had %s", got, writer)
			}
			b.expect("released T", b.eval(script.ShareRelease(), "", "B", "", 0))
			b.setCounter(9_999_999_999_999_999)
			b.expect(farAhead, b.share("t", "C", "rw", 1e9, 1))
		},
		// Dead holders with longer leases have gone; the key lasts as long as those could have.
		"the dead do not say what a lock is": func(b bench) {
			for _, next := range []struct {
				kind  string
				limit int
			}{{"sem", 5}, {"rw", 1e9}, {"sem", 3}} {
				b.expect("granted T P T 1", b.share("t", "A", "sem", 3, 1))
				b.expect("granted T 30 T 1", b.eval(script.ShareAcquire(), "t", "dead", 30, 0, 1, info, "sem", 3, 1))
				b.expect("released T", b.eval(script.ShareRelease(), "", "A", "", 0))
				backend.Eventually(b.t, "the hold has expired", func() bool {
					return !strings.Contains(b.eval(script.ShareHolders(), "", "x", 0, 500), "\n")
				})
				b.expect("granted T P T 1", b.share("t", "B", next.kind, next.limit, 1))
				b.expect("released T", b.eval(script.ShareRelease(), "", "B", "", 0))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend.Each(t, func(t *testing.T, back *backend.Backend) {
				test(newBench(t, back))
			})
		})
	}
}
