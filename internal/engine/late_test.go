package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// slowly is a fake whose renewals fail after a delay, or hang.
type slowly struct {
	fake
	after atomic.Int64 // fails after that time; 0: succeeds at once
}

func (d *slowly) Run(ctx context.Context, call driver.Call) (string, error) {
	if after := time.Duration(d.after.Load()); after > 0 && call.Renews {
		time.Sleep(after)
		return "", errors.New("i/o timeout")
	}
	return d.fake.Run(ctx, call)
}

// lateWorld runs f with a client, and a new lease of lateTTL. prepare may change the client first.
func lateWorld(t *testing.T, prepare func(c *Client), f func(t *testing.T, server *slowly, c *Client, lease Lease)) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		server := &slowly{fake: fake{holders: map[string]string{}}}
		c := open(t, server, &lock.Config{CommandTimeout: time.Minute})
		prepare(c)
		lease := take(t, c.Mutex("a", kind.TTL(lateTTL)))
		f(t, server, c, lease)
		server.after.Store(0)
		_ = lease.Release(t.Context())
		wantErr(t, "Close", c.Close(t.Context()), nil)
	})
}

const lateTTL = 15 * time.Second

// blamesProcess checks that the lease was lost because this process was about that late, and that the error does not blame the
// server.
func blamesProcess(t *testing.T, lease Lease, by time.Duration) {
	t.Helper()
	var lost *lock.LostError
	err := lease.Err()
	if !errors.As(err, &lost) || lost.Reason != lock.LossExpired || lost.Err == nil || errors.Is(err, exec.ErrUnavailable) {
		t.Errorf("the lease was lost: %v", err)
		return
	}
	_, text, _ := strings.Cut(lost.Err.Error(), "this process was late: a renewal was due ")
	late, err := time.ParseDuration(strings.TrimSuffix(text, " ago"))
	if err != nil || late < by-lateTTL/10 || late > by+lateTTL/10 {
		t.Errorf("%v; want that a renewal was due about %s ago", lost, by)
	}
}

func TestAProcessThatStoodStillSaysSo(t *testing.T) {
	lateWorld(t, func(*Client) {}, func(t *testing.T, _ *slowly, c *Client, lease Lease) {
		resume := c.Suspend()
		time.Sleep(2 * lateTTL)
		resume()
		blamesProcess(t, lease, 2*lateTTL-lateTTL/3)
	})
}

// A process that stands still during a renewal notices its timeout only after the lease's deadline.
func TestATimeoutThatIsNoticedTooLateIsNoFaultOfTheServer(t *testing.T) {
	lateWorld(t, func(*Client) {}, func(t *testing.T, server *slowly, c *Client, lease Lease) {
		server.after.Store(int64(lateTTL))
		time.Sleep(lateTTL / 2) // a renewal is under way
		resume := c.Suspend()
		time.Sleep(lateTTL)
		resume()
		blamesProcess(t, lease, 17*lateTTL/18) // since it was to be tried again, 2/9 of the TTL after that
	})
}

// The renewal of a healthy server's lock waits for a goroutine that gets no processor.
func TestAProcessThatDoesNotSendSaysSo(t *testing.T) {
	stall := func(c *Client) {
		l := c.Mutex("a")
		must(t, l.Ready(context.Background()))
		c.serverOf(l).run = func(func()) {}
	}
	lateWorld(t, stall, func(t *testing.T, _ *slowly, c *Client, lease Lease) {
		time.Sleep(lateTTL / 2)
		other, err := c.Mutex("b").AcquireBy(t.Context(), time.Time{}) // the server answers
		must(t, err)
		_ = other.Release(t.Context())
		<-lease.Done()
		blamesProcess(t, lease, lateTTL-lateTTL/3)
	})
}

// Renewals that the server does not answer are no fault of this process.
func TestAServerThatHangsIsBlamed(t *testing.T) {
	lateWorld(t, func(*Client) {}, func(t *testing.T, server *slowly, c *Client, lease Lease) {
		server.after.Store(int64(time.Hour))
		var leases []Lease
		for i := range 40 {
			l := take(t, c.Mutex(fmt.Sprint(i), kind.TTL(lateTTL)))
			leases = append(leases, l)
			time.Sleep(lateTTL / 3 / 16) // renewals go one by one
		}
		for _, l := range leases {
			<-l.Done()
			var lost *lock.LostError
			if !errors.As(l.Err(), &lost) || strings.Contains(lost.Error(), "this process") {
				t.Errorf("%s: %v", l.Name(), l.Err())
			}
			_ = l.Release(t.Context())
		}
		<-lease.Done()
	})
}
