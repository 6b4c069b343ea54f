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

// testDriver returns the same reply or error to every script.
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

func TestAMarkIsInItsResourcesSlot(t *testing.T) {
	r := NewRedis(nil, nil)
	seen := map[string]string{}
	for _, resource := range []string{"order", "order:1", "{order}", "{order}:1", "a{b}c", "a{b", "{", "{{a}}", "order 1\n", "tagged:x", "{}{a", "é"} {
		mark, err := r.MarkKey(resource)
		if err != nil {
			if resource != "{}{a" {
				t.Errorf("MarkKey(%q): %v", resource, err)
			}
			continue
		}
		if keys.Slot(mark) != keys.Slot(resource) || mark == resource {
			t.Errorf("MarkKey(%q) = %q, in another slot", resource, mark)
		}
		if other, ok := seen[mark]; ok {
			t.Errorf("%q and %q share the mark %q", resource, other, mark)
		}
		seen[mark] = resource
	}
	for _, resource := range []string{"", "}", "{}", "a}b", "{}a", "}{a}"} {
		if mark, err := r.MarkKey(resource); resource != "}{a}" && !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("MarkKey(%q) = %q, %v; want ErrInvalid", resource, mark, err)
		}
	}
}

func TestRedisSendsNothingIfArgumentsAreInvalid(t *testing.T) {
	d := &testDriver{}
	good := NewRedis(d, nil)
	for name, f := range map[string]func() error{
		"stamp":        func() error { return good.Raise(t.Context(), Stamp{}, "k") },
		"key":          func() error { return good.Raise(t.Context(), stamp, "") },
		"short ttl":    func() error { return good.Set(t.Context(), stamp, "k", "v", time.Microsecond) },
		"negative ttl": func() error { return good.Set(t.Context(), stamp, "k", "v", -1) },
		"prefix":       func() error { return NewRedis(d, &RedisConfig{Prefix: "{"}).Raise(t.Context(), stamp, "k") },
		"mark ttl":     func() error { return NewRedis(d, &RedisConfig{MarkTTL: -1}).Raise(t.Context(), stamp, "k") },
	} {
		if err := f(); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	equal(t, "scripts that were sent", d.sent, 0)
}

func TestErrorsOfServersAreTranslated(t *testing.T) {
	lost := errors.New("connection reset")
	for _, c := range []struct {
		err  error
		want error
		text string
	}{
		{driver.ReplyError("STALE 9 b c"), ErrStale, `it has seen fence 9 from "b c"`},
		{driver.ReplyError("-STALE 9 b"), ErrStale, "it has seen fence 9 from b"},
		{driver.ReplyError("STALE"), ErrBadMark, `"k" on server:6379`},
		{driver.ReplyError("STALE 99999999999999999999 b"), ErrBadMark, `"k" on server:6379`},
		{driver.ReplyError("BADMARK x"), ErrBadMark, "holdfast:mark:{k}"},
		{driver.ReplyError("STALEMATE 9 b"), driver.ReplyError("STALEMATE 9 b"), "guarded write to"},
		{lost, lost, `guarded write to "k" on server:6379: connection reset`},
	} {
		err := NewRedis(&testDriver{err: c.err}, nil).Raise(t.Context(), stamp, "k")
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v becomes %v; want %v with %q", c.err, err, c.want, c.text)
		}
	}
}

// FuzzMark parses what may be stored in place of a mark.
func FuzzMark(f *testing.F) {
	for _, seed := range []string{"", "1 a", "0 a", "01 a", "-1 a", "+1 a", "9223372036854775807 a b", "9223372036854775808 a", "1", "1 ", " a", "1\x00 a", "\xff \xff"} {
		f.Add(seed)
	}
	pattern := regexp.MustCompile(`(?s)^([1-9][0-9]*) .+$`)
	f.Fuzz(func(t *testing.T, text string) {
		mark, err := parseMark(text)
		valid := false
		if m := pattern.FindStringSubmatch(text); m != nil {
			n, _ := new(big.Int).SetString(m[1], 10) // cannot fail, since m[1] has digits only
			valid = n.IsInt64()
		}
		if valid != (err == nil) {
			t.Errorf("parseMark(%q): %v", text, err)
		}
		if err != nil {
			if !errors.Is(err, ErrBadMark) || mark != (Mark{}) {
				t.Errorf("parseMark(%q) = %+v, %v", text, mark, err)
			}
			return
		}
		if fmt.Sprintf("%d %s", mark.Fence, mark.Owner) != text {
			t.Errorf("parseMark(%q) = %+v", text, mark)
		}
	})
}

func TestMillisecondsAreRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 1: "1", time.Millisecond: "1", time.Millisecond + 1: "2", math.MaxInt64: "9223372036855",
	} {
		if got := milliseconds(d); got != want {
			t.Errorf("milliseconds(%d ns) = %s, want %s", d, got, want)
		}
	}
}

func TestHeadersDocumentKeysArgumentsAndReplies(t *testing.T) {
	entries, err := files.ReadDir("lua")
	if err != nil || len(entries) == 0 {
		t.Fatal(err)
	}
	for _, e := range entries {
		source := text(e.Name())
		if !strings.HasPrefix(source, "-- "+e.Name()+": ") {
			t.Errorf("%s begins with %.40q", e.Name(), source)
		}
		header, code, _ := strings.Cut(source, "\n\n")
		for _, m := range regexp.MustCompile(`(?:return|error_reply\() ?'([A-Za-z]+)`).FindAllStringSubmatch(code, -1) {
			if !strings.Contains(header, "'"+m[1]) {
				t.Errorf("%s returns %q, which its header does not document", e.Name(), m[1])
			}
		}
		for _, m := range regexp.MustCompile(`(KEYS|ARGV)\[(\d+)\]`).FindAllStringSubmatch(code, -1) {
			if !regexp.MustCompile(m[1] + `\s.*\[` + m[2] + `\]`).MatchString(header) {
				t.Errorf("%s uses %s, which its header does not document", e.Name(), m[0])
			}
		}
	}
}
