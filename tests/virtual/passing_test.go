package virtual

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// trap holds back the first request that fits, or its answer, until it is let go.
type trap struct {
	held, letGo chan struct{}
}

func newTrap() *trap { return &trap{make(chan struct{}), make(chan struct{})} }

func (d *trap) hold() {
	select {
	case <-d.held: // one has been held back
	default:
		close(d.held)
		<-d.letGo
	}
}

// inLine acquires the lock in a goroutine, and returns when that is in the wait queue.
func inLine(t *testing.T, l *holdfast.Lock) *waiting {
	t.Helper()
	w := &waiting{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.lease, w.err = l.Acquire(t.Context())
	}()
	synctest.Wait()
	return w
}

// A holder reserves fences for a waiting goroutine. Before it hears of them, the server loses its data, and the
// holder claims its lock again. The counter knows nothing of those fences, and its clock is behind them.
func TestFencesThatWereReservedBeforeALossAreNotUsed(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		const ttl = 150 * time.Millisecond
		rdb := server(t, srv)
		backend.SetCounter(t, rdb, "holdfast:fences", time.Now().Add(time.Hour).UnixMicro())
		d := newTrap()
		c := client(t, srv, meddle(func(r request) (string, error) {
			reply, err := r.send()
			if r.Script.Name == "renew" && r.Args[3] != "0" {
				d.hold()
			}
			return reply, err
		}))
		lock := c.Mutex("a", holdfast.TTL(ttl))

		first := acquire(t, lock)
		second := inLine(t, lock)
		<-d.held
		srv.FlushAll()
		if err := first.Extend(t.Context(), ttl); err != nil {
			t.Fatalf("the holder does not have its lock again: %v", err)
		}
		close(d.letGo)
		synctest.Wait()
		seen := first.Fence()
		release(t, first)
		second.granted(t)
		for _, lease := range []*holdfast.Lease{second.lease, nil} {
			if lease == nil {
				lease = acquire(t, configured(t, srv, holdfast.Config{ViaClient: true}).Mutex("a")) // which takes one fence
			}
			if lease.Fence() <= seen {
				t.Errorf("fence %d follows %d", lease.Fence(), seen)
			}
			seen = lease.Fence()
			release(t, lease)
		}
	})
}

// A lease is released when it was extended beyond the TTL, or while it is. The waiting goroutine did not ask for so much:
// if its process died, everybody would wait for the extended time.
func TestALeaseThatIsBeingExtendedIsNotPassedOn(t *testing.T) {
	for _, meanwhile := range []bool{true, false} {
		bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
			const ttl, long = 10 * time.Second, 20 * time.Minute
			d := newTrap()
			lock := configured(t, srv, holdfast.Config{MaxTTL: time.Hour}, meddle(func(r request) (string, error) {
				if meanwhile && r.Script.Name == "renew" && r.Args[2] == strconv.FormatInt(long.Milliseconds(), 10) {
					d.hold()
				}
				return r.send()
			})).Mutex("a", holdfast.TTL(ttl))

			// The second lease has reserved fences for the third.
			first := acquire(t, lock)
			second, third := inLine(t, lock), inLine(t, lock)
			release(t, first)
			second.granted(t)
			time.Sleep(20 * time.Millisecond) // until its first renewal has reserved a fence for the third
			extended := make(chan error, 1)
			go func() { extended <- second.lease.Extend(t.Context(), long) }()
			want := error(nil)
			if meanwhile {
				want = holdfast.ErrReleased
				<-d.held
			} else {
				synctest.Wait()
			}
			release(t, second.lease)
			close(d.letGo)
			third.granted(t)
			if err := <-extended; err != want {
				t.Errorf("Extend: %v, want %v", err, want)
			}
			if own := time.Until(third.lease.Deadline()); own > ttl {
				t.Errorf("the next lease lasts for %s; it asked for %s", own, ttl)
			}
			if left := server(t, srv).PTTL(t.Context(), "holdfast:{a}").Val(); left > ttl {
				t.Errorf("the next lease lasts for %s on the server; it asked for %s", left, ttl)
			}
			release(t, third.lease)
		})
	}
}

// Fault: An answer has a fence that is far too high. It is shown to nobody: wherever it was seen, it would shut out
// all later holders.
func TestFencesBeyondBelief(t *testing.T) {
	const forged = 8_999_999_999_999_000
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		lie := func(about string) wrapper {
			return meddle(func(r request) (string, error) {
				reply, err := r.send()
				words := strings.Fields(reply)
				switch {
				case r.Script.Name == about && len(words) == 5 && words[4] != "0": // granted, renewed: NOW PTTL FENCE BLOCK
					words[3] = strconv.Itoa(forged)
				case r.Script.Name == "batch_"+about && len(words) == 3: // taken NOW FENCE
					words[2] = strconv.Itoa(forged)
				default:
					return reply, err
				}
				return strings.Join(words, " "), err
			})
		}
		_, err := configured(t, srv, cfg, lie("acquire")).Mutex("a").Acquire(t.Context())
		if !errors.Is(err, holdfast.ErrMismatch) || !strings.Contains(err.Error(), `"holdfast:fences"`) {
			t.Errorf("Acquire: %v", err)
		}
		release(t, acquire(t, client(t, srv).Mutex("a"))) // it was given back

		lock := configured(t, srv, cfg, lie("renew")).Mutex("a", holdfast.TTL(150*time.Millisecond))
		first := acquire(t, lock)
		second := inLine(t, lock)
		time.Sleep(90 * time.Millisecond)
		release(t, first)
		second.granted(t)
		if second.lease.Fence() >= forged {
			t.Errorf("a lease is passed on with fence %d", second.lease.Fence())
		}
		release(t, second.lease)
	})
}
