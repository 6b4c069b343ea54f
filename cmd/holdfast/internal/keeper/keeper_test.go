package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// With this grace, TERM is sent 5 s before the deadline, and KILL half a second before it.
const grace = 5 * time.Second

// killed is the end of a job that ignores TERM.
var killed = Event{Signal: 9, Cause: CauseLost}

// Bug: TERM comes late.
func TestEachPolicyActsBeforeTheDeadline(t *testing.T) {
	for _, c := range []struct {
		policy Policy
		grace  time.Duration
		want   []string
		end    Event
	}{
		{Terminate, grace, []string{"1s runs", "95s told: losing", "95s TERM", "99.5s KILL", "99.5s told: ended"}, killed},
		{Terminate, time.Second, []string{"1s runs", "99s told: losing", "99s TERM", "99.85s KILL", "99.85s told: ended"}, killed},
		{Terminate, 0, []string{"1s runs", "99.95s told: losing", "99.95s KILL", "99.95s told: ended"}, killed},
		{Kill, grace, []string{"1s runs", "99.5s told: losing", "99.5s KILL", "99.5s told: ended"}, killed},
		{Notify, grace, []string{"1s runs", "95s told: losing", "95s USR1", "180s told: ended"}, Event{Code: 3}},
		{Ignore, grace, []string{"1s runs", "100s told: losing", "180s told: ended"}, Event{Code: 3}},
	} {
		t.Run(fmt.Sprint(c.policy, " ", c.grace), func(t *testing.T) {
			inWorld(t, Spec{OnLost: c.policy, KillAfter: c.grace}, func(w *world) {
				w.until(1)
				w.Release(w.at(100))
				w.until(180)
				w.exit(3)
				w.happened(c.want...)
				w.end(c.end)
			})
		})
	}
}

func TestALossIsActedOnAtOnce(t *testing.T) {
	for policy, c := range map[Policy]struct {
		want []string
		end  Event
	}{
		Terminate: {[]string{"0s runs", "10s TERM", "15s KILL", "15s told: ended"}, killed},
		Kill:      {[]string{"0s runs", "10s KILL", "10s told: ended"}, killed},
		Notify:    {[]string{"0s runs", "10s USR1", "180s told: ended"}, Event{Code: 3}},
		Ignore:    {[]string{"0s runs", "180s told: ended"}, Event{Code: 3}},
	} {
		t.Run(string(policy), func(t *testing.T) {
			inWorld(t, Spec{OnLost: policy, KillAfter: grace}, func(w *world) {
				w.Release(w.at(100))
				w.until(10)
				w.Lost()
				w.until(11)
				w.Lost() // the second time changes nothing
				w.until(180)
				w.exit(3)
				w.happened(c.want...)
				w.end(c.end)
			})
		})
	}
}

// A story is what a test does to a job, what must happen then, and how the job must end.
type story struct {
	spec Spec // with a KillAfter of grace
	does func(w *world)
	want []string
	end  Event
}

// tell runs a story, and waits for its end.
func tell(t *testing.T, stories map[string]story) {
	t.Helper()
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			s.spec.KillAfter = grace
			inWorld(t, s.spec, func(w *world) {
				s.does(w)
				w.until(300)
				w.happened(s.want...)
				w.end(s.end)
			})
		})
	}
}

func TestTheEndKeepsToTheDeadline(t *testing.T) {
	tell(t, map[string]story{
		"the deadline shortens the grace": {Spec{OnLost: Terminate}, func(w *world) {
			w.Release(w.at(100))
			w.until(94.9)
			w.Lost()
		}, []string{"0s runs", "94.9s TERM", "99.5s KILL", "99.5s told: ended"}, killed},
		"a command that obeys TERM is not killed": {Spec{OnLost: Terminate}, func(w *world) {
			w.onTerm = func() { w.exit(4) }
			w.Release(w.at(100))
		}, []string{"0s runs", "95s told: losing", "95s TERM", "95s told: ended"}, Event{Code: 4, Cause: CauseLost}},
		"renewals postpone the end": {Spec{OnLost: Terminate}, func(w *world) {
			w.Release(w.at(100))
			w.until(30)
			w.SetDeadline(w.at(130))
			w.until(94.9) // just before TERM would be sent
			w.SetDeadline(w.at(190))
			w.until(110)
			w.SetDeadline(w.at(150)) // an older renewal, which is late
		}, []string{"0s runs", "185s told: losing", "185s TERM", "189.5s KILL", "189.5s told: ended"}, killed},
		"a renewal comes too late for a job that is being ended": {Spec{OnLost: Terminate}, func(w *world) {
			w.Release(w.at(100))
			w.until(95.1)
			w.SetDeadline(w.at(200))
		}, []string{"0s runs", "95s told: losing", "95s TERM", "99.5s KILL", "99.5s told: ended"}, killed},
		"a renewal does not undo a loss that was notified": {Spec{OnLost: Notify}, func(w *world) {
			w.Release(w.at(100))
			w.until(96)
			w.SetDeadline(w.at(200))
			w.Lost()
			w.until(299)
			w.exit(3)
		}, []string{"0s runs", "95s told: losing", "95s USR1", "299s told: ended"}, Event{Code: 3}},
		"with too little time to end the command, nothing runs": {Spec{OnLost: Terminate}, func(w *world) {
			w.until(99.6)
			w.Release(w.at(100))
		}, []string{"99.6s told: losing", "99.6s KILL", "99.6s told: ended"}, Event{Signal: 9, Cause: CauseNotRun}},
	})
}

func TestWithoutALockNothingRuns(t *testing.T) {
	for _, policy := range []Policy{Terminate, Kill, Notify, Ignore} {
		t.Run(string(policy), func(t *testing.T) {
			inWorld(t, Spec{OnLost: policy, KillAfter: grace}, func(w *world) {
				w.until(100.1)
				w.Release(w.at(100))
				w.until(300)
				w.happened("100.1s told: losing", "100.1s KILL", "100.1s told: ended")
				w.end(Event{Signal: 9, Cause: CauseNotRun})
			})
			inWorld(t, Spec{OnLost: policy, KillAfter: grace}, func(w *world) {
				w.until(1)
				w.Lost() // as after a DEL, before the lease was over
				w.until(2)
				w.Release(w.at(100)) // too late
				w.until(300)
				w.happened("1s KILL", "1s told: ended")
				w.end(Event{Signal: 9, Cause: CauseNotRun})
			})
		})
	}
}

// Fault: The machine slept past the deadline, or the keeper was stopped. It kills the job at once: no grace remains.
func TestAKeeperThatWakesUpAfterTheDeadlineKillsAtOnce(t *testing.T) {
	inWorld(t, Spec{OnLost: Terminate, KillAfter: grace}, func(w *world) {
		w.Release(w.at(100))
		w.until(50)
		w.oversleep(49 * time.Second) // to a second before the deadline: half a second of the grace remains
		w.happened("0s runs", "99s told: losing", "99s TERM")
		w.oversleep(time.Hour)
		w.happened("0s runs", "99s told: losing", "99s TERM", "3699s KILL", "3699s told: ended")
		w.end(killed)
	})
	inWorld(t, Spec{OnLost: Terminate, KillAfter: grace}, func(w *world) {
		w.Release(w.at(100))
		w.until(50)
		w.oversleep(time.Hour)
		w.happened("0s runs", "3650s told: losing", "3650s TERM", "3650s KILL", "3650s told: ended")
		w.end(killed)
	})
}

// Of two reasons to end a job, the first is reported, and the earlier KILL counts.
func TestMaxRuntime(t *testing.T) {
	const most = 30 * time.Second // from the release
	overtime := Event{Signal: 9, Cause: CauseMaxRuntime}
	tell(t, map[string]story{
		"alone": {Spec{OnLost: Terminate, MaxRuntime: most}, func(w *world) {
			w.until(20)
			w.Release(w.at(1000))
		}, []string{"20s runs", "50s told: overtime", "50s TERM", "55s KILL", "55s told: ended"}, overtime},
		"and then a loss": {Spec{OnLost: Terminate, MaxRuntime: most}, func(w *world) { w.Release(w.at(36)) },
			[]string{"0s runs", "30s told: overtime", "30s TERM", "31s told: losing", "35s KILL", "35s told: ended"}, overtime},
		"and then a loss that kills": {Spec{OnLost: Kill, MaxRuntime: most}, func(w *world) { w.Release(w.at(33)) },
			[]string{"0s runs", "30s told: overtime", "30s TERM", "32.5s told: losing", "32.5s KILL", "32.5s told: ended"}, overtime},
		"after a loss": {Spec{OnLost: Terminate, MaxRuntime: most}, func(w *world) { w.Release(w.at(33)) },
			[]string{"0s runs", "28s told: losing", "28s TERM", "32.5s KILL", "32.5s told: ended"}, killed},
	})
}

func TestLeftoversGetTheGrace(t *testing.T) {
	exits := func(deadline float64) func(w *world) {
		return func(w *world) {
			w.leaves(5, 6)
			w.Release(w.at(deadline))
			w.until(10)
			w.exit(3)
		}
	}
	tell(t, map[string]story{
		"whole": {Spec{OnLost: Terminate, MaxRuntime: 12 * time.Second}, exits(100),
			[]string{"0s runs", "10s told: leftover [5 6]", "10s TERM", "15s KILL", "15s told: ended"}, Event{Code: 3}},
		"until the deadline": {Spec{OnLost: Kill}, exits(12),
			[]string{"0s runs", "10s told: leftover [5 6]", "10s TERM", "11.5s told: losing", "11.5s KILL", "11.5s told: ended"}, Event{Code: 3}},
	})
}

func TestKillIsRepeatedUntilNothingRemains(t *testing.T) {
	inWorld(t, Spec{OnLost: Kill, KillAfter: grace}, func(w *world) {
		w.leaves(5)
		w.onKill = func() []int { return []int{5} }
		w.Release(w.at(100))
		w.until(10)
		w.Lost()
		w.until(11.6)
		all := []string{
			"0s runs", "10s KILL", "10s told: denied [5]", "10.002s KILL", "10.006s KILL", "10.014s KILL", "10.03s KILL", "10.062s KILL",
			"10.126s KILL", "10.254s KILL", "10.51s KILL", "11.01s KILL", "11.51s KILL",
		}
		w.happened(all...)
		// The command dies, and its children may have become children of the keeper.
		w.change(change{signal: 9})
		w.until(11.601)
		all = append(all, "11.6s KILL")
		w.happened(all...)
		w.leaves()
		w.until(12)
		w.happened(append(all, "11.602s KILL", "11.602s told: ended")...)
		w.end(killed)
	})
}

// Fault: The keeper's parent dies, so that nobody renews the lock. The job is ended by the deadline.
func TestADeadParentsJobIsEnded(t *testing.T) {
	for policy, want := range map[Policy][]string{
		Terminate: {"0s runs", "10s terminal back", "10s TERM", "15s KILL", "15s told: ended"},
		Kill:      {"0s runs", "10s terminal back", "10s KILL", "10s told: ended"},
		Notify:    {"0s runs", "10s terminal back", "10s TERM", "15s KILL", "15s told: ended"},
		Ignore:    {"0s runs", "10s terminal back", "10s TERM", "15s KILL", "15s told: ended"},
	} {
		t.Run(string(policy), func(t *testing.T) {
			inWorld(t, Spec{OnLost: policy, KillAfter: grace}, func(w *world) {
				w.Release(w.at(100))
				w.until(10)
				w.parent.Close()
				w.until(300)
				w.happened(want...) // the end of the connection shows that the parent has died
			})
		})
	}
	// After the deadline, a job that continues without the lock gets the grace.
	for policy, c := range map[Policy]struct {
		dies float64
		want []string
	}{
		Terminate: {96, []string{"0s runs", "95s told: losing", "95s TERM", "96s terminal back", "99.5s KILL", "99.5s told: ended"}},
		Notify:    {200, []string{"0s runs", "95s told: losing", "95s USR1", "200s terminal back", "200s TERM", "205s KILL", "205s told: ended"}},
	} {
		inWorld(t, Spec{OnLost: policy, KillAfter: grace}, func(w *world) {
			w.Release(w.at(100))
			w.until(c.dies)
			w.parent.Close()
			w.until(300)
			w.happened(c.want...)
		})
	}
}

func TestSignalsAndStopsPassThrough(t *testing.T) {
	inWorld(t, Spec{OnLost: Terminate, KillAfter: grace}, func(w *world) {
		w.Release(w.at(100))
		w.until(1)
		w.Signal(2)
		w.change(change{stopped: true, signal: 19})
		w.until(2)
		w.Signal(18)
		w.until(3)
		w.exit(5)
		w.happened("0s runs", "1s signal 2", "1s told: stopped by 19", "2s signal 18", "3s told: ended")
		w.end(Event{Code: 5})
		w.Signal(2) // reaches nobody
		w.SetDeadline(w.at(200))
		w.Lost()
		w.until(300)
		w.happened("0s runs", "1s signal 2", "1s told: stopped by 19", "2s signal 18", "3s told: ended")
	})
}

// Fault: The keeper's parent does not listen, for example because it is stopped while its job is stopped and
// continued again and again. The keeper is not blocked.
func TestAParentThatDoesNotListenDoesNotBlockTheKeeper(t *testing.T) {
	inWorld(t, Spec{OnLost: Terminate, KillAfter: grace}, func(w *world) {
		w.listens <- struct{}{}
		w.Release(w.at(100))
		for i := range 1000 {
			w.change(change{stopped: true, signal: 19})
			w.until(float64(i) / 100)
		}
		w.until(300)
		w.happened("0s runs", "95s TERM", "99.5s KILL")
		<-w.listens
		w.happened("0s runs", "95s TERM", "99.5s KILL", "300s told: stopped by 19", "300s told: losing", "300s told: ended")
		w.end(killed)
	})
}

// slow is a clock that pauses for a second before and after it is read.
type slow struct{ clock }

func (c slow) now() instant {
	time.Sleep(time.Second)
	defer time.Sleep(time.Second)
	return c.clock.now()
}

func TestAPauseMakesADeadlineEarlierNeverLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{began: time.Now()}
		got := (&Job{clock: slow{w}}).toInstant(w.at(100))
		if want := instant(100*time.Second) + 1; got > want || got < want-3*second {
			t.Errorf("100s after the beginning is %s", time.Duration(got))
		}
	})
}

// Fault: A keeper does nothing and reads nothing, for example because it is stopped. It is killed. A command that was not
// to run, or no longer, is reported as not run.
func TestAKeeperThatDoesNothingIsKilled(t *testing.T) {
	released := func(f func(*Job, func(float64) time.Time)) func(*Job, func(float64) time.Time) {
		return func(j *Job, at func(float64) time.Time) { j.Release(at(100)); f(j, at) }
	}
	late := func(j *Job, at func(float64) time.Time) {
		time.Sleep(200 * time.Second)
		j.Release(at(100))
		j.SetDeadline(at(200.1)) // The keeper has given up by then.
	}
	renewed := func(j *Job, at func(float64) time.Time) {
		time.Sleep(30 * time.Second)
		j.SetDeadline(at(130))
	}
	lost := func(j *Job, _ func(float64) time.Time) {
		time.Sleep(10 * time.Second)
		j.Lost()
	}
	stubborn := func(j *Job, at func(float64) time.Time) {
		for range 1000 {
			j.Signal(15)
		}
	}
	for name, c := range map[string]struct {
		policy Policy
		what   func(*Job, func(float64) time.Time)
		want   float64 // when, in seconds; 0: never
		cause  Cause
	}{
		"terminate":               {Terminate, released(stubborn), 99.75, CauseLost},
		"terminate, renewed":      {Terminate, released(renewed), 129.75, CauseLost},
		"terminate, lost":         {Terminate, released(lost), 15.5, CauseLost},
		"terminate, lost earlier": {Terminate, lost, 15.5, CauseNotRun},
		"terminate, too late":     {Terminate, late, 200.5, CauseNotRun},
		"kill":                    {Kill, released(stubborn), 99.75, CauseLost},
		"kill, lost":              {Kill, released(lost), 10.5, CauseLost},
		"kill, lost earlier":      {Kill, lost, 10.5, CauseNotRun},
		"kill, too late":          {Kill, late, 200.5, CauseNotRun},
		"notify":                  {Notify, released(lost), 0, ""},
		"ignore":                  {Ignore, released(stubborn), 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{began: time.Now()}
				ours, theirs := net.Pipe()
				go func() {
					var o order
					_ = json.NewDecoder(theirs).Decode(&o)
					_ = json.NewEncoder(theirs).Encode(Event{Kind: ready, PIDs: []int{7}})
				}()
				var killed, cleaned float64
				l := &link{
					conn: ours, wait: func() error { return nil },
					kill:    func() { killed = time.Since(w.began).Seconds(); theirs.Close() },
					cleanUp: func(func([]int)) { cleaned = time.Since(w.began).Seconds() },
				}
				j, err := begin(l, w, Spec{OnLost: c.policy, KillAfter: grace})
				must(t, err)
				c.what(j, w.at)
				time.Sleep(time.Hour)
				synctest.Wait()
				if killed != c.want || cleaned != c.want {
					t.Errorf("killed after %v s, and its children after %v s; want %v s", killed, cleaned, c.want)
				}
				if theirs.Close(); c.want == 0 {
					return
				}
				want := Event{Kind: Ended, Signal: 9, Cause: c.cause}
				if got := <-j.Events(); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("ended with %+v, want %+v", got, want)
				}
			})
		})
	}
}

// A keeper that only waits for processes that it may not kill is left alone, although the lock is still renewed.
func TestAGuardThatHasEndedDoesNotKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{began: time.Now()}
		g := newGuard(w, Terminate, grace, func() { t.Error("the keeper was killed") })
		g.release(10 * second)
		g.end()
		g.move(20 * second)
		time.Sleep(time.Hour)
	})
}

// Ended is reported while the keeper still exits. If the keeper dies before it can report, its job is ended first.
func TestTheEndIsToldWhenNothingOfTheJobRemains(t *testing.T) {
	for name, c := range map[string]struct {
		last []Event // what the keeper sends before it exits
		at   float64 // when Ended is reported, in seconds
		want Event
	}{
		"the keeper exits": {[]Event{{Kind: Ended, Code: 3}}, 0, Event{Kind: Ended, Code: 3}},
		"the keeper dies":  {nil, 15, Event{Kind: Ended, Err: "keeper died: EOF\nkilled"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{began: time.Now()}
				ours, theirs := net.Pipe()
				go func() {
					var o order
					_ = json.NewDecoder(theirs).Decode(&o)
					enc := json.NewEncoder(theirs)
					for _, ev := range append([]Event{{Kind: ready, PIDs: []int{7}}}, c.last...) {
						_ = enc.Encode(ev)
					}
					theirs.Close()
				}()
				j, err := begin(&link{
					conn:    ours,
					wait:    func() error { time.Sleep(10 * time.Second); return errors.New("killed") },
					cleanUp: func(func([]int)) { time.Sleep(5 * time.Second) },
				}, w, Spec{OnLost: Terminate, KillAfter: grace})
				must(t, err)
				if got := <-j.Events(); fmt.Sprint(got) != fmt.Sprint(c.want) || time.Since(w.began).Seconds() != c.at {
					t.Errorf("reported after %s: %+v; want %+v after %v s", time.Since(w.began), got, c.want, c.at)
				}
				if j.Wait(); time.Since(w.began) < 10*time.Second {
					t.Errorf("Wait returned after %s", time.Since(w.began))
				}
			})
		})
	}
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
