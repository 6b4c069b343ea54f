package fence

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

func TestAMarkRefusesLowerFencesAndEqualOnesOfOtherOwners(t *testing.T) {
	var m Memory
	for _, step := range []struct {
		fence uint64
		owner string
		stale bool
	}{
		{5, "a", false}, {5, "a", false}, {5, "b", true}, {4, "a", true},
		{6, "b", false}, {5, "a", true}, {math.MaxInt64, "a", false}, {6, "b", true},
	} {
		err := m.Raise(t.Context(), Stamp{Lock: "l", Fence: step.fence, Owner: step.owner}, "r")
		if errors.Is(err, ErrStale) != step.stale || err != nil != step.stale {
			t.Errorf("Raise of %d from %s: %v; want stale = %v", step.fence, step.owner, err, step.stale)
		}
	}
	if err := m.Raise(t.Context(), Stamp{Lock: "l", Fence: 1, Owner: "a"}, "another"); err != nil {
		t.Errorf("Raise of another resource: %v", err)
	}
	err := m.Raise(t.Context(), Stamp{Lock: "l", Fence: 3, Owner: "c"}, "r")
	var stale *StaleError
	if !errors.As(err, &stale) || stale.Resource != "r" || stale.Stamp != (Stamp{Lock: "l", Fence: 3, Owner: "c"}) || stale.Mark != (Mark{math.MaxInt64, "a"}) {
		t.Errorf("Raise = %#v", err)
	}
	if want := `holdfast: resource "r" refused fence 3 of lock "l" from c: it has seen fence 9223372036854775807 from a`; err.Error() != want {
		t.Errorf("the error is\n%s, want\n%s", err, want)
	}
}

func TestAFenceAheadOfMaxLeadIsRefused(t *testing.T) {
	ctx := t.Context()
	ahead := func(by time.Duration) Stamp {
		return Stamp{Lock: "l", Fence: uint64(time.Now().Add(by).UnixMicro()), Owner: "o"}
	}
	for name, raise := range map[string]func(lead time.Duration, s Stamp) error{
		"Memory": func(lead time.Duration, s Stamp) error { return (&Memory{MaxLead: lead}).Raise(ctx, s, "r") },
		"Redis": func(lead time.Duration, s Stamp) error {
			d := &testDriver{reply: "raised"}
			err := NewRedis(d, &RedisConfig{MaxLead: lead}).Raise(ctx, s, "r")
			if (err == nil) != (d.sent == 1) {
				t.Errorf("%d scripts were sent, and the error is %v", d.sent, err)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				lead, by time.Duration
				want     error
			}{
				{0, 1000 * time.Hour, nil},
				{24 * time.Hour, 23 * time.Hour, nil},
				{24 * time.Hour, -1000 * time.Hour, nil},
				{24 * time.Hour, 25 * time.Hour, ErrAhead},
				{-1, 0, holdfast.ErrInvalid},
			} {
				if err := raise(c.lead, ahead(c.by)); !errors.Is(err, c.want) {
					t.Errorf("with MaxLead %s, a fence %s ahead: %v, want %v", c.lead, c.by, err, c.want)
				}
			}
			highest := Stamp{Lock: "l", Fence: 1<<63 - 1, Owner: "o"}
			if err := raise(time.Hour, highest); !errors.Is(err, ErrAhead) {
				t.Errorf("the highest fence: %v, want ErrAhead", err)
			}
		})
	}
	// SQL has no database here, so it must not get that far.
	if err := (&SQL{MaxLead: time.Hour}).Raise(ctx, ahead(2*time.Hour), "r"); !errors.Is(err, ErrAhead) {
		t.Errorf("SQL: %v", err)
	}
}

// The forged fence must neither end the holder's request nor shut out the next holder.
func TestAGuardRefusesAFenceThatIsAhead(t *testing.T) {
	g := &Guard{Marks: &Memory{MaxLead: time.Hour}, Lock: func(*http.Request) string { return "l" }}
	entered, leave := make(chan context.Context), make(chan struct{})
	h := g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			entered <- r.Context()
			<-leave
		}
	}))
	serve := func(method, owner string, fence int64) int {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, method, "/", nil)
		r.Header.Set(HeaderFence, strconv.FormatInt(fence, 10))
		r.Header.Set(HeaderOwner, owner)
		r.Header.Set(HeaderLock, "l")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	now := time.Now().UnixMicro()
	left := make(chan int)
	go func() { left <- serve(http.MethodPost, "first", now) }()
	inside := <-entered
	equal(t, "the forged fence is answered", serve(http.MethodPut, "forger", 1<<63-1), http.StatusBadRequest)
	if inside.Err() != nil {
		t.Error("the context of the holder has ended")
	}
	close(leave)
	equal(t, "the holder is answered", <-left, http.StatusOK)
	equal(t, "the next holder is answered", serve(http.MethodPut, "second", now+1), http.StatusOK)
}
