package proxy

import (
	"testing"
	"time"
)

func TestLoseReply(t *testing.T) {
	s, p := start(t)
	trap := p.LoseReply(Containing("INCR", "key"), Hang)
	c := dial(t, p, 30*time.Second)
	expect(t, c, "PONG", "PING")
	c.SetTimeout(patience)
	_, err := c.Do("INCR", "key")
	expectTimeout(t, err)
	if got := trap.Reply(t); got != ":1\r\n" {
		t.Errorf("the lost reply is %q", got)
	}
	expect(t, s, "1", "GET", "key")
	expect(t, dial(t, p, 30*time.Second), int64(2), "INCR", "key")
}

func TestLoseReplyAndCut(t *testing.T) {
	s, p := start(t)
	trap := p.LoseReply(Containing("INCR"), Cut)
	_, err := dial(t, p, 30*time.Second).Do("INCR", "key")
	expectCut(t, err)
	if got := trap.Reply(t); got != ":1\r\n" {
		t.Errorf("the lost reply is %q", got)
	}
	expect(t, s, "1", "GET", "key")
}

func TestHold(t *testing.T) {
	for name, after := range map[string]After{"hang": Hang, "cut": Cut} {
		t.Run(name, func(t *testing.T) {
			s, p := start(t)
			held := p.Hold(Containing("APPEND", "first"), after)
			c := dial(t, p, 30*time.Second)
			expect(t, c, int64(1), "APPEND", "key", "0")
			if after == Hang {
				c.SetTimeout(patience)
			}
			_, err := c.Do("APPEND", "key", "first")
			if after == Cut {
				expectCut(t, err)
			} else {
				expectTimeout(t, err)
				if err := c.Send("APPEND", "key", "behind"); err != nil {
					t.Fatal(err)
				}
			}
			held.Wait(t)
			expect(t, dial(t, p, 30*time.Second), int64(6), "APPEND", "key", "first")
			expect(t, s, "0first", "GET", "key")
			if got := held.Forward(t); got != ":11\r\n" {
				t.Errorf("the reply to the late copy is %q", got)
			}
			expect(t, s, "0firstfirst", "GET", "key")
		})
	}
}

func TestHeldRequestSurvivesCut(t *testing.T) {
	s, p := start(t)
	held := p.Hold(Containing("SET"), Hang)
	c := dial(t, p, 30*time.Second)
	if err := c.Send("SET", "key", "late"); err != nil {
		t.Fatal(err)
	}
	held.Wait(t)
	p.Cut()
	_, err := c.Receive()
	expectCut(t, err)
	held.Forward(t)
	expect(t, s, "late", "GET", "key")
}

func TestDouble(t *testing.T) {
	s, p := start(t)
	trap := p.Double(Containing("INCR"))
	c := dial(t, p, 30*time.Second)
	first, err := c.Do("INCR", "key")
	if err != nil {
		t.Fatal(err)
	}
	second := trap.Reply(t)
	if !(first == int64(1) && second == ":2\r\n" || first == int64(2) && second == ":1\r\n") {
		t.Errorf("the replies are %v and %q", first, second)
	}
	expect(t, s, "2", "GET", "key")
	expect(t, c, int64(3), "INCR", "key")
}

func TestTrapsSpringOnceInOrder(t *testing.T) {
	s, p := start(t)
	first := p.Double(Containing("INCR"))
	second := p.Double(Containing("INCR", "key"))
	other := p.Double(Containing("INCR", "other"))
	c := dial(t, p, 30*time.Second)
	for _, trap := range []*Trap{first, second} {
		if _, err := c.Do("INCR", "key"); err != nil {
			t.Fatal(err)
		}
		trap.Reply(t)
	}
	expect(t, c, int64(5), "INCR", "key")
	expect(t, s, "5", "GET", "key")
	select {
	case <-other.caught:
		t.Error("a trap sprang at another request")
	default:
	}
}
