package backend

import (
	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/options"
)

// Pair is a pair of locks that two clients cannot hold at the same time.
type Pair struct {
	Held, Wanted func(c *holdfast.Client) *holdfast.Lock
	Seen         func(c *holdfast.Client) *holdfast.Lock // a waiter shows in its queue
}

// OneServer is an option of the locks of one server, such as holdfast.Durability.
type OneServer interface {
	holdfast.MutexOption
	holdfast.RWMutexOption
	holdfast.SemaphoreOption
	holdfast.MultiOption
}

// Alike returns a pair of which both are the same lock.
func Alike(lock func(c *holdfast.Client) *holdfast.Lock) Pair { return Pair{lock, lock, lock} }

// Pairs returns a pair of every kind of lock but the mutex, by kind, with these options. All names that begin
// with "{a}/" are in one Cluster slot.
func Pairs(with ...OneServer) map[string]Pair {
	type client = *holdfast.Client
	type lock = *holdfast.Lock
	reader := func(name string) func(client) lock {
		return func(c client) lock { return c.RWMutex(name, options.For[holdfast.RWMutexOption](with)...).Reader() }
	}
	writer := func(name string) func(client) lock {
		return func(c client) lock { return c.RWMutex(name, options.For[holdfast.RWMutexOption](with)...).Writer() }
	}
	mutex := func(name string) func(client) lock { return func(c client) lock { return c.Mutex(name) } }
	multi := func(names ...string) func(client) lock {
		return func(c client) lock { return c.Multi(names, options.For[holdfast.MultiOption](with)...) }
	}
	owner := func(id string) func(client) lock {
		return func(c client) lock {
			return c.OwnerMutex("{a}/own", id, options.For[holdfast.MutexOption](with)...)
		}
	}
	return map[string]Pair{
		"an owner behind another": {owner("one"), owner("other"), owner("one")},
		// Its key is not derived from the name, and must be in the slot of the others.
		"Redisson's": Alike(func(c client) lock {
			return c.RedissonMutex("{{a}/r", options.For[holdfast.MutexOption](with)...)
		}),
		"a writer behind a reader": {reader("{a}/rw"), writer("{a}/rw"), writer("{a}/rw")},
		"a reader behind a writer": {writer("{a}/wr"), reader("{a}/wr"), reader("{a}/wr")},
		"permits": Alike(func(c client) lock {
			return c.Semaphore("{a}/s", 3, options.For[holdfast.SemaphoreOption](with)...).Permits(2)
		}),
		"several of one slot":  {multi("{a}/2", "{a}/1"), multi("{a}/1", "{a}/2"), mutex("{a}/1")},
		"several of any slots": {multi("{a}/3", "job-2", "job-0"), multi("job-0", "job-2", "{a}/3"), mutex("job-0")},
	}
}
