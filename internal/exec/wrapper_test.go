package exec

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// able is a driver with all optional interfaces, none of which is used, and wrapper passes everything on to it.
type (
	able    struct{ driver.Driver }
	wrapper struct{ driver.Driver }
)

func (a *able) RunDurably(context.Context, driver.Call, driver.Durability) (string, driver.Confirmation, error) {
	return "", driver.Confirmation{}, nil
}
func (a *able) Node(key string) string { return "node of " + key }

func (w wrapper) Unwrap() driver.Driver { return w.Driver }

// unlike is a Connector that cannot be compared, and says that it is itself.
type unlike struct {
	driver.Driver
	driver.Connector
	_ []int
}

func (u unlike) Connects() driver.Driver { return u }

func TestADriverThatCannotBeComparedHasNoPipe(t *testing.T) {
	if p := New(unlike{}, Config{}).Pipe("k"); p != nil {
		t.Errorf("%v", p)
	}
}

func TestAServerSeesThroughWrappers(t *testing.T) {
	inner := &able{}
	s := New(wrapper{wrapper{inner}}, Config{})
	if !s.CanConfirm() || s.Node("k") != "node of k" {
		t.Errorf("confirms: %t; node: %q", s.CanConfirm(), s.Node("k"))
	}
	s = New(wrapper{struct{ driver.Driver }{inner}}, Config{})
	if s.CanConfirm() || s.Node("k") != "" {
		t.Errorf("a driver that cannot: confirms: %t; node: %q", s.CanConfirm(), s.Node("k"))
	}
}
