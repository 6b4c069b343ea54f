package lockstatus

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

var now = time.Date(2026, 11, 25, 17, 0, 0, 0, time.UTC)

func by(owner string, since, ttl time.Duration) holdfast.Holder {
	return holdfast.Holder{Identity: owner, Since: now.Add(-since), TTL: ttl, Fence: 7}
}

func TestSummarize(t *testing.T) {
	reader := func(owner string) holdfast.Holder {
		h := by(owner, time.Minute, time.Second)
		h.Mode = holdfast.ModeReader
		return h
	}
	writer := reader("w")
	writer.Mode = holdfast.ModeWriter
	permits := by("p", time.Hour, -1)
	permits.Permits = 3
	for _, c := range []struct {
		of       holdfast.Status
		holders  string
		age, ttl string
	}{
		{holdfast.Status{Kind: holdfast.KindMutex}, "-", "-", "-"},
		{holdfast.Status{Kind: holdfast.KindMutex, Holders: []holdfast.Holder{by("me", 90*time.Second, 5*time.Second)}}, "me", "1m", "5s"},
		{holdfast.Status{Kind: holdfast.KindForeign, Holders: []holdfast.Holder{{Foreign: true, TTL: -1}}}, "(another program)", "-", "-"},
		{holdfast.Status{Kind: holdfast.KindOwner, Holders: []holdfast.Holder{by("me", time.Minute, 9*time.Second), by("me", 3*time.Hour, 5*time.Second)}}, "me (2 times)", "3h", "5s"},
		{holdfast.Status{Kind: holdfast.KindRWMutex, Holders: []holdfast.Holder{reader("a")}}, "reader: a", "1m", "1s"},
		{holdfast.Status{Kind: holdfast.KindRWMutex, Holders: []holdfast.Holder{writer}}, "writer: w", "1m", "1s"},
		{holdfast.Status{Kind: holdfast.KindRWMutex, Holders: []holdfast.Holder{reader("a"), reader("b"), reader("c"), reader("d")}}, "4 readers: a, b, c, …", "1m", "1s"},
		{holdfast.Status{Kind: holdfast.KindSemaphore, Limit: 5, Holders: []holdfast.Holder{permits}}, "3 of 5: p", "1h", "-"},
		{holdfast.Status{Kind: holdfast.KindSemaphore, Limit: 5}, "0 of 5", "-", "-"},
		{holdfast.Status{Kind: holdfast.KindLatch, Limit: 3, Count: 2}, "2 of 3 left", "-", "-"},
		{holdfast.Status{Kind: holdfast.KindBarrier, Limit: 3, Holders: []holdfast.Holder{by("a", 50*time.Hour, time.Second)}}, "1 of 3: a", "2d", "1s"},
		{holdfast.Status{Kind: holdfast.KindElection, Holders: []holdfast.Holder{by("me", 50*time.Hour, 9*time.Second)}}, "leader: me", "2d", "9s"},
		{holdfast.Status{Kind: holdfast.KindElection}, "no leader", "-", "-"},
		{holdfast.Status{Kind: holdfast.KindMutex, Holders: []holdfast.Holder{by("\x1b[31m", -time.Hour, 0)}}, `"\x1b[31m"`, "0s", "0s"},
	} {
		c.of.Time = now
		s := Summarize(c.of)
		if s.Holders != c.holders || Age(s.Age) != c.age || Age(s.TTL) != c.ttl {
			t.Errorf("%+v: %q, %s, %s; want %q, %s, %s", c.of, s.Holders, Age(s.Age), Age(s.TTL), c.holders, c.age, c.ttl)
		}
	}
}

// Texts that other processes wrote cannot add a line or control a terminal.
func TestWriteEscapes(t *testing.T) {
	h := by("evil\n  free", time.Minute, time.Second)
	h.Host, h.Meta = "\u202ehost", map[string]string{"k\x1b": "v\r\n"}
	text := Text(holdfast.Status{Name: "n\u202e", Key: "k", Kind: holdfast.KindMutex, Time: now, Holders: []holdfast.Holder{h}, Waiting: 5, Waiters: []holdfast.Waiter{{Identity: "\x07", Since: now}}}, "", false)
	if strings.ContainsAny(text, "\x1b\x07\r\u202e") || strings.Count(text, "\n") != 8 || !strings.Contains(text, "and 4 more") {
		t.Errorf("written is %q", text)
	}
}
