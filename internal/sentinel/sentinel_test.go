package sentinel

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// ask asks the sentinel at an address.
type ask = func(ctx context.Context, addr string, others bool) (Answer, error)

// newGroup returns a group of sentinels that are asked by ask.
func newGroup(sentinels []string, ask ask) *Group {
	g := New("main", sentinels, nil)
	g.askOne = func(ctx context.Context, m *member, others bool) (Answer, error) { return ask(ctx, m.addr, others) }
	return g
}

// scripted returns an ask that answers with an address's Answer or error. A sentinel that has neither hangs.
func scripted(answers map[string]any) ask {
	return func(ctx context.Context, addr string, others bool) (Answer, error) {
		switch answer := answers[addr].(type) {
		case Answer:
			if !others {
				answer.Others = nil
			}
			return answer, nil
		case error:
			return Answer{}, answer
		}
		<-ctx.Done()
		return Answer{}, ctx.Err()
	}
}

func TestTheMajorityDecides(t *testing.T) {
	down := errors.New("down")
	for name, c := range map[string]struct {
		answers map[string]any
		want    string
		after   time.Duration
	}{
		"all agree":                {map[string]any{"1": Answer{Addr: "a"}, "2": Answer{Addr: "a"}, "3": Answer{Addr: "a"}}, "a", 0},
		"one is stale":             {map[string]any{"1": Answer{Addr: "a"}, "2": Answer{Addr: "b"}, "3": Answer{Addr: "b"}}, "b", 0},
		"one is ahead":             {map[string]any{"1": Answer{Addr: "a"}, "2": Answer{Addr: "a"}, "3": Answer{Addr: "b", Epoch: 7}}, "a", 0},
		"one hangs":                {map[string]any{"2": Answer{Addr: "b"}, "3": Answer{Addr: "b"}}, "b", grace},
		"one is down":              {map[string]any{"1": down, "2": Answer{Addr: "b"}, "3": Answer{Addr: "b"}}, "b", 0},
		"one hangs, one is stale":  {map[string]any{"2": Answer{Addr: "a", Epoch: 1}, "3": Answer{Addr: "b", Epoch: 2}}, "b", grace},
		"one is down, one stale":   {map[string]any{"1": down, "2": Answer{Addr: "b", Epoch: 2}, "3": Answer{Addr: "a", Epoch: 1}}, "b", 0},
		"two are down":             {map[string]any{"1": down, "2": down, "3": Answer{Addr: "a"}}, "a", 0},
		"two hang":                 {map[string]any{"3": Answer{Addr: "a"}}, "a", Timeout},
		"one is down, others hang": {map[string]any{"1": down}, "", Timeout},
		"all are down":             {map[string]any{"1": down, "2": down, "3": down}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGroup([]string{"1", "2", "3"}, scripted(c.answers))
				defer time.Sleep(time.Minute) // until no sentinel is being asked
				began := time.Now()
				got, err := g.Master(t.Context())
				if got != c.want || (err == nil) != (c.want != "") || time.Since(began) != c.after {
					t.Errorf("Master = %q, %v after %s; want %q after %s", got, err, time.Since(began), c.want, c.after)
				}
			})
		})
	}
}

func TestASentinelThatHangsIsNotAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		defer time.Sleep(time.Minute)
		g := newGroup([]string{"1", "2", "3"}, func(ctx context.Context, addr string, _ bool) (Answer, error) {
			if addr != "1" {
				return Answer{Addr: "a"}, nil
			}
			asked.Add(1)
			<-ctx.Done()
			return Answer{}, ctx.Err()
		})
		for range 10 {
			if got, err := g.Master(t.Context()); got != "a" {
				t.Errorf("Master = %q, %v; want %q", got, err, "a")
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("the sentinel was asked %d times, want 1", n)
		}
	})
}

// A sentinel that is configured alone is asked for others, which are asked from the next round on.
func TestOtherSentinelsAreDiscovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := map[string]any{
			"1": Answer{Addr: "a", Others: []string{"2", "3"}},
			"2": Answer{Addr: "a", Others: []string{"9"}},
			"3": Answer{Addr: "a"},
		}
		g := newGroup([]string{"1"}, scripted(answers))
		if got, err := g.Master(t.Context()); got != "a" {
			t.Errorf("Master = %q, %v; want %q", got, err, "a")
		}
		answers["2"], answers["3"] = Answer{Addr: "b", Others: []string{"9"}}, Answer{Addr: "b"}
		time.Sleep(time.Second)
		if got, err := g.Master(t.Context()); got != "b" {
			t.Errorf("Master = %q, %v; want %q", got, err, "b")
		}
		if len(g.members) != 3 {
			t.Errorf("%d sentinels are known, want 3", len(g.members))
		}
	})
}

// Only what no sentinel can mend is hopeless. Addresses at which the same is wrong are named together.
func TestMistakesAreNamed(t *testing.T) {
	down, unknown := errors.New("down"), UnknownMaster("mian", []string{"main"})
	const server, name = "a Redis server, not a sentinel", `no master is called "mian"; there is "main"`
	for what, c := range map[string]struct {
		answers  map[string]any
		says     string // the error, after its beginning
		hopeless bool
		mistakes string
	}{
		"a name":                {map[string]any{"1": unknown, "2": unknown, "3": unknown}, "1, 2, 3: " + name, true, "1, 2, 3: " + name},
		"an address":            {map[string]any{"1": Answer{Addr: "a"}, "2": errServer, "3": Answer{Addr: "a"}}, "", false, "2: " + server},
		"a name and an address": {map[string]any{"1": unknown, "2": errServer, "3": unknown}, name, true, server},
		"one is down":           {map[string]any{"1": unknown, "2": unknown, "3": down}, "3: down", false, "1, 2: " + name},
		"one hangs":             {map[string]any{"1": unknown, "2": unknown}, "1, 2: " + name + "; others did not answer within 500ms", false, "1, 2: " + name},
		"all hang":              {nil, "none answered within 500ms", false, ""},
		"nothing":               {map[string]any{"1": Answer{Addr: "a"}, "2": Answer{Addr: "a"}, "3": down}, "", false, ""},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer time.Sleep(time.Minute)
				g := newGroup([]string{"1", "2", "3"}, scripted(c.answers))
				_, err := g.Master(t.Context())
				var named *noMaster
				if errors.As(err, &named) != (c.says != "") {
					t.Fatalf("Master: %v", err)
				}
				if named != nil && (IsHopeless(err) != c.hopeless || !strings.HasPrefix(err.Error(), "no sentinel named the master: ") || !strings.Contains(err.Error(), c.says)) {
					t.Errorf("hopeless: %t: %v", IsHopeless(err), err)
				}
				if got := g.Mistakes(); !strings.Contains(got, c.mistakes) || (got == "") != (c.mistakes == "") {
					t.Errorf("mistakes: %q", got)
				}
			})
		})
	}
}

// If an address is wrong, too, the next step is about the name: the address may be one of many.
func TestAWrongNameIsToBeCorrectedFirst(t *testing.T) {
	name, address := reply{err: UnknownMaster("mian", []string{"main"})}, reply{err: errServer}
	for _, failed := range [][]reply{{name, address}, {address, name}} {
		var adviser interface {
			error
			Advice() string
		}
		if !errors.As(&noMaster{failed: failed}, &adviser) || adviser.Advice() != " (correct the master's name)" {
			t.Errorf("the next step is%s", adviser.Advice())
		}
	}
}

// A sentinel that is mended is no longer named.
func TestMistakesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := map[string]any{"1": Answer{Addr: "a"}, "2": Answer{Addr: "a"}, "3": errServer}
		g := newGroup([]string{"1", "2", "3"}, scripted(answers))
		for _, want := range []bool{true, false} {
			if got, err := g.Master(t.Context()); got != "a" || (g.Mistakes() != "") != want {
				t.Errorf("Master = %q, %v; mistakes: %q", got, err, g.Mistakes())
			}
			answers["3"] = Answer{Addr: "a"}
			time.Sleep(time.Second)
		}
	})
}
