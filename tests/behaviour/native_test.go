package behaviour

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// eachNative runs f on the servers that have DELIFEQ.
func eachNative(t *testing.T, f func(t testing.TB, b *backend.Backend)) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		if !b.Server.Binary().Deletes() {
			t.Skipf("SKIPPED: %s has no DELIFEQ; Valkey 9 has", b.Name)
		}
		f(t, b)
	})
}

// releasing returns a function that reports how many releases since its last call used the server's own
// command, the batch script, and the script for one lock.
func releasing(s *server.Server) func() string {
	var before map[string]int64
	count := func() map[string]int64 {
		stats := s.CommandStats()
		return map[string]int64{"delifeq": stats["delifeq"], "mget": stats["mget"], "evalsha": stats["eval"] + stats["evalsha"]}
	}
	before = count()
	return func() string {
		now := count()
		defer func() { before = now }()
		return fmt.Sprintf("%d DELIFEQ, %d MGET, %d scripts", now["delifeq"]-before["delifeq"], now["mget"]-before["mget"], now["evalsha"]-before["evalsha"])
	}
}

// A release is one DELIFEQ. If a waiter has come, that does nothing, and the script that hands the lock over follows.
func TestAReleaseIsOneCommand(t *testing.T) {
	eachNative(t, func(t testing.TB, b *backend.Backend) {
		c, _ := through(t, b, nil)
		other := b.Client(t, nil)
		end := settled(t, b, c)
		for _, s := range []script.Script{script.Release(), script.BatchRelease()} {
			expect.OK(t, b.Redis(t).ScriptLoad(t.Context(), s.Source).Err())
		}
		// A renewal would change the value.
		lease := backend.Acquire(t, c.Mutex("m", holdfast.Meta("a", "b:c+"), holdfast.NoRenew()))
		since := releasing(b.Server)
		backend.Release(t, lease)
		expect.Equal(t, "a release", since(), "1 DELIFEQ, 0 MGET, 0 scripts")

		lease = backend.Acquire(t, c.Mutex("m", holdfast.TTL(time.Minute), holdfast.NoRenew()))
		waiting := queue(t, other.Mutex("m"), 1)
		since()
		backend.Release(t, lease)
		next := backend.Receive(t, waiting)
		expect.Begins(t, "a release of a lock that is waited for", since(), "1 DELIFEQ,")
		backend.Release(t, next)

		// So it is if they leave together.
		const goroutines = 40
		leases := make([]*holdfast.Lease, goroutines)
		for i := range leases {
			leases[i] = backend.Acquire(t, c.Mutex(fmt.Sprint("m", i), holdfast.TTL(time.Minute), holdfast.NoRenew()))
		}
		since()
		crowd(goroutines, func(i int) {
			noError(t, leases[i].Release(t.Context()))
		})
		expect.Equal(t, "releases at once", since(), fmt.Sprintf("%d DELIFEQ, 0 MGET, 0 scripts", goroutines))
		end()
		b.Cleaned(t)
	})
}

// A refusal that may pass is no reason to give up the command: another server may become the master.
func TestAServerThatIsReplacedByAnOlderOne(t *testing.T) {
	eachNative(t, func(t testing.TB, b *backend.Backend) {
		c, p := through(t, b, nil)
		var old atomic.Bool
		var asked atomic.Int64
		p.Filter(func(request []byte) []byte {
			asked.Add(int64(bytes.Count(request, []byte("DELIFEQ"))))
			if old.Load() { // it answers that it does not know the command
				request = bytes.ReplaceAll(request, []byte("DELIFEQ"), []byte("DELIFNE"))
			}
			return request
		})
		use := func(want int64) {
			t.Helper()
			before := asked.Load()
			for i := range 3 {
				backend.Release(t, backend.Acquire(t, c.Mutex(fmt.Sprint("m", i))))
			}
			expect.Equal(t, "requests of DELIFEQ", asked.Load()-before, want)
		}
		use(3)
		// It is refused for the moment.
		lease := backend.Acquire(t, c.Mutex("m"))
		for _, want := range []any{"1", "0"} {
			expect.OK(t, expect.ErrOf(b.Server.Do("CONFIG", "SET", "min-replicas-to-write", want)))
			if err := lease.Release(t.Context()); (err != nil) != (want == "1") || err != nil && !backend.HasCode(err, "NOREPLICAS") {
				expect.Err(t, fmt.Sprintf("Release, with %v replicas wanted", want), err, holdfast.ErrAmbiguous)
			}
		}
		use(3)
		old.Store(true)
		use(1)
		use(0)
		old.Store(false)
		use(0) // for good
		b.Cleaned(t)
	})
}
