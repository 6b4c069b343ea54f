package backend

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// Locked is anything that has a status: a lock, a latch, an election and so on.
type Locked interface {
	Status(ctx context.Context) (holdfast.Status, error)
}

// HolderOf returns a holder of the lock, or holdfast.ErrNotHeld if there is none.
func HolderOf(ctx context.Context, l Locked) (holdfast.Holder, error) {
	s, err := l.Status(ctx)
	if err != nil {
		return holdfast.Holder{}, err
	}
	h, held := s.Holder()
	if !held {
		return h, holdfast.ErrNotHeld
	}
	return h, nil
}

// HoldersOf returns all holders of a lock.
func HoldersOf(ctx context.Context, l Locked) ([]holdfast.Holder, error) {
	s, err := l.Status(ctx)
	return s.Holders, err
}

// IsHeld reports whether anybody holds a lock.
func IsHeld(ctx context.Context, l Locked) (bool, error) {
	s, err := l.Status(ctx)
	return s.Held(), err
}

// Waiting returns how many processes wait for a lock that is held.
func Waiting(ctx context.Context, l Locked) (int, error) {
	s, err := l.Status(ctx)
	if err == nil && !s.Held() {
		err = holdfast.ErrNotHeld
	}
	return s.Waiting, err
}

// HasCode reports whether err says that the server is unavailable, with that code.
func HasCode(err error, code string) bool {
	var server *holdfast.ServerError
	return errors.As(err, &server) && server.Code == code && errors.Is(err, holdfast.ErrUnavailable)
}

// Code is a server's error code, as an error for Matches to compare with.
type Code string

func (c Code) Error() string { return string(c) }

// Matches is errors.Is, or HasCode if want is a Code.
func Matches(err, want error) bool {
	if code, is := want.(Code); is {
		return HasCode(err, string(code))
	}
	return errors.Is(err, want)
}

// Renew returns the option that makes a lease renewed, or not renewed.
func Renew(on bool) holdfast.Option {
	if on {
		return holdfast.Options()
	}
	return holdfast.NoRenew()
}

// IsDone reports whether a job was completed in its window.
func IsDone(ctx context.Context, job *once.Job) (bool, error) {
	last, err := job.Last(ctx)
	if errors.Is(err, once.ErrNone) {
		return false, nil
	}
	return last.Current, err
}

// Candidate runs in an election. It leads until it is told what to return.
type Candidate struct {
	Terms  chan Term  // terms that it was elected for
	Answer chan error // what lead returns
	Over   chan error // what Run returned
}

// Term is what lead was called with.
type Term struct {
	Lease *holdfast.Lease
	Ctx   context.Context
}

// Campaign runs a candidate in an election, in a goroutine.
func Campaign(ctx context.Context, e *election.Election) *Candidate {
	c := &Candidate{make(chan Term), make(chan error), make(chan error, 1)}
	go func() {
		c.Over <- e.Run(ctx, func(ctx context.Context, term *holdfast.Lease) error {
			select {
			case c.Terms <- Term{term, ctx}:
			case <-ctx.Done(): // before anybody asked for it
				return ctx.Err()
			}
			return <-c.Answer
		})
	}()
	return c
}

// Elected waits for a term.
func (c *Candidate) Elected(tb testing.TB) (*holdfast.Lease, context.Context) {
	tb.Helper()
	select {
	case term := <-c.Terms:
		return term.Lease, term.Ctx
	case err := <-c.Over:
		tb.Fatalf("Run: %v", err)
	case <-time.After(30 * time.Second):
		tb.Fatal("not elected")
	}
	return nil, nil
}

// Ran is called after lead was told to return. It waits for Run, and returns what Run returned. The test fails if the candidate
// is elected again, which happens if it lost its term before lead returned.
func (c *Candidate) Ran(tb testing.TB) error {
	tb.Helper()
	for {
		select {
		case err := <-c.Over:
			return err
		case term := <-c.Terms:
			tb.Errorf("elected once more, with fence %d", term.Lease.Fence())
			c.Answer <- nil
		}
	}
}

// Watch watches an election until the test ends. next waits for the next leader that the watcher reports, and
// returns its owner, or "" if there is none. It fails the test after half of the interval at which a watcher
// that hears nothing looks by itself.
func Watch(tb testing.TB, e *election.Election) (next func() string) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	seen, over := make(chan string), make(chan struct{})
	tb.Cleanup(func() {
		cancel()
		<-over
	})
	go func() {
		defer close(over)
		for status, err := range e.Watch(ctx) {
			leader, _ := status.Holder()
			expect.Err(tb, "Watch", err, nil)
			select {
			case seen <- leader.Identity:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() string {
		tb.Helper()
		select {
		case owner := <-seen:
			return owner
		case <-time.After(15 * time.Second):
			tb.Fatal("the watcher sees nothing")
			return ""
		}
	}
}

// Resource is what a lock protects. It accepts a write only if its fence is not below the highest that it has
// seen.
type Resource struct {
	mu    sync.Mutex
	mark  uint64
	stale int
}

// Write reports whether the write is accepted. It is refused after a later holder's write.
func (r *Resource) Write(fence uint64) (ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if fence < r.mark {
		r.stale++
		return false
	}
	r.mark = fence
	return true
}

// Stale returns how many writes the resource has refused.
func (r *Resource) Stale() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stale
}

// Succeed makes the next holder of a lock write, and then the holder before it, which is late: only the next
// one's write may be accepted. Succeed reports whether both believed that they held the lock.
func (r *Resource) Succeed(tb testing.TB, before, next *holdfast.Lease) (overlap bool) {
	tb.Helper()
	overlap = before.Err() == nil && next.Err() == nil
	expect.Rises(tb, before.Fence(), next.Fence())
	if !r.Write(next.Fence()) {
		tb.Errorf("the resource refuses the holder with fence %d", next.Fence())
	}
	expect.Equal(tb, "the resource takes a write with a fence before the last", r.Write(before.Fence()), false)
	return overlap
}

// SetCounter makes a fence counter whose last fence is this one.
func SetCounter(tb testing.TB, rdb redis.Cmdable, key string, fence int64) {
	tb.Helper()
	ctx := context.Background()
	rdb.Del(ctx, key)
	expect.OK(tb, rdb.XAdd(ctx, &redis.XAddArgs{Stream: key, ID: IDOf(fence), Values: []string{"g", ""}}).Err())
}

// IDOf returns the id of a fence in its counter.
func IDOf(fence int64) string { return fmt.Sprintf("%d-%d", fence/1000, fence%1000) }

// LastFence returns the last fence of a counter; 0 if there is none.
func LastFence(tb testing.TB, rdb redis.Cmdable, key string) int64 {
	tb.Helper()
	ctx := context.Background()
	var id string
	entries, err := rdb.XRevRangeN(ctx, key, "+", "-", 1).Result()
	if len(entries) > 0 {
		id = entries[0].ID
	} else if err == nil && rdb.Exists(ctx, key).Val() == 1 {
		id = rdb.XInfoStream(ctx, key).Val().LastGeneratedID
	}
	if id == "" {
		return 0
	}
	ms, seq, _ := strings.Cut(id, "-")
	fence, _ := strconv.ParseInt(ms, 10, 64)
	more, _ := strconv.ParseInt(seq, 10, 64)
	return fence*1000 + more
}
