package keeper

import (
	"testing"
	"time"
)

func TestAScheduleEndsBeforeTheDeadline(t *testing.T) {
	for _, c := range []struct {
		policy    Policy
		killAfter time.Duration
		loss      instant // when the lock counts as lost, for a deadline at 100 s
		kill      instant // when KILL follows if the job is ended then; 0: never
	}{
		{Terminate, 5 * time.Second, 95 * second, 99*second + second/2},
		{Terminate, time.Second, 99 * second, 100*second - 150*instant(time.Millisecond)},
		{Terminate, 0, 100*second - 50*instant(time.Millisecond), 100*second - 50*instant(time.Millisecond)},
		{Kill, 5 * time.Second, 99*second + second/2, 99*second + second/2},
		{Notify, 5 * time.Second, 95 * second, 0},
		{Ignore, 5 * time.Second, 100 * second, 0},
	} {
		p := schedule{onLost: c.policy, killAfter: c.killAfter}
		p.move(100 * second)
		if got := p.next(); got != c.loss {
			t.Errorf("%s, kill-after %s: the lock counts as lost at %d, want %d", c.policy, c.killAfter, got, c.loss)
		}
		p.lose()
		if c.kill != 0 {
			p.end(c.loss, c.killAfter)
		}
		if got := p.next(); got != c.kill {
			t.Errorf("%s, kill-after %s: next after the loss is %d, want %d", c.policy, c.killAfter, got, c.kill)
		}
	}
}

func TestAScheduleMovesWithRenewals(t *testing.T) {
	p := schedule{onLost: Terminate, killAfter: 5 * time.Second}
	if p.next() != 0 {
		t.Errorf("without a deadline there is something to do at %d", p.next())
	}
	p.move(100 * second)
	p.move(110 * second)
	p.move(105 * second) // an older renewal
	if got, want := p.next(), 105*second; got != want {
		t.Errorf("TERM at %d, want %d", got, want)
	}
}

func TestALateRenewalDoesNotCancelAnEnd(t *testing.T) {
	p := schedule{onLost: Terminate, killAfter: 5 * time.Second}
	p.move(100 * second)
	p.lose()
	p.end(95*second, 5*time.Second)
	p.move(200 * second)
	if got, want := p.next(), 99*second+second/2; got != want {
		t.Errorf("KILL at %d, want %d", got, want)
	}
}

func TestAScheduleKillsAtOnceAfterTheDeadline(t *testing.T) {
	p := schedule{onLost: Terminate, killAfter: 5 * time.Second}
	p.move(100 * second)
	const woken = 130 * second // the keeper itself was stopped
	if p.next() > woken {
		t.Fatal("nothing is due")
	}
	p.lose()
	p.end(woken, 5*time.Second)
	if p.killAt > woken {
		t.Errorf("KILL at %d, after it woke at %d", p.killAt, woken)
	}
}

func TestAScheduleShortensAnEndButNeverProlongsIt(t *testing.T) {
	p := schedule{onLost: Terminate, killAfter: 5 * time.Second}
	p.move(1000 * second)
	p.end(10*second, 5*time.Second)
	p.end(12*second, 5*time.Second)
	if p.killAt != 15*second {
		t.Errorf("KILL at %d, want the time of the first end", p.killAt)
	}
	p.end(12*second, 0)
	if p.killAt != 12*second {
		t.Errorf("KILL at %d, want at once", p.killAt)
	}
}
