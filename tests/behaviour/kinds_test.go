package behaviour

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// Fault: A name is in use as another kind of lock. The error, ErrMismatch, names the kind: the caller should use it
// as that, not delete it.
func TestAnotherKindOfLockIsNamed(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		take := func(l *holdfast.Lock) func(context.Context) error {
			return func(ctx context.Context) error { _, err := l.TryAcquire(ctx); return err }
		}
		mutex, sem, rw := c.Mutex("mutex"), c.Semaphore("sem", 2), c.RWMutex("rw")
		own := c.OwnerMutex("own", "o")
		theirs := c.RedissonMutex("holdfast:{redisson}")
		for _, l := range []*holdfast.Lock{mutex, sem.Permits(1), rw.Reader(), own, theirs} {
			backend.Acquire(t, l)
		}
		rdb := b.Redis(t)
		for key, value := range map[string]string{"holdfast:{string}": "x", "holdfast:{queue}:q": "x"} {
			if err := rdb.Set(t.Context(), key, value, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if err := rdb.HSet(t.Context(), "holdfast:{hash}", "a", "b", "kind", "none of ours").Err(); err != nil {
			t.Fatal(err)
		}
		const oneHolder, useAs = "a lock with one holder at a time", "use the name for that kind"
		for what, c := range map[string]struct {
			ask  func(context.Context) error
			says []string
		}{
			"the leader of a semaphore":     {func(ctx context.Context) error { _, err := c.Election("sem").Leader(ctx); return err }, []string{"holds a semaphore", useAs}},
			"the holder of a semaphore":     {func(ctx context.Context) error { _, err := backend.HolderOf(ctx, c.Mutex("sem")); return err }, []string{"holds a semaphore", useAs}},
			"a mutex for a semaphore":       {take(c.Mutex("sem")), []string{"holds a semaphore", useAs}},
			"a mutex for readers":           {take(c.Mutex("rw")), []string{"holds a read-write lock", useAs}},
			"a mutex for owners":            {take(c.Mutex("own")), []string{"holds an owner's lock", useAs}},
			"a mutex for Redisson's":        {take(c.Mutex("redisson")), []string{"Redisson's RLock", useAs}},
			"the leader of one of Redisson": {func(ctx context.Context) error { _, err := c.Election("redisson").Leader(ctx); return err }, []string{"Redisson's RLock", useAs}},
			"a semaphore for a mutex":       {take(c.Semaphore("mutex", 2).Permits(1)), []string{oneHolder, useAs}},
			"the permits of a mutex":        {func(ctx context.Context) error { _, err := backend.HoldersOf(ctx, c.Semaphore("mutex", 2)); return err }, []string{oneHolder, useAs}},
			"the readers of a semaphore": {func(ctx context.Context) error {
				_, err := backend.HoldersOf(ctx, c.RWMutex("sem").Reader())
				return err
			}, []string{"holds a semaphore", useAs}},
			"a reader of a semaphore": {func(ctx context.Context) error {
				_, err := backend.HolderOf(ctx, c.RWMutex("sem").Reader())
				return err
			}, []string{"holds a semaphore", useAs}},
			"whether readers hold permits":   {func(ctx context.Context) error { _, err := backend.IsHeld(ctx, c.Semaphore("rw", 2)); return err }, []string{"holds a read-write lock", useAs}},
			"a semaphore for readers":        {take(c.Semaphore("rw", 2).Permits(1)), []string{"holds a read-write lock", useAs}},
			"a writer for permits":           {take(c.RWMutex("sem").Writer()), []string{"holds a semaphore", useAs}},
			"Redisson's form for a mutex":    {take(c.RedissonMutex("holdfast:{mutex}")), []string{oneHolder, useAs}},
			"several, one of them otherwise": {take(c.Multi([]string{"free", "sem"})), []string{"{sem}", "holds a semaphore", useAs}},
			"permits for a string":           {take(c.Semaphore("string", 2).Permits(1)), []string{"not a Holdfast lock", "choose another name"}},
			"a mutex for a hash":             {take(c.Mutex("hash")), []string{"not a Holdfast lock", "choose another name"}},
			"a queue that is none":           {func(ctx context.Context) error { _, err := backend.HolderOf(ctx, c.Mutex("queue")); return err }, []string{"its queue", "choose another name"}},
		} {
			err := c.ask(t.Context())
			if !errors.Is(err, holdfast.ErrMismatch) {
				t.Errorf("%s: %v", what, err)
				continue
			}
			if strings.Contains(err.Error(), "delete") {
				t.Errorf("%s: deletion is advised: %v", what, err)
			}
			for _, says := range c.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%s: the error does not say %q: %v", what, says, err)
				}
			}
		}
	})
}
