package redistest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestDriver(t *testing.T) {
	s := redistest.Start(t)
	drivertest.Run(t, func(*testing.T) driver.Driver { return s.Driver() }, s)
}

// A call that is not answered in time ends with its context, and its connection is not used again: the late reply would
// be taken for the next call's.
func TestALateReplyIsNobodys(t *testing.T) {
	s := redistest.Start(t)
	d := s.Driver()
	defer d.Close()
	call := driver.Call{Script: driver.NewScript("test", "return ARGV[1]"), Args: []string{"late"}}
	if _, err := d.Run(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Do("CLIENT", "PAUSE", "100000", "WRITE"); err != nil {
		t.Fatal(err)
	}
	var reply string
	var err error = driver.ErrNotSent
	for timeout := 20 * time.Millisecond; errors.Is(err, driver.ErrNotSent) && timeout < 20*time.Second; timeout *= 2 { // it may be over before the call is sent
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		reply, err = d.Run(ctx, call)
		cancel()
	}
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrNotSent) {
		t.Errorf("Run on a server that is paused returns %q, %v", reply, err)
	}
	if _, err := s.Do("CLIENT", "UNPAUSE"); err != nil {
		t.Fatal(err)
	}
	call.Args[0] = "own"
	if reply, err := d.Run(t.Context(), call); reply != "own" || err != nil {
		t.Errorf("Run returns %q, %v", reply, err)
	}
}

// A server ends with its test, and calls for it are then known not to have been sent.
func TestAServerEndsWithItsTest(t *testing.T) {
	var d *adapter.Driver
	t.Run("", func(t *testing.T) { d = redistest.Start(t).Driver() })
	if d == nil {
		t.Skip("SKIPPED: there is no server")
	}
	defer d.Close()
	if _, err := d.Run(t.Context(), driver.Call{Script: driver.NewScript("test", "return ''")}); !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("Run on a server that has ended returns %v", err)
	}
}
