package clockshim

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// shown returns how far the server's clock is ahead of ours.
func shown(t *testing.T, s *server.Server, command ...any) time.Duration {
	t.Helper()
	reply := expect.Of(s.Do(command...)).OK(t)
	now := time.Now()
	parts := reply.([]any)
	seconds, err1 := strconv.ParseInt(fmt.Sprint(parts[0]), 10, 64)
	micros, err2 := strconv.ParseInt(fmt.Sprint(parts[1]), 10, 64)
	if err1 != nil || err2 != nil {
		t.Fatalf("%v: %v", command, reply)
	}
	return time.UnixMicro(seconds*1e6 + micros).Sub(now)
}

func TestEveryServersClockMoves(t *testing.T) {
	server.Each(t, func(t *testing.T, bin server.Binary) {
		c := New(t)
		s := server.Start(t, bin, c.Option())
		inScript := []any{"EVAL", "return redis.call('TIME')", 0}
		for _, offset := range []time.Duration{0, 2 * time.Minute, -time.Hour} {
			c.Jump(offset - c.offset)
			for _, command := range [][]any{{"TIME"}, inScript} {
				// A busy machine takes its time to answer.
				expect.Between(t, fmt.Sprint(command[0], ": the clock is off"), shown(t, s, command...), offset-10*time.Second, offset+time.Second)
			}
		}
		c.Jump(-c.offset)

		// Expiries follow the same clock.
		for _, jump := range []time.Duration{-2 * time.Minute, 4 * time.Minute} {
			expect.OK(t, expect.ErrOf(s.Do("SET", "key", "value", "PX", 60_000)))
			c.Jump(jump)
			reply := expect.Of(s.Do("PTTL", "key")).OK(t)
			pttl := time.Duration(reply.(int64)) * time.Millisecond
			if jump < 0 && pttl < 2*time.Minute || jump > 0 && reply != int64(-2) {
				t.Errorf("after a jump by %s a key of a minute has %s left", jump, pttl)
			}
		}

		c.JumpAtEveryLook(time.Minute)
		before := shown(t, s, inScript...)
		time.Sleep(2 * lookInterval)
		if after := shown(t, s, inScript...); after < before+time.Minute-20*time.Second { // the answer may take some of that
			t.Errorf("off by %s, and at the next look by %s", before, after)
		}
	})
}
