package fence

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/keys"
)

// testDriver answers each script with what the test says.
type testDriver struct {
	driver.Driver
	reply string
	err   error
	sent  int
}

func (d *testDriver) Run(_ context.Context, _ driver.Call) (string, error) {
	d.sent++
	return d.reply, d.err
}

func (d *testDriver) Addr() string { return "server:6379" }

var stamp = Stamp{Lock: "l", Fence: 5, Owner: "a"}

func TestMarksLieInTheirResourcesSlot(t *testing.T) {
	r := NewRedis(nil, nil)
	seen := map[string]string{}
	for _, resource := range []string{"order", "order:1", "{order}", "{order}:1", "a{b}c", "a{b", "{", "{{a}}", "order 1\n", "tagged:x", "{}{a", "é"} {
		mark, err := r.MarkKey(resource)
		if err != nil {
			if resource != "{}{a" {
				t.Errorf("%q: %v", resource, err)
			}
			continue
		}
		if keys.Slot(mark) != keys.Slot(resource) || mark == resource {
			t.Errorf("the mark of %q is %q, in another slot", resource, mark)
		}
		if other, twice := seen[mark]; twice {
			t.Errorf("%q and %q have one mark, %q", resource, other, mark)
		}
		seen[mark] = resource
	}
	for _, resource := range []string{"", "}", "{}", "a}b", "{}a", "}{a}"} {
		if mark, err := r.MarkKey(resource); resource != "}{a}" && !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("the mark of %q is %q, %v", resource, mark, err)
		}
	}
}

func TestBadArgumentsOfRedisAreRefusedBeforeIO(t *testing.T) {
	d := &testDriver{}
	good := NewRedis(d, nil)
	for name, f := range map[string]func() error{
		"stamp":    func() error { return good.Raise(t.Context(), Stamp{}, "k") },
		"key":      func() error { return good.Raise(t.Context(), stamp, "") },
		"ttl":      func() error { return good.Set(t.Context(), stamp, "k", "v", time.Microsecond) },
		"no ttl":   func() error { return good.Set(t.Context(), stamp, "k", "v", -1) },
		"prefix":   func() error { return NewRedis(d, &RedisConfig{Prefix: "{"}).Raise(t.Context(), stamp, "k") },
		"mark ttl": func() error { return NewRedis(d, &RedisConfig{MarkTTL: -1}).Raise(t.Context(), stamp, "k") },
	} {
		if err := f(); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if d.sent != 0 {
		t.Errorf("%d scripts were sent", d.sent)
	}
}

func TestWhatServersSayBecomesAnError(t *testing.T) {
	lost := errors.New("connection reset")
	for _, c := range []struct {
		err  error
		want error
		text string
	}{
		{driver.ReplyError("STALE 9 b c"), ErrStale, `it has seen 9 of "b c"`},
		{driver.ReplyError("-STALE 9 b"), ErrStale, "it has seen 9 of b"},
		{driver.ReplyError("STALE"), ErrBadMark, `"k" on server:6379`},
		{driver.ReplyError("STALE 99999999999999999999 b"), ErrBadMark, `"k" on server:6379`},
		{driver.ReplyError("BADMARK x"), ErrBadMark, "holdfast:mark:{k}"},
		{driver.ReplyError("STALEMATE 9 b"), driver.ReplyError("STALEMATE 9 b"), "guarded write to"},
		{lost, lost, `guarded write to "k" on server:6379: connection reset`},
	} {
		err := NewRedis(&testDriver{err: c.err}, nil).Raise(t.Context(), stamp, "k")
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v becomes %v", c.err, err)
		}
	}
}

// FuzzMark reads what a server may keep where a mark should be.
func FuzzMark(f *testing.F) {
	for _, seed := range []string{"", "1 a", "0 a", "01 a", "-1 a", "+1 a", "9223372036854775807 a b", "9223372036854775808 a", "1", "1 ", " a", "1\x00 a", "\xff \xff"} {
		f.Add(seed)
	}
	form := regexp.MustCompile(`(?s)^([1-9][0-9]*) .+$`)
	f.Fuzz(func(t *testing.T, text string) {
		mark, err := parseMark(text)
		good := false
		if m := form.FindStringSubmatch(text); m != nil {
			n, _ := new(big.Int).SetString(m[1], 10) // digits, says the pattern
			good = n.IsInt64()
		}
		if good != (err == nil) {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil {
			if !errors.Is(err, ErrBadMark) || mark != (Mark{}) {
				t.Errorf("%q: %+v, %v", text, mark, err)
			}
			return
		}
		if fmt.Sprintf("%d %s", mark.Fence, mark.Owner) != text {
			t.Errorf("%q is read as %+v", text, mark)
		}
	})
}

func TestMillisecondsAreRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 1: "1", time.Millisecond: "1", time.Millisecond + 1: "2", math.MaxInt64: "9223372036855",
	} {
		if got := milliseconds(d); got != want {
			t.Errorf("%d ns are %s ms; want %s", d, got, want)
		}
	}
}
