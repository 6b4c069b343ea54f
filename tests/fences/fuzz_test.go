package fences

import (
	"context"
	"errors"
	"math/big"
	"regexp"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// form is how a mark looks.
var form = regexp.MustCompile(`(?s)^([1-9][0-9]*) (.+)$`)

// FuzzMark lets the guard judge marks that anybody may have written, on the embedded server.
func FuzzMark(f *testing.F) {
	for _, seed := range []string{"4 a", "5 a", "5 b", "6 a", "10 a", "", "5", "05 a", "4 a b", "4\na", "99999999999999999999 a", "6 \xff\r\n"} {
		f.Add(seed)
	}
	rdb := redis.NewClient(&redis.Options{Addr: "embedded", Dialer: holdfasttest.Run(f).Dial})
	f.Cleanup(func() { _ = rdb.Close() })
	d := drivertest.Of(holdfastgoredis.NewDriver(rdb))
	f.Cleanup(func() { _ = d.Close() })
	r := fence.NewRedis(d, nil)
	key, err := r.MarkKey("r")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ctx := context.Background()
		if err := rdb.Set(ctx, key, text, 0).Err(); err != nil {
			t.Fatal(err)
		}
		after, want := text, fence.ErrBadMark
		if m := form.FindStringSubmatch(text); m != nil {
			switch n, _ := new(big.Int).SetString(m[1], 10); { // digits, says the pattern
			case n.Cmp(big.NewInt(5)) < 0 || n.Cmp(big.NewInt(5)) == 0 && m[2] == "a":
				after, want = "5 a", nil
			case n.IsInt64():
				want = fence.ErrStale
			}
		}
		if err := r.Raise(ctx, by("a", 5), "r"); !errors.Is(err, want) {
			t.Errorf("with the mark %q: %v; want %v", text, err, want)
		}
		if got := rdb.Get(ctx, key).Val(); got != after {
			t.Errorf("the mark %q has become %q; want %q", text, got, after)
		}
	})
}
