package behaviour

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// Whoever is told of a holder is told the same grant id: the beginning of the token in the lock's value. The next grant has
// another.
func TestGrantID(t *testing.T) {
	t.Parallel()
	for kind, lock := range breakable {
		t.Run(kind, func(t *testing.T) {
			backend.Each(t, func(t *testing.T, b *backend.Backend) {
				queued := make(chan holdfast.Holder, 2)
				observer := &holdfast.Observer{AcquireQueued: func(_ context.Context, e holdfast.AcquireEvent) { queued <- e.Holder }}
				ttl := holdfast.TTL(time.Hour)
				own := make(chan string, 2)
				holders := &holdfast.Observer{
					AcquireQueued: observer.AcquireQueued,
					AcquireEnd: func(_ context.Context, e holdfast.AcquireEvent) {
						if e.Err == nil {
							own <- e.Grant
						}
					},
					Released: func(_ context.Context, e holdfast.LeaseEvent) { own <- e.Grant },
				}
				c, other := b.Client(t, &holdfast.Config{Observers: []*holdfast.Observer{holders}}), b.Client(t, &holdfast.Config{Observers: []*holdfast.Observer{observer}})
				lease := backend.Acquire(t, lock(c, ttl))
				seen := backend.Seen(t, inspect.New(other), lease.Name(), lease.Fence())
				if len(seen.Grant) != 8 {
					t.Fatalf("the grant id is %q", seen.Grant)
				}
				same := func(who string, h holdfast.Holder) {
					t.Helper()
					expect.Equal(t, "the grant that "+who+" is told of", h.Grant, seen.Grant)
				}
				s, err := lock(other, ttl).Status(t.Context())
				expect.OK(t, err)
				h, _ := s.Holder()
				same("who asks for the status", h)
				_, err = next(kind, other, ttl).TryAcquire(t.Context())
				var held *holdfast.HeldError
				if !errors.As(err, &held) {
					t.Fatalf("TryAcquire: %v", err)
				}
				same("who tries", held.Holder)
				leases := backend.Start(t, next(kind, other, ttl))
				same("a waiter's observer", <-queued)
				if kind == "mutex" {
					if value := b.Redis(t).Get(t.Context(), "holdfast:{a}").Val(); !strings.HasPrefix(value, "hf2:"+seen.Grant) {
						t.Errorf("the value is %q, the grant id %q", value, seen.Grant)
					}
					ctx, cancel := context.WithCancel(t.Context())
					ended := async(func() error { return expect.ErrOf(lock(c, ttl).Acquire(ctx)) })
					same("an observer in the holder's process", <-queued)
					cancel()
					expect.Err(t, "an acquire that was given up", <-ended, context.Canceled)
				}
				backend.Release(t, lease)
				for _, when := range []string{"acquired", "released"} {
					expect.Equal(t, "the grant that the holder's observer is told was "+when, <-own, seen.Grant)
				}
				got := backend.Receive(t, leases)
				if after := backend.Seen(t, inspect.New(other), got.Name(), got.Fence()); len(after.Grant) != 8 || after.Grant == seen.Grant {
					t.Errorf("the grant id %q follows %q", after.Grant, seen.Grant)
				}
				backend.Release(t, got)
			})
		})
	}
}

// A grant whose fence is not known at first is the same when it is: nothing has happened to the lock.
func TestAFenceThatBecomesKnownIsNoChange(t *testing.T) {
	backend.Virtual(t, func(t *testing.T, b *backend.Backend) {
		rdb := b.Redis(t)
		hold := func(fence string) {
			rdb.Set(t.Context(), "holdfast:{young}", "hf2:k3v9x2abQEFBgcICQoLDA0:"+fence+`:1700000000000:0:{"o":"ann"}`, time.Hour)
		}
		hold("0")
		in := inspect.New(b.Client(t, nil))
		var seen []string
		for e, err := range in.Watch(t.Context(), "young") {
			expect.OK(t, err)
			h, _ := e.Status.Holder()
			seen = append(seen, fmt.Sprintf("%s %s %d", e.Type, h.Grant, h.Fence))
			if len(seen) == 2 {
				break
			}
			go func() {
				hold("17")
				time.Sleep(4500 * time.Millisecond) // there are looks meanwhile, but none just then
				rdb.ZAdd(t.Context(), "holdfast:{young}:q", redis.Z{Score: float64(time.Now().UnixMicro()), Member: "token\n30000\nnowhere\n{}"})
			}()
		}
		expect.Same(t, "Watch tells of", seen, []string{"present k3v9x2ab 0", "queued k3v9x2ab 17"})
	})
}
