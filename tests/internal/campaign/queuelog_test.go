package campaign

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

func TestLog(t *testing.T) {
	enter := func(process int, token string, score int) string {
		return fmt.Sprintf(`1700000000.000001 [0 lua] "ZADD" "Q" "%d" "%s\n1500\nchannel\n{\"o\":\"x\",\"p\":%d}"`, score, token, process)
	}
	enterOnce := func(process int, token string, score int) string {
		return strings.Replace(enter(process, token, score), `"Q"`, `"Q" "NX"`, 1)
	}
	leave := func(process int, token string) string {
		return fmt.Sprintf(`1700000000.000001 [0 lua] "ZREM" "Q" "%s\n1500\nchannel\n{\"o\":\"x\",\"p\":%d}"`, token, process)
	}
	leaveTogether := func(tokens ...string) string {
		text := `1700000000.000001 [0 lua] "ZREM" "Q"`
		for _, token := range tokens {
			text += fmt.Sprintf(` "%s\n1500\nchannel\n{\"o\":\"x\",\"p\":1}"`, token)
		}
		return text
	}
	grant := func(token string) string {
		return fmt.Sprintf(`1700000000.000001 [0 lua] "SET" "L" "hf2:%s:7:1:0:{}" "PX" "100"`, token)
	}
	set := func(token string) string {
		return fmt.Sprintf(`1700000000.000001 [0 127.0.0.1:1] "SET" "L" "hf2:%s:0:1:0:{}" "NX" "PXAT" "1700000000100"`, token)
	}
	deletes := func(token string) string {
		return fmt.Sprintf(`1700000000.000001 [0 127.0.0.1:1] "DELIFEQ" "L" "hf2:%s:0:1:0:{}"`, token)
	}
	of := func(s script.Script, args string) string {
		return fmt.Sprintf(`1700000000.000001 [0 127.0.0.1:1] "EVALSHA" "%s" %s`, s.SHA1, args)
	}
	redissons := func(token, value string) string {
		return fmt.Sprintf(`1700000000.000001 [0 lua] "HSET" "L" "%s:1" "1" "holdfast" "hf2:%s:7:1:0:{}%s"`, token, token, value)
	}
	run := func(s script.Script) string {
		return fmt.Sprintf(`1700000000.000001 [0 127.0.0.1:1] "evalsha" "%s" "3" "L" "Q" "F"`, s.SHA1)
	}
	source := func(s script.Script) string {
		return fmt.Sprintf(`1700000000.000001 [0 127.0.0.1:1] "EVAL" %q "3" "L" "Q" "F"`, s.Source)
	}
	for name, c := range map[string]struct {
		log  []string
		want int
	}{
		"adopted past the queue":        {[]string{enter(1, "A", 1), run(script.Adopt()), grant("B")}, 0},
		"adopted, by the source":        {[]string{enter(1, "A", 1), source(script.Adopt()), grant("B")}, 0},
		"adopted, then acquired":        {[]string{enter(1, "A", 1), run(script.Adopt()), grant("B"), run(script.Acquire()), grant("C")}, 1},
		"acquired, by the source":       {[]string{enter(1, "A", 1), source(script.Acquire()), grant("B")}, 1},
		"released to one that was last": {[]string{enter(1, "A", 1), run(script.Adopt()), grant("B"), enter(2, "C", 2), run(script.Release()), leave(2, "C"), grant("C")}, 1},

		"set past the queue, and ended":        {[]string{enter(1, "A", 1), set("B"), of(script.Release(), `"3" "L" "Q" "F" "" "B" "" "0"`)}, 0},
		"set past the queue, and deleted":      {[]string{enter(1, "A", 1), set("B"), deletes("B"), deletes("B")}, 1},
		"set past the queue, and released":     {[]string{enter(1, "A", 1), set("B"), of(script.BatchRelease(), `"1" "L" "hf2:B:"`)}, 1},
		"set past the queue, and renewed":      {[]string{enter(1, "A", 1), set("B"), of(script.Renew(), `"1" "L" "" "B" "60000" "0" "7"`)}, 1},
		"set past the queue, renewed together": {[]string{enter(1, "A", 1), set("B"), of(script.BatchRenew(), `"2" "L" "M" "" "hf2:B:7:" "hf2:C:7:" "60000"`)}, 1},
		"set past two":                         {[]string{enter(1, "A", 1), enter(1, "C", 2), set("B"), deletes("B")}, 2},
		"set past one that gave up":            {[]string{enter(1, "A", 1), set("B"), leave(1, "A"), deletes("B")}, 0},
		"set before anybody queued":            {[]string{set("B"), enter(1, "A", 1), deletes("B")}, 0},
		"set when it was another's":            {[]string{enter(1, "A", 1), set("B"), leave(1, "A"), grant("A")}, 0},

		"written again by a renewal": {[]string{set("B"), enter(1, "A", 1), strings.Replace(grant("B"), `"PX" "100"`, `"KEEPTTL"`, 1)}, 0},

		"in Redisson's form, passed":     {[]string{enter(1, "A", 1), redissons("B", "")}, 1},
		"in Redisson's form, in turn":    {[]string{enter(1, "A", 1), leave(1, "A"), redissons("A", "")}, 0},
		"in Redisson's form, and marked": {[]string{redissons("A", ""), enter(2, "B", 2), redissons("A", "+")}, 0},

		"first come, first served": {[]string{enter(1, "A", 1), enter(2, "B", 2), leave(1, "A"), grant("A"), leave(2, "B"), grant("B")}, 0},
		"one is dropped as dead":   {[]string{enter(1, "A", 1), enter(2, "B", 2), leave(1, "A"), leave(2, "B"), grant("B")}, 0},
		"two are dropped at once":  {[]string{enter(1, "A", 1), enter(1, "B", 2), enter(2, "C", 3), leaveTogether("A", "B"), leave(2, "C"), grant("C")}, 0},
		"quotes as they are":       {[]string{enter(1, "A", 1), enter(1, "B", 2), enter(2, "C", 3), strings.ReplaceAll(leaveTogether("A", "B"), `\"`, `"`), leave(2, "C"), grant("C")}, 0},
		"a tombstone":              {[]string{`1700000000.000001 [0 lua] "ZADD" "Q" "-5" "x:A"`, grant("B")}, 0},
		"a stranger":               {[]string{enter(1, "A", 1), `1700000000.000001 [0 127.0.0.1:1] "SET" "L" "stranger" "NX" "PX" "100"`}, 0},
		"another lock":             {[]string{enter(1, "A", 1), strings.Replace(grant("B"), "L", "M", 1)}, 0},
		"first come, entered once": {[]string{enterOnce(1, "A", 1), enterOnce(2, "B", 2), enterOnce(1, "A", 3), leave(1, "A"), grant("A")}, 0},
		"last come, entered once":  {[]string{enterOnce(1, "A", 1), enterOnce(2, "B", 2), leave(2, "B"), grant("B")}, 1},
		"comes back to its place":  {[]string{enter(1, "A", 1), leave(1, "A"), enter(2, "B", 2), enter(1, "C", 1), leave(1, "C"), grant("C")}, 0},

		"last come, first served":   {[]string{enter(1, "A", 1), enter(2, "B", 2), leave(2, "B"), grant("B")}, 1},
		"passed without queueing":   {[]string{enter(1, "A", 1), grant("B")}, 1},
		"passed while it came back": {[]string{enter(1, "A", 1), leave(1, "A"), enter(2, "B", 2), enter(1, "C", 1), leave(2, "B"), grant("B")}, 1},
		"passes two":                {[]string{enter(1, "A", 1), enter(2, "B", 2), enter(3, "C", 3), leave(3, "C"), grant("C")}, 2},
		"takes a place by a lie":    {[]string{enter(1, "A", 5), enter(2, "B", 1), leave(2, "B"), grant("B")}, 1},
	} {
		q := follow([]Name{{Name: "a", Key: "L", Queue: "Q"}})
		for _, text := range c.log {
			q.step(text)
		}
		if len(q.found.passed) != c.want {
			t.Errorf("%s: passed %q; want %d", name, q.found.passed, c.want)
		}
	}
}

func TestLogOfShares(t *testing.T) {
	enter := func(token string, score int) string {
		return fmt.Sprintf(`1700000000.000001 [0 lua] "ZADD" "Q" "%d" "%s\n1500\nchannel\n1\n{\"o\":\"x\",\"p\":%d}"`, score, token, score)
	}
	leave := func(token string, score int) string {
		return fmt.Sprintf(`1700000000.000001 [0 lua] "ZREM" "Q" "%s\n1500\nchannel\n1\n{\"o\":\"x\",\"p\":%d}"`, token, score)
	}
	hold := func(token string, fence int) string {
		return fmt.Sprintf(`1700000000.000001 [0 lua] "HSET" "L" "kind" "rw" "last" "%s" "%s" "99:1:%d:5:{}"`, token, token, fence)
	}
	const gone = `1700000000.000001 [0 lua] "DEL" "L"`
	drop := func(token string) string {
		return fmt.Sprintf(`1700000000.000001 [0 lua] "HDEL" "L" "%s"`, token)
	}
	for name, c := range map[string]struct {
		log          []string
		passed, fell int
	}{
		"served together":        {[]string{enter("A", 1), enter("B", 2), leave("A", 1), hold("A", 5), leave("B", 2), hold("B", 5)}, 0, 0},
		"renewed":                {[]string{hold("A", 5), enter("B", 2), hold("A", 5)}, 0, 0},
		"one after the other":    {[]string{hold("A", 5), drop("A"), hold("B", 6), gone, hold("C", 7)}, 0, 0},
		"a barrier is broken":    {[]string{hold("A", 5), enter("B", 2), `1700000000.000001 [0 lua] "HSET" "L" "broken" "left {\\"o\\":\\"x\\",\\"p\\":4,\\"m\\":{}}"`}, 0, 0},
		"passed":                 {[]string{enter("A", 1), enter("B", 2), leave("B", 2), hold("B", 5)}, 1, 0},
		"passed by a newcomer":   {[]string{hold("A", 5), enter("B", 2), hold("C", 6)}, 1, 0},
		"passed by who was here": {[]string{hold("A", 5), drop("A"), enter("B", 2), hold("A", 6)}, 1, 0},
		"a fence that falls":     {[]string{hold("A", 5), hold("B", 4)}, 0, 1},
		"a fence given again":    {[]string{hold("A", 5), gone, hold("B", 5)}, 0, 1},
	} {
		q := follow([]Name{{Name: "a", Key: "L", Queue: "Q"}})
		for _, text := range c.log {
			q.step(text)
		}
		if len(q.found.passed) != c.passed || len(q.found.fell) != c.fell {
			t.Errorf("%s: passed %q, fell %q; want %d and %d", name, q.found.passed, q.found.fell, c.passed, c.fell)
		}
	}
}

// Every server shows the commands of scripts as the log expects them.
func TestLogOfServers(t *testing.T) {
	for _, b := range server.Binaries(t) {
		t.Run(b.Name, func(t *testing.T) {
			s := server.Start(t, b)
			locks := []Name{{Name: "a", Key: "L", Queue: "Q"}}
			q := followOn(s, locks)
			const script = `redis.call('ZADD', 'Q', '5', 'A\n1500\nc\n{"o":"x","p":1}') redis.call('SET', 'L', 'hf2:B:7:1:0:{}', 'PX', 100)`
			expect.OK(t, expect.ErrOf(s.Do("EVAL", script, 0)))
			if found := q.end(); len(found.passed) != 1 || !found.whole {
				t.Errorf("%+v; want one passed, and whole", found)
			}

			q = followOn(s, locks)
			expect.OK(t, expect.ErrOf(s.Do("CLIENT", "KILL", "TYPE", "normal")))
			expect.Equal(t, "a log that was cut off is whole", q.end().whole, false)
		})
	}
}
