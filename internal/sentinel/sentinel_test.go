package sentinel

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// voters answer as they are told to: with an Answer, an error, or never.
func voters(says map[string]any) Ask {
	return func(ctx context.Context, addr string, others bool) (Answer, error) {
		switch says := says[addr].(type) {
		case Answer:
			if !others {
				says.Others = nil
			}
			return says, nil
		case error:
			return Answer{}, says
		}
		<-ctx.Done()
		return Answer{}, ctx.Err()
	}
}

func TestTheMajorityIsBelieved(t *testing.T) {
	gone := errors.New("gone")
	for what, c := range map[string]struct {
		says map[string]any
		want string
		in   time.Duration
	}{
		"all agree":                     {map[string]any{"1": Answer{Addr: "a"}, "2": Answer{Addr: "a"}, "3": Answer{Addr: "a"}}, "a", 0},
		"one is stale":                  {map[string]any{"1": Answer{Addr: "a"}, "2": Answer{Addr: "b"}, "3": Answer{Addr: "b"}}, "b", 0},
		"one is ahead":                  {map[string]any{"1": Answer{Addr: "a"}, "2": Answer{Addr: "a"}, "3": Answer{Addr: "b", Epoch: 7}}, "a", 0},
		"one hangs":                     {map[string]any{"2": Answer{Addr: "b"}, "3": Answer{Addr: "b"}}, "b", grace},
		"one is gone":                   {map[string]any{"1": gone, "2": Answer{Addr: "b"}, "3": Answer{Addr: "b"}}, "b", 0},
		"one hangs, and one is stale":   {map[string]any{"2": Answer{Addr: "a", Epoch: 1}, "3": Answer{Addr: "b", Epoch: 2}}, "b", grace},
		"one is gone, and one is stale": {map[string]any{"1": gone, "2": Answer{Addr: "b", Epoch: 2}, "3": Answer{Addr: "a", Epoch: 1}}, "b", 0},
		"one answers":                   {map[string]any{"1": gone, "2": gone, "3": Answer{Addr: "a"}}, "a", 0},
		"one answers, the others hang":  {map[string]any{"3": Answer{Addr: "a"}}, "a", Patience},
		"none answers":                  {map[string]any{"1": gone}, "", Patience},
		"all are gone":                  {map[string]any{"1": gone, "2": gone, "3": gone}, "", 0},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := New([]string{"1", "2", "3"}, voters(c.says))
				defer time.Sleep(time.Minute) // until nobody is asked any more
				began := time.Now()
				got, err := g.Master(t.Context())
				if got != c.want || (err == nil) != (c.want != "") || time.Since(began) != c.in {
					t.Errorf("%q, %v, after %s; want %q after %s", got, err, time.Since(began), c.want, c.in)
				}
			})
		})
	}
}

// One that hangs is not asked again while it is being asked.
func TestWhoHangsIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		defer time.Sleep(time.Minute)
		g := New([]string{"1", "2", "3"}, func(ctx context.Context, addr string, _ bool) (Answer, error) {
			if addr != "1" {
				return Answer{Addr: "a"}, nil
			}
			asked.Add(1)
			<-ctx.Done()
			return Answer{}, ctx.Err()
		})
		for range 10 {
			if got, err := g.Master(t.Context()); got != "a" {
				t.Errorf("%q, %v", got, err)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

// Where only one sentinel was named to us, it is asked for the others, which are heard the next time.
func TestOtherSentinelsAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		says := map[string]any{
			"1": Answer{Addr: "a", Others: []string{"2", "3"}},
			"2": Answer{Addr: "a", Others: []string{"9"}},
			"3": Answer{Addr: "a"},
		}
		g := New([]string{"1"}, voters(says))
		if got, err := g.Master(t.Context()); got != "a" {
			t.Errorf("%q, %v", got, err)
		}
		says["2"], says["3"] = Answer{Addr: "b", Others: []string{"9"}}, Answer{Addr: "b"}
		if got, err := g.Master(t.Context()); got != "b" {
			t.Errorf("%q, %v", got, err)
		}
		if len(g.members) != 3 {
			t.Errorf("%d sentinels are known", len(g.members))
		}
	})
}
