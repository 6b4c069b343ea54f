package exec

import (
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

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
