package drivertest_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

// plain leaves everything to the driver that it wraps.
type plain struct{ driver.Driver }

func (p plain) Unwrap() driver.Driver { return p.Driver }

// counter sees every call.
type counter struct {
	driver.Driver
	calls *atomic.Int64
}

func (c counter) Unwrap() driver.Driver { return c.Driver }

func (c counter) Run(ctx context.Context, call driver.Call) (string, error) {
	c.calls.Add(1)
	return c.Driver.Run(ctx, call)
}

func (c counter) RunAll(ctx context.Context, calls []driver.Call, tell func(int, string, error)) {
	c.calls.Add(int64(len(calls)))
	inner, _ := driver.As[driver.Batcher](c.Driver)
	inner.RunAll(ctx, calls, tell)
}

func (c counter) RunDurably(ctx context.Context, call driver.Call, d driver.Durability) (string, driver.Confirmation, error) {
	c.calls.Add(1)
	inner, _ := driver.As[driver.Durable](c.Driver)
	return inner.RunDurably(ctx, call, d)
}

func TestWrappersHideNothing(t *testing.T) {
	var calls atomic.Int64
	drivertest.RunWrapper(t, func(d driver.Driver) driver.Driver { return plain{counter{plain{d}, &calls}} })
	if got := calls.Load(); got != 1+2+1+1 { // Run, RunAll of two and RunDurably; then Run
		t.Errorf("%d calls were counted", got)
	}
}

// forgetful has no Unwrap.
type forgetful struct{ driver.Driver }

// claimant has none either, and is a Batcher whatever it wraps.
type claimant struct{ driver.Driver }

func (c claimant) RunAll(ctx context.Context, calls []driver.Call, tell func(int, string, error)) {
	for i, call := range calls {
		reply, err := c.Run(ctx, call)
		tell(i, reply, err)
	}
}

// RunWrapper finds wrappers that hide something. It runs in a process of its own, since it has to fail.
func TestRunWrapperFails(t *testing.T) {
	wrappers := map[string]func(driver.Driver) driver.Driver{
		"forgetful": func(d driver.Driver) driver.Driver { return forgetful{d} },
		"claimant":  func(d driver.Driver) driver.Driver { return claimant{d} },
	}
	if which := os.Getenv("HOLDFAST_WRAPPER"); which != "" {
		drivertest.RunWrapper(t, wrappers[which])
		return
	}
	for which, wants := range map[string][]string{
		"forgetful": {"hides that the driver is a driver.Batcher", "hides that the driver is a driver.Durable", "hides that the driver is a driver.Cluster"},
		"claimant":  {"hides that the driver is a driver.Cluster", "is a driver.Batcher although the driver is not"},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestRunWrapperFails$")
		cmd.Env = append(os.Environ(), "HOLDFAST_WRAPPER="+which)
		out, err := cmd.CombinedOutput()
		for _, want := range wants {
			if err == nil || !strings.Contains(string(out), want) {
				t.Errorf("%s: %v; RunWrapper does not say %q:\n%s", which, err, want, out)
			}
		}
	}
}
