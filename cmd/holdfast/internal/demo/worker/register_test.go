package worker

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/holdfasttest"
)

// TestDemoOnARealServer of tests/command runs these scripts on a real server.
func TestRegister(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "embedded", Dialer: holdfasttest.Run(t).Dial})
	defer rdb.Close()
	ctx := context.Background()
	r := register{rdb, "register"}
	const first = 1_795_000_000_000_000 // as high as fences are
	for i, step := range []struct {
		fence uint64
		write string // "" reads
		want  string
		mark  uint64 // of the refusal
	}{
		{fence: first, want: ""},
		{fence: first, write: "one"},
		{fence: first + 2, want: "one"},
		{fence: first, write: "late", mark: first + 2}, // only a read came between
		{fence: first + 1, mark: first + 2},
		{fence: first + 2, write: "two"},
		{fence: first + 3, write: "three"},
		{fence: first + 2, write: "late", mark: first + 3},
		{fence: first + 3, want: "three"},
	} {
		got := ""
		var err error
		if step.write != "" {
			err = r.write(ctx, step.fence, step.write)
		} else {
			got, err = r.read(ctx, step.fence)
		}
		var stale *staleError
		switch {
		case step.mark == 0 && (err != nil || got != step.want):
			t.Errorf("step %d: %q, %v", i, got, err)
		case step.mark != 0 && (!errors.As(err, &stale) || stale.highest != step.mark || stale.fence != step.fence):
			t.Errorf("step %d: %v", i, err)
		}
	}
	if ttl, err := rdb.PTTL(ctx, r.key).Result(); err != nil || ttl <= 0 {
		t.Errorf("the register expires in %v, %v", ttl, err)
	}
}
