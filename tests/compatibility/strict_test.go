package compatibility

import (
	"regexp"
	"testing"

	"github.com/holdfast-go/holdfast/tests/compatibility/hf1"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// eachReal runs f on every real server. It skips the test if -short is set.
func eachReal(t *testing.T, f func(t testing.TB, s site)) {
	t.Helper()
	t.Parallel()
	if testing.Short() {
		t.Skip("SKIPPED: part of make test-all")
	}
	backend.EachRealUndisturbed(t, func(t testing.TB, b *backend.Backend) { f(t, site{Backend: b}) })
}

// markForm is the incarnation mark.
var markForm = regexp.MustCompile(`^hf1:[0-9a-f]{40}/[0-9a-f]{40}:\d{16,}:\d+$`)

func markOf(tb testing.TB, s site, c *hf1.Client) string {
	tb.Helper()
	mark := s.Redis(tb).Get(tb.Context(), c.Mark()).Val()
	if !markForm.MatchString(mark) {
		tb.Fatalf("the incarnation mark is %q", mark)
	}
	return mark
}

// In Strict mode either side honours an incarnation mark that the other has written, and neither grants a lock
// before the quarantine ends. Each prefix has its own mark.
func TestStrictModeOfBoth(t *testing.T) {
	eachReal(t, func(t testing.TB, s site) {
		s.strict = true
		whole := longest.Milliseconds()

		// The library is the first to find the server unknown.
		s.prefix = "one:"
		p, c := library(t, s), recorded(t, s)
		p.mutex("a job").quarantined()
		mark := markOf(t, s, c)
		if rest := c.Mutex("a job").New(term).Try().Want("quarantined").Int("REST"); rest > whole || rest < whole/2 {
			t.Errorf("the quarantine has %d ms left of %d", rest, whole)
		}
		c.Init("l").Want("known")
		c.Init("").Want("quarantined")
		same(t, "the mark", markOf(t, s, c), mark)
		a := c.Mutex("a job").New(term)
		a.Queue().Want("queued")
		a.Release().Want("left")
		c.Init("f").Want("ready")
		p.mutex("a job").acquire().release()

		// The recorded client is the first.
		s.prefix = "two:"
		p, c = library(t, s), recorded(t, s)
		c.Mutex("a job").New(term).Try().Want("quarantined")
		mark = markOf(t, s, c)
		p.mutex("a job").quarantined()
		if p.admit() == nil {
			t.Error("the library admits a server in quarantine")
		}
		same(t, "the mark", markOf(t, s, c), mark)

		// Either side admits the server for both, until the mark is lost.
		for _, admit := range []func(){
			func() { c.Init("l").Want("new"); c.Init("").Want("ready") },
			func() {
				if err := p.admit(); err != nil {
					t.Errorf("Init: %v", err)
				}
			},
		} {
			s.prefix += "x:"
			p, c = library(t, s), recorded(t, s)
			admit()
			mark = markOf(t, s, c)
			handsOverToLibrary(t, s, kinds["mutex"])
			handsOverToRecorded(t, s, kinds["mutex"])
			handsOverToLibrary(t, s, kinds["writer behind a reader"])
			handsOverToRecorded(t, s, kinds["permits"])
			same(t, "the mark", markOf(t, s, c), mark)

			lease := p.mutex("a job").acquire()
			next := c.Mutex("a job").New(term)
			next.Queue().Want("queued")
			s.Redis(t).Del(t.Context(), c.Mark())
			lease.release()
			free(t, next.Lock)
			next.StandBy()
			if rest := next.Look().Want("queued").Int("PTTL"); rest > whole || rest < whole/2 {
				t.Errorf("a waiter is told to wait for %d ms of a quarantine of %d", rest, whole)
			}
			next.Release().Want("left")
		}
	})
}

// In Cluster mode each lock has its own fence counter, and channels are sharded, for both sides.
func TestAClusterOfBoth(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("SKIPPED: part of make test-all")
	}
	scenarios := map[string]func(t testing.TB, s site){
		"readers": readTogether, "weights": changeWeights, "permits": sharePermits, "owner": shareAnOwner,
		"latch": shareALatch, "barrier": shareABarrier, "election": shareAnElection,
	}
	for name, k := range kinds {
		scenarios[name] = func(t testing.TB, s site) {
			handsOverToLibrary(t, s, k)
			handsOverToRecorded(t, s, k)
		}
	}
	for _, bin := range server.Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			nodes := server.StartCluster(t, bin, 1)
			for name, f := range scenarios {
				t.Run(name, func(t *testing.T) {
					machine.UndisturbedTest(t, func(t testing.TB) {
						s := site{Backend: &backend.Backend{Name: bin.Name, Server: nodes[0]}}
						s.Redis(t).FlushAll(t.Context())
						f(t, s)
					})
				})
			}
		})
	}
}
