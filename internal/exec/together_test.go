package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// pipeline is a fake that answers several calls together, by the name of the script and the number of the sending.
type pipeline struct {
	fake
	mu     sync.Mutex
	sent   [][]string
	answer func(sending int, name string) (string, error)
}

func (p *pipeline) RunAll(_ context.Context, calls []driver.Call, tell func(i int, reply string, err error)) {
	p.mu.Lock()
	var names []string
	for _, c := range calls {
		names = append(names, c.Script.Name)
	}
	p.sent = append(p.sent, names)
	n := len(p.sent)
	p.mu.Unlock()
	for i, name := range names {
		reply, err := p.answer(n, name)
		tell(i, reply, err)
	}
}

func (p *pipeline) Run(ctx context.Context, c driver.Call) (reply string, err error) {
	p.RunAll(ctx, []driver.Call{c}, func(_ int, r string, e error) { reply, err = r, e })
	return reply, err
}

func named(names ...string) (all []Request) {
	for _, name := range names {
		all = append(all, Request{Op: "look", Name: name, Call: driver.Call{Script: driver.Script{Name: name}}})
	}
	return all
}

// Only what was not answered is sent again; what the server refuses is that request's own.
func TestTogetherRepeatsWhatMayPass(t *testing.T) {
	p := &pipeline{answer: func(sending int, name string) (string, error) {
		switch {
		case name == "refused":
			return "", driver.ReplyError("NOPERM no")
		case name == "caught":
			return "error WRONGTYPE it is a list", nil
		case name == "odd":
			return "nonsense", nil
		case name == "late" && sending < 3:
			return "", driver.ReplyError("LOADING wait")
		case name == "broken" && sending == 1:
			return "", errors.New("EOF")
		}
		return "yes 17 " + name, nil
	}}
	within(t, p, func(t *testing.T, w *world) {
		all, err := w.DoTogether(t.Context(), "look", "all", named("a", "refused", "late", "caught", "broken", "odd"))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []error{nil, ErrPermission, nil, ErrWrongType, nil, nil} {
			equal(t, fmt.Sprint("request ", i), KindOf(all[i].Err), want)
		}
		if all[5].Err == nil || all[2].Text != "yes 17 late" || all[4].Text != "yes 17 broken" || all[0].Text != "yes 17 a" {
			t.Errorf("answers: %+v", all)
		}
		if want := [][]string{{"a", "refused", "late", "caught", "broken", "odd"}, {"late", "broken"}, {"late"}}; !slices.EqualFunc(p.sent, want, slices.Equal[[]string]) {
			t.Errorf("sent: %q", p.sent)
		}
	})
}

// A server that does not answer is given up.
func TestTogetherGivesUp(t *testing.T) {
	p := &pipeline{answer: func(int, string) (string, error) { return "", errors.New("EOF") }}
	within(t, p, func(t *testing.T, w *world) {
		_, err := w.DoTogether(t.Context(), "look", "all", named("a", "b"))
		var failed *Failure
		if !errors.As(err, &failed) || failed.Kind != ErrUnavailable || failed.Op != "look" || failed.Name != "all" {
			t.Errorf("the error is %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.DoTogether(ctx, "look", "all", named("a")); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that is over: %v", err)
		}
	})
}
