//go:build unix

package processes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/history"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// partyTTL is how long a waiter may have to wait for a dead party.
const partyTTL = 5 * time.Second

// say prints a line for the test.
func say(word string, number uint64) { fmt.Println(os.Getpid(), word, number) }

// counts is a party of the latch "a". It says "joined", and, told to by a signal, "counting",
// counts down some time within D, and says "counted": each with the time of history.Now.
//
//	counts ADDR PARTIES D
func counts(args []string) {
	parties, err := strconv.Atoi(args[1])
	must(err)
	d, err := time.ParseDuration(args[2])
	must(err)
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGUSR1)
	c := dial(args[0])
	l := c.Latch("a", parties, holdfast.TTL(partyTTL))
	party, err := l.Register(context.Background())
	for errors.Is(err, holdfast.ErrUnavailable) { // for so many at once
		party, err = l.Register(context.Background())
	}
	must(err)
	say("joined", uint64(history.Now()))
	<-told
	time.Sleep(rand.N(d))
	say("counting", uint64(history.Now()))
	switch err := party.CountDown(context.Background()); {
	case errors.Is(err, holdfast.ErrLost): // the machine stood still
		say("lost", uint64(history.Now()))
	default:
		must(err)
		say("counted", uint64(history.Now()))
	}
	must(c.Close(context.Background()))
}

// plague returns how many of a crowd die in what time, and the program that they run.
func plague(t *testing.T) (program string, deaths int, d time.Duration) {
	if soak.Long() {
		return light(t), 100, time.Minute
	}
	return os.Args[0], 20, 5 * time.Second
}

// Fault: Parties of a latch are killed. A waiter waits until every party has counted down, or has died and its lease
// is over, and is told how many are missing.
func TestLatchOfACrowdThatDies(t *testing.T) {
	t.Parallel()
	inTurn(t, func(t *testing.T, b *backend.Backend) {
		const survivors = 6
		program, deaths, d := plague(t)
		size := deaths + survivors
		c := gather(t, program, "counts", size, b.Server.Addr(), strconv.Itoa(size), (d / 2).String())
		state := map[int]saying{} // the latest of each
		counting := map[int]uint64{}
		hear := func(s saying) {
			i := c.number[s.pid]
			state[i] = s
			if s.word == "counting" {
				counting[i] = s.number
			}
		}
		for len(state) < size {
			select {
			case s := <-c.said:
				hear(s)
			case <-time.After(2 * time.Minute):
				t.Fatalf("%d of %d have joined", len(state), size)
			}
		}
		latch := b.Client(t, nil).Latch("a", size)
		over := make(chan error, 1)
		var opened time.Time
		var openedAt int64
		go func() {
			err := latch.Wait(t.Context())
			opened, openedAt = time.Now(), history.Now()
			over <- err
		}()
		// The parties that die get the order to count down when the storm begins, the others when half of it is over, so
		// that some of them are last.
		tell := func(i int) { _ = c.members[i].Process.Signal(syscall.SIGUSR1) }
		var last time.Time
		end := time.Now().Add(d)
		die := make(chan int, deaths)
		for i := range size {
			if i < deaths {
				tell(i)
				time.AfterFunc(rand.N(d), func() { die <- i })
			} else {
				time.AfterFunc(d/2, func() { tell(i) })
			}
		}
		said := c.said
		killed := map[int]bool{}
		for left := survivors; left > 0 || len(killed) < deaths; {
			select {
			case i := <-die:
				c.kill(i)
				killed[i], last = true, time.Now()
			case s, more := <-said:
				if !more { // all have ended, and some should still be killed
					said = nil
					continue
				}
				hear(s)
				if i := c.number[s.pid]; i >= deaths && (s.word == "counted" || s.word == "lost") {
					left--
					last = time.Now()
				}
			case <-time.After(time.Until(end) + time.Minute):
				t.Fatal("the survivors do not count down")
			}
		}
		err := within(t, over)
		heldUp := machine.HeldUp(last)
		for s := range c.said {
			hear(s)
		}
		for i, cmd := range c.members {
			if err := cmd.Wait(); err != nil && i >= deaths {
				t.Errorf("process %d: %v", i, err)
			}
		}
		var least, most, survived int // missing parties
		for i := range size {
			switch s := state[i]; {
			case s.word == "counted" && i < deaths:
				survived++
			case s.word == "lost":
				least++
				most++
			case s.word == "joined":
				least++
				most++
			case s.word == "counting":
				most++
			}
			if i >= deaths && openedAt < int64(counting[i]) {
				t.Errorf("it opens %s before survivor %d counts down", time.Duration(int64(counting[i])-openedAt), i)
			}
		}
		missing := 0
		if incomplete := (*holdfast.LatchIncompleteError)(nil); errors.As(err, &incomplete) {
			missing = incomplete.Missing
		} else if err != nil {
			t.Errorf("Wait: %v", err)
		}
		t.Logf("%d parties, of which %d were killed within %s, %d of them after they had counted down; %d are missing; open %s after the last of all",
			size, deaths, d, survived, missing, opened.Sub(last).Round(time.Millisecond))
		if missing < least || missing > most {
			t.Errorf("%d are missing; of those killed, %d to %d have not counted down", missing, least, most)
		}
		if late := opened.Sub(last); late > partyTTL+3*time.Second+2*heldUp {
			t.Errorf("it opens %s after the last of all; leases are over after %s\n%s", late, partyTTL, machine.Report(last))
		}
		if n := b.Redis(t).HLen(t.Context(), "holdfast:{a}").Val(); n > 12 {
			t.Errorf("the latch has %d fields", n)
		}
	})
}

// within waits for a waiter's outcome.
func within(t *testing.T, over <-chan error) error {
	t.Helper()
	select {
	case err := <-over:
		return err
	case <-time.After(time.Minute):
		t.Fatal("the waiter was not woken within a minute")
		return nil
	}
}

// arrives is a party of the barrier "a". It says "awaits N" each time, and then "passed PHASE"
// or "broken PHASE"; "lost", and ends, if its lease is. A signal ends it, too.
//
//	arrives ADDR PARTIES
func arrives(args []string) {
	parties, err := strconv.Atoi(args[1])
	must(err)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c := dial(args[0])
	barrier := c.Barrier("a", parties, holdfast.TTL(partyTTL))
	party, err := barrier.Join(ctx)
	for errors.Is(err, holdfast.ErrUnavailable) { // for so many at once
		party, err = barrier.Join(ctx)
	}
	must(err)
	var broken *holdfast.BarrierBrokenError
	for n := uint64(1); ; n++ {
		say("awaits", n)
		switch phase, err := party.Await(ctx); {
		case err == nil:
			say("passed", phase)
		case errors.As(err, &broken):
			say("broken", broken.Phase)
		case errors.Is(err, holdfast.ErrLost): // the machine stood still
			say("lost", n)
			must(c.Close(context.Background()))
			return
		case ctx.Err() != nil:
			_ = party.Leave(context.Background())
			must(c.Close(context.Background()))
			return
		case errors.Is(err, holdfast.ErrUnavailable): // for so many at once; the arrival is taken back
		default:
			must(err)
		}
		time.Sleep(rand.N(20 * time.Millisecond))
	}
}

// gate is what the parties of a barrier have reported.
type gate struct {
	t       *testing.T
	parties int
	latest  map[int]saying          // outcome of each process
	awaits  map[int]int             // position of its latest "awaits" in all reports
	passed  map[uint64]map[int]bool // by phase
	first   map[uint64]int          // position of the first that passed
	broken  map[uint64]int          // by phase: how many were told
	said    int
}

// hear checks a report against what others have reported.
func (g *gate) hear(s saying) {
	pid := s.pid
	g.said++
	switch last, again := g.latest[pid]; {
	case s.word == "awaits":
		g.awaits[pid] = g.said
		return
	case s.word == "lost":
		return
	case again && s.number <= last.number:
		g.t.Errorf("process %d: phase %d %s after phase %d %s", pid, s.number, s.word, last.number, last.word)
	case again && last.word == "passed" && s.number != last.number+1:
		g.t.Errorf("process %d has passed phase %d, and is then told of phase %d", pid, last.number, s.number)
	}
	g.latest[pid] = s
	if s.word == "broken" {
		g.broken[s.number]++
	} else {
		if g.passed[s.number] == nil {
			g.passed[s.number], g.first[s.number] = map[int]bool{}, g.said
		}
		g.passed[s.number][pid] = true
		if g.awaits[pid] > g.first[s.number] {
			g.t.Errorf("phase %d was passed before process %d had arrived", s.number, pid)
		}
	}
	if g.broken[s.number] > 0 && len(g.passed[s.number]) > 0 {
		g.t.Errorf("phase %d has broken for some, and others have passed it", s.number)
	}
	if n := len(g.passed[s.number]); n > g.parties {
		g.t.Errorf("%d have passed phase %d", n, s.number)
	}
}

// recovered reports whether a phase was broken, and a later one passed.
func (g *gate) recovered() bool {
	var broken, passed uint64
	for phase := range g.broken {
		broken = max(broken, phase)
	}
	for phase := range g.passed {
		passed = max(passed, phase)
	}
	return 0 < broken && broken < passed
}

// Fault: Parties of a barrier are killed, and waiters take their places. No phase is passed by some and broken for
// others, none is passed before all have arrived, and the survivors go on.
func TestBarrierOfACrowdThatDies(t *testing.T) {
	t.Parallel()
	inTurn(t, func(t *testing.T, b *backend.Backend) {
		const parties = 6
		program, deaths, d := plague(t)
		size := deaths + parties
		c := gather(t, program, "arrives", size, b.Server.Addr(), strconv.Itoa(parties))
		g := &gate{
			t: t, parties: parties, latest: map[int]saying{}, awaits: map[int]int{},
			passed: map[uint64]map[int]bool{}, first: map[uint64]int{}, broken: map[uint64]int{},
		}
		fate := map[int]bool{} // those that are killed
		lost := 0
		hear := func(s saying) {
			g.hear(s)
			if s.word == "lost" && !fate[c.number[s.pid]] {
				lost++
			}
		}
		// The storm begins when all parties have told of the first phase.
		for len(g.latest) < parties && lost == 0 {
			select {
			case s := <-c.said:
				hear(s)
			case <-time.After(2 * time.Minute):
				t.Fatal("no phase comes to its end")
			}
		}
		// In each half, some of the present parties die, and some waiters. The second half begins once a phase is passed
		// again. So each half breaks a phase, even if a machine stalls and all its deaths fall into one phase.
		for range 2 {
			var present, waiting []int
			for _, i := range rand.Perm(size) {
				if _, in := g.latest[c.members[i].Process.Pid]; fate[i] {
					continue
				} else if in {
					present = append(present, i)
				} else {
					waiting = append(waiting, i)
				}
			}
			some := min(len(present), parties/2)
			half := slices.Concat(present[:some], waiting, present[some:])[:deaths/2]
			die := make(chan int, len(half))
			for _, i := range half {
				fate[i] = true
				time.AfterFunc(rand.N(d/2), func() { die <- i })
			}
			stuck := time.After(d + time.Minute)
			for killed := 0; killed < len(half) || !g.recovered() && lost == 0; {
				select {
				case s := <-c.said:
					hear(s)
				case i := <-die:
					c.kill(i)
					killed++
				case <-stuck:
					t.Fatal("no phase is passed after the deaths")
				}
			}
		}
		last, newest := time.Now(), uint64(0)
		for _, s := range g.latest {
			newest = max(newest, s.number)
		}
		const further = 2 // how many phases every survivor must still pass
		proceeded, phases := map[int]bool{}, map[int]int{}
		var took time.Duration
		for deadline := time.After(2 * time.Minute); len(proceeded) < parties && lost == 0; {
			select {
			case s := <-c.said:
				hear(s)
				if s.word != "passed" || s.number <= newest || fate[c.number[s.pid]] {
					continue
				}
				if phases[s.pid]++; phases[s.pid] == further {
					proceeded[s.pid] = true
					took = time.Since(last)
				}
			case <-deadline:
				t.Fatalf("only %d of %d survivors go on\n%s", len(proceeded), parties, machine.Report(last))
			}
		}
		t.Logf("%d processes, %d killed within %s: %d phases passed, %d broken; all %d survivors have passed %d more %s after the last; %d have lost their leases",
			size, deaths, d, len(g.passed), len(g.broken), len(proceeded), further, took.Round(time.Millisecond), lost)
		if len(g.passed) < 3 || len(g.broken) < 2 {
			t.Errorf("the test is not what it seems: %d phases passed, %d broken", len(g.passed), len(g.broken))
		}
		for _, cmd := range c.members {
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
		for s := range c.said {
			hear(s)
		}
		for i, cmd := range c.members {
			if err := cmd.Wait(); err != nil && !fate[i] {
				t.Errorf("process %d: %v", i, err)
			}
		}
		backend.Eventually(t, "nothing is left", func() bool {
			return len(b.Keys(t)) == 0 && len(backend.Channels(t, b.Redis(t))) == 0
		})
	})
}
