package behaviour

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// A handle returns its lock's status, which changes nothing.
func TestStatusOfEachKind(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, &holdfast.Config{Identity: "me"})
		theLatch := latch.New(c, "l", 7)
		type locked interface {
			backend.Locked
			Name() string
		}
		for l, want := range map[locked]holdfast.Status{
			c.Mutex("m"):                            {Name: "m", Key: "holdfast:{m}", Kind: holdfast.KindMutex},
			c.RWMutex("rw"):                         {Name: "rw", Key: "holdfast:{rw}", Kind: holdfast.KindRWMutex},
			c.Semaphore("s", 5):                     {Name: "s", Key: "holdfast:{s}", Kind: holdfast.KindSemaphore, Limit: 5},
			theLatch:                                {Name: "l", Key: "holdfast:{l}", Kind: holdfast.KindLatch, Limit: 7, Count: 7},
			barrier.New(c, "b", 3):                  {Name: "b", Key: "holdfast:{b}", Kind: holdfast.KindBarrier, Limit: 3},
			once.New(c, "o", once.Every(time.Hour)): {Name: "o", Key: "holdfast:{o}", Kind: holdfast.KindMutex},
			election.New(c.Mutex("e")):              {Name: "e", Key: "holdfast:{e}", Kind: holdfast.KindElection},
			c.OwnerMutex("own", "somebody"):         {Name: "own", Key: "holdfast:{own}", Kind: holdfast.KindOwner},
			c.RedissonMutex("r"):                    {Name: "r", Key: "r", Kind: holdfast.KindRedisson},
			c.MutexKey("k"):                         {Name: "k", Key: "k", Kind: holdfast.KindMutex},
		} {
			got, err := l.Status(t.Context())
			if err != nil || l.Name() != want.Name || time.Since(got.Time).Abs() > time.Minute {
				t.Errorf("%s: %+v, %v", want.Name, got, err)
			}
			got.Time = time.Time{}
			expect.Equal(t, "Status", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
		}
		party := expect.Of(theLatch.Register(t.Context())).OK(t)
		got, err := theLatch.Status(t.Context())
		if h, held := got.Holder(); err != nil || !held || h.Name != "l" || h.Identity != "me" || h.Mode != holdfast.ModeParty || h.TTL <= 0 ||
			got.Limit != 7 || got.Count != 7 {
			t.Errorf("Status of a latch is %+v, %v", got, err)
		}
		expect.OK(t, party.Leave(t.Context()))
		if got, err := theLatch.Status(t.Context()); err != nil || got.Count != 6 || got.Held() {
			t.Errorf("Status of a latch whose party has left is %+v, %v", got, err)
		}
		several := c.Multi([]string{"m", "n"})
		lease := backend.Acquire(t, several)
		got, err = several.Status(t.Context())
		if err != nil || len(got.Holders) != 2 || got.Name != "m, n" || got.Key != "" || got.Holders[0].Fence != lease.Fences()[got.Holders[0].Name] {
			t.Errorf("Status of several is %+v, %v", got, err)
		}
		backend.Release(t, lease)
	})
}
