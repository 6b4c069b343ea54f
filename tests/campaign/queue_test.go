package campaign

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/server"
)

func TestQueueLog(t *testing.T) {
	enter := func(process int, token string, score int) string {
		return fmt.Sprintf(`1700000000.000001 [0 lua] "ZADD" "Q" "%d" "%s\n1500\nchannel\n{\"o\":\"x\",\"p\":%d}"`, score, token, process)
	}
	leave := func(process int, token string) string {
		return fmt.Sprintf(`1700000000.000001 [0 lua] "ZREM" "Q" "%s\n1500\nchannel\n{\"o\":\"x\",\"p\":%d}"`, token, process)
	}
	grant := func(token string) string {
		return fmt.Sprintf(`1700000000.000001 [0 lua] "SET" "L" "hf1:%s:7:1:0:{}" "PX" "100"`, token)
	}
	for name, c := range map[string]struct {
		log  []string
		want int
	}{
		"first come, first served": {[]string{enter(1, "A", 1), enter(2, "B", 2), leave(1, "A"), grant("A"), leave(2, "B"), grant("B")}, 0},
		"one is dropped as dead":   {[]string{enter(1, "A", 1), enter(2, "B", 2), leave(1, "A"), leave(2, "B"), grant("B")}, 0},
		"a tombstone":              {[]string{`1700000000.000001 [0 lua] "ZADD" "Q" "-5" "x:A"`, grant("B")}, 0},
		"a stranger":               {[]string{enter(1, "A", 1), `1700000000.000001 [0 127.0.0.1:1] "SET" "L" "stranger" "NX" "PX" "100"`}, 0},
		"another lock":             {[]string{enter(1, "A", 1), strings.Replace(grant("B"), "L", "M", 1)}, 0},
		"comes back to its place":  {[]string{enter(1, "A", 1), leave(1, "A"), enter(2, "B", 2), enter(1, "C", 1), leave(1, "C"), grant("C")}, 0},

		"last come, first served":   {[]string{enter(1, "A", 1), enter(2, "B", 2), leave(2, "B"), grant("B")}, 1},
		"passed without queueing":   {[]string{enter(1, "A", 1), grant("B")}, 1},
		"passed while it came back": {[]string{enter(1, "A", 1), leave(1, "A"), enter(2, "B", 2), enter(1, "C", 1), leave(2, "B"), grant("B")}, 1},
		"passes two":                {[]string{enter(1, "A", 1), enter(2, "B", 2), enter(3, "C", 3), leave(3, "C"), grant("C")}, 2},
		"takes a place by a lie":    {[]string{enter(1, "A", 5), enter(2, "B", 1), leave(2, "B"), grant("B")}, 1},
	} {
		line := newQueueLine("a")
		q := &queueLog{lines: map[string]*queueLine{"Q": line, "L": line}}
		for _, text := range c.log {
			q.step(text)
		}
		if len(q.passed) != c.want {
			t.Errorf("%s: passed %q; want %d", name, q.passed, c.want)
		}
	}
}

// Every server shows what scripts do as the log expects it.
func TestQueueLogOfServers(t *testing.T) {
	for _, b := range server.Binaries(t) {
		t.Run(b.Name, func(t *testing.T) {
			s := server.Start(t, b)
			p := &Plan{Names: []Name{{Name: "a", Key: "L", Queue: "Q"}}}
			q := followQueues(s, p)
			const script = `redis.call('ZADD', 'Q', '5', 'A\n1500\nc\n{"o":"x","p":1}') redis.call('SET', 'L', 'hf1:B:7:1:0:{}', 'PX', 100)`
			if _, err := s.Do("EVAL", script, 0); err != nil {
				t.Fatal(err)
			}
			passed, _, whole := q.end(s)
			if len(passed) != 1 || !whole {
				t.Errorf("passed %q, whole %t; want one, true", passed, whole)
			}

			q = followQueues(s, p)
			if _, err := s.Do("CLIENT", "KILL", "TYPE", "normal"); err != nil {
				t.Fatal(err)
			}
			if _, _, whole := q.end(s); whole {
				t.Error("a log that was cut off passes for whole")
			}
		})
	}
}
