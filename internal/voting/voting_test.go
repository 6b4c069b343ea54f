package voting

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// at is a driver of the node at that address. Nothing is sent to it.
type at struct {
	driver.Driver
	addr string
}

func (d at) Addr() string { return d.addr }

// Nobody holds a lock that too few nodes name, unless nodes that do not answer could name the same holder. Then the error tells
// what each node says.
func TestMajority(t *testing.T) {
	q := &Quorum{need: 2}
	for _, addr := range []string{"x", "y", "z"} {
		c, err := engine.New(at{addr: addr}, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.clients = append(q.clients, c)
	}
	a, b, down := &lock.Holder{Owner: "a"}, &lock.Holder{Owner: "b"}, errors.New("no route")
	for _, c := range []struct {
		named []*lock.Holder
		errs  []error
		owner string // "" for nobody
		says  []string
	}{
		{named: []*lock.Holder{a, a, b}, errs: make([]error, 3), owner: "a"},
		{named: []*lock.Holder{a, a, nil}, errs: []error{nil, nil, down}, owner: "a"},
		{named: []*lock.Holder{a, b, nil}, errs: make([]error, 3)},
		{named: []*lock.Holder{nil, nil, nil}, errs: []error{nil, nil, down}},
		{
			named: []*lock.Holder{a, nil, nil}, errs: []error{nil, nil, down},
			says: []string{"on x: it names a as the holder, and too few others do", "on z: server is unavailable: no route"},
		},
		{named: []*lock.Holder{nil, nil, nil}, errs: []error{nil, down, down}, says: []string{"on y: server is unavailable: no route", "on z: server is unavailable: no route"}},
	} {
		holders, err := q.majority("m", c.named, c.errs)
		owner := ""
		if len(holders) > 0 {
			owner = holders[0].Owner
		}
		if owner != c.owner || (err != nil) != (c.says != nil) {
			t.Errorf("%v, %v: %q, %v", c.named, c.errs, owner, err)
		}
		for _, says := range c.says {
			if !strings.Contains(err.Error(), says) || len(err.(*Error).Nodes) != len(c.says) {
				t.Errorf("%v; want %q", err, says)
			}
		}
	}
}

// unused is a driver that nothing is sent to.
type unused struct{ driver.Driver }

// The time to wait grows with the nodes' distance, and after a round without a majority. A node that hung once does not count
// as far away.
func TestNodeTimeoutIsByTheRoundTrip(t *testing.T) {
	c, err := engine.New(unused{}, &lock.Config{CommandTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	lockOf := func(opts ...kind.Option) *mutex {
		part := c.NodeLock("a", "me", opts)
		if part.Set.Err != nil {
			t.Fatal(part.Set.Err)
		}
		return &mutex{c: c, parts: []*engine.Target{part}}
	}
	l := lockOf(kind.TTL(10 * time.Second))
	q := &Quorum{nodes: make([]node, 3)}
	want := func(what string, got, want time.Duration) {
		if t.Helper(); got != want {
			t.Errorf("%s: %s; want %s", what, got, want)
		}
	}
	want("at first", q.timeout(l), 50*time.Millisecond)
	for i, trip := range []time.Duration{time.Millisecond, 40 * time.Millisecond, 2 * time.Millisecond} {
		q.observe(i, trip)
	}
	want("by the slowest", q.timeout(l), 240*time.Millisecond)
	want("after a round", q.longer(l, 240*time.Millisecond), 480*time.Millisecond)
	want("after many", q.longer(l, 1900*time.Millisecond), 2*time.Second)
	q.observe(0, 10*time.Second)
	want("after one has hung", q.timeout(l), 240*time.Millisecond)
	for range 100 {
		q.observe(1, 3*time.Second)
	}
	want("no longer than a command", q.timeout(l), 2*time.Second)
	l = lockOf(kind.TTL(time.Second))
	want("no longer than a quarter of the TTL", q.timeout(l), 250*time.Millisecond)
	l = lockOf(kind.TTL(10*time.Second), kind.NodeTimeout(3*time.Millisecond))
	want("as it is given", q.timeout(l), 3*time.Millisecond)
	want("as it is given, later", q.longer(l, 3*time.Millisecond), 3*time.Millisecond)
}
