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
	"github.com/holdfast-go/holdfast/internal/lock"
)

// outage is a fake whose scripts fail with err while that is set.
type outage struct {
	fake
	err atomic.Pointer[error]
}

func (d *outage) Run(ctx context.Context, call driver.Call) (string, error) {
	if err := d.err.Load(); err != nil {
		return "", *err
	}
	return d.fake.Run(ctx, call)
}

// Even with a RetryTimeout of an hour, Close ends acquires at once.
func TestCloseEndsAcquiresThatTryAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &outage{fake: fake{holders: map[string]string{}}}
		c := open(t, server, &lock.Config{RetryTimeout: time.Hour})
		lease := take(t, c.Mutex("a"))
		results := make(chan error)
		acquire := func(name string) {
			go func() {
				_, err := c.Mutex(name).AcquireBy(context.Background(), time.Time{})
				results <- err
			}()
			time.Sleep(10 * time.Second)
		}
		acquire("a") // queued
		gone := fmt.Errorf("%w: no route", driver.ErrNotSent)
		server.err.Store(&gone)
		acquire("b")
		begun := time.Now()
		closed := make(chan error)
		go func() { closed <- c.Close(context.Background()) }()
		for range 2 {
			if err := <-results; !errors.Is(err, exec.ErrClosed) || time.Since(begun) > time.Second {
				t.Errorf("Acquire returned %v, %s after Close", err, time.Since(begun))
			}
		}
		server.err.Store(nil)
		_ = lease.Release(t.Context())
		<-closed
	})
}

// A server repeats the arguments of a command that it does not know. An error that wraps a
// renewal's error must not show the token, however it is unwrapped.
func TestErrorsOfRenewalsHaveNoToken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &outage{fake: fake{holders: map[string]string{}}}
		c := open(t, server, nil)
		lease := take(t, c.Mutex("a"))
		var refusal error = driver.ReplyError("ERR unknown command 'evalsha', with args beginning with: 'TOKEN'")
		server.err.Store(&refusal)
		<-lease.Done()
		server.err.Store(nil)
		var look func(err error)
		look = func(err error) {
			if strings.Contains(fmt.Sprintf("%v %#v", err, err), "TOKEN") {
				t.Errorf("an error shows a token: %#v", err)
			}
			switch err := err.(type) {
			case interface{ Unwrap() error }:
				if err.Unwrap() != nil {
					look(err.Unwrap())
				}
			case interface{ Unwrap() []error }:
				for _, e := range err.Unwrap() {
					look(e)
				}
			}
		}
		look(lease.Err())
		wantErr(t, "Background", c.Close(context.Background()), nil)
	})
}

// Callers can do nothing about these errors. It would not help them to check whether the server is
// running.
func TestNothingIsAdvisedWithoutReason(t *testing.T) {
	for _, cause := range []error{errLate, lock.Unadvised("its clock jumps")} {
		err := (&exec.Failure{Op: "acquire", Name: "a", Server: "host:1", Kind: exec.ErrUnavailable, Err: cause}).Error()
		if strings.HasSuffix(err, ")") {
			t.Errorf("advice where there is no next step: %s", err)
		}
	}
}
