package voting

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
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
