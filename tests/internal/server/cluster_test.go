package server

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/resp"
)

func TestStartCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: part of make nightly")
	}
	for _, bin := range Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			nodes := StartCluster(t, bin, 3)
			// The slot of "foo" is 12182, in the last third.
			expect(t, nodes[2], "OK", "SET", "foo", "bar")
			_, err := nodes[0].Do("GET", "foo")
			if want := "MOVED 12182 " + nodes[2].Addr(); !errors.Is(err, resp.Error(want)) {
				t.Errorf("asked the wrong node: %v; want %s", err, want)
			}
		})
	}
}

func TestSlotsOfCoverAll(t *testing.T) {
	for n := 1; n <= 7; n++ {
		next := 0
		for i := range n {
			for _, slot := range slotsOf(i, n)[2:] {
				if slot != next {
					t.Fatalf("server %d of %d gets slot %v, not %d", i, n, slot, next)
				}
				next++
			}
		}
		if next != slots {
			t.Errorf("%d servers have %d slots", n, next)
		}
	}
}

func TestStartSentinel(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: part of make nightly")
	}
	for _, bin := range Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			g := StartSentinel(t, bin)
			master := func() string {
				reply, err := g.Sentinel.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", g.Name)
				if err != nil {
					t.Fatal(err)
				}
				var parts []string
				for _, part := range reply.([]any) {
					parts = append(parts, part.(string))
				}
				return strings.Join(parts, ":")
			}
			if got := master(); got != g.Master.Addr() {
				t.Fatalf("the sentinel names %s as master, not %s", got, g.Master.Addr())
			}
			c, err := g.Master.Dial()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, command := range [][]any{{"SET", "key", "value"}, {"WAIT", 1, 5000}} {
				if reply, err := c.Do(command...); err != nil || reply == int64(0) {
					t.Fatalf("%v: %v, %v", command, reply, err)
				}
			}
			g.Master.Kill()
			for deadline := time.Now().Add(agreeTimeout); master() != g.Replica.Addr(); {
				if time.Now().After(deadline) {
					t.Fatalf("no failover within %s", agreeTimeout)
				}
				time.Sleep(20 * time.Millisecond)
			}
			expect(t, g.Replica, "value", "GET", "key")
		})
	}
}
