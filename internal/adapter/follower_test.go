package adapter

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/internal/sentinel"
)

// Fault: A master behind Sentinel is down, and all dials of a client fail at once. It asks each sentinel ten times a second
// at most.
func TestSentinelsAreNotAskedAsOftenAsDialsFail(t *testing.T) {
	down := errors.New("down")
	for name, answer := range map[string]resp.Reply{"they name a master": {Value: []any{"a", "1"}}, "they are down": {Err: down}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int64
				d := New(Library{Addrs: []string{"1", "2", "3"}, GreetSentinel: func(context.Context, string, Dial) (Greeting, error) { return Greeting{}, down }})
				defer d.Close()
				d.follower.group = sentinel.New("main", d.lib.Addrs, func(string) resp.Sender {
					return func(_ context.Context, commands ...resp.Command) []resp.Reply {
						if commands[0].Words[1] == "get-master-addr-by-name" {
							asked.Add(1)
						}
						return []resp.Reply{answer}
					}
				})
				var dials sync.WaitGroup
				for begun := time.Now(); time.Since(begun) < 2999*time.Millisecond; time.Sleep(time.Millisecond) {
					for range 8 {
						dials.Go(func() {
							got, err := d.locate(t.Context(), "")
							if (err == nil) != (answer.Err == nil) || err == nil && got != "a:1" {
								t.Errorf("%q, %v", got, err)
							}
							d.Failed(notSent(down))
						})
					}
				}
				if n := asked.Load(); n != 3*30 {
					t.Errorf("three sentinels were asked %d times in three seconds, want 90", n)
				}
				dials.Wait()
				_ = d.Close()
				if _, err := d.locate(t.Context(), ""); answer.Err != nil && !errors.Is(err, net.ErrClosed) {
					t.Errorf("of a driver that is closed: %v", err)
				}
			})
		})
	}
}
